"""Red team: sentinel secrets for every place that can hold one, a model that repeats them in every encoding, and a
search for them in whatever came out.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.record.audit.evidence import export_evidence
from hermes.record.bundle import write_bundle
from hermes.testing import RecordedRequest, ScriptedProvider, text, tool_calls
from hermes.tools.files.guard import FileGuard

#: One secret for each place; none looks like a key of a known service.
PLACES = (
    *("model.api_key", "extra_headers", "userinfo", "plugin entry", "delegation"),
    *("env file, secret name", "env file, named by a setting", "env file, no name", "database address"),
    *("principal", "auth.json", "refresh token", "shell variable", "langfuse"),
)
SENTINELS = {
    place: f"qz{number:02}+Kx/{place[:4].strip()}_w7Vd-{number * 7919:06}uT" for number, place in enumerate(PLACES)
}
SENTINELS["userinfo"] = "qz02Kx-userinfo-w7Vd-015838uT"
SENTINELS["database address"] = "qz08Kx-database-w7Vd-063352uT"


def encodings(secret: str) -> Iterator[str]:
    """Every form in which a secret must not be found."""
    data = secret.encode()
    yield secret
    yield secret[::-1]
    yield data.hex()
    yield data.hex().upper()
    yield quote(secret, safe="")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            yield encode(b"abc"[:shift] + data + b"defg").decode()


def all_of_them() -> str:
    """A text with every secret in every form, some of it broken into lines."""
    lines: list[str] = []
    for place, secret in SENTINELS.items():
        forms = list(encodings(secret))
        whole = base64.encodebytes(f"{place}\n{secret}\n".encode() * 4).decode()
        lines += [f"the {place} is {secret};", *forms, whole, "\n".join(re.findall(".{1,24}", forms[-1]))]
    return "\n".join(lines)


def found_in(haystack: str) -> list[str]:
    """The forms that the text contains, also across line breaks and escapes."""
    joined = re.sub(r"\\+[nr]|[\s\\\"]|(?<=n) *\d+\|", "", haystack)
    hits: list[str] = []
    for place, secret in SENTINELS.items():
        for form in encodings(secret):
            # The ends of an encoding depend on what stands around the secret.
            core = form[4:-8]
            if core in haystack or core in joined:
                hits.append(f"{place}: {form}")
    return hits


def script_of(leak: Path) -> str:
    """A script that prints what it can read, by itself and by a tool."""
    return (
        f"import os\nfrom hermes_tools import read_file\nprint(open({str(leak)!r}).read(), dict(os.environ))\n"
        f"print(read_file(path={str(leak)!r}), {SENTINELS['refresh token']!r})"
    )


def model(leak: Path, home: Path) -> Any:
    """Reads what it can, then repeats everything."""

    def choose(request: RecordedRequest) -> Any:
        if request.step == 0:
            return tool_calls(
                [
                    ("read_file", {"path": str(leak)}),
                    ("terminal", {"command": f"cat {leak}; env; echo {SENTINELS['auth.json']}"}),
                    ("read_file", {"path": str(home / ".env")}),
                    ("read_file", {"path": str(home / "config.yaml")}),
                    ("search_files", {"pattern": "the .* is", "path": str(leak)}),
                    ("terminal", {"command": f"cd {SENTINELS['model.api_key']}"}),
                    ("execute_code", {"code": script_of(leak)}),
                ],
                content=f"I look at {SENTINELS['principal']}",
            )
        return text(all_of_them(), chunks=40)

    return choose


def plant(home: Path, base_url: str) -> dict[str, str]:
    """Put the secrets into a home; returns the environment of the shell."""
    home.mkdir(parents=True, exist_ok=True)
    config = {
        "model": {
            "provider": "custom",
            "default": "scripted",
            "base_url": base_url,
            "api_key": SENTINELS["model.api_key"],
            "extra_headers": {"X-Lab": SENTINELS["extra_headers"]},
        },
        "providers": {
            "other": {"base_url": f"https://me:{SENTINELS['userinfo']}@models.example/v1"},
            "third": {"base_url": "https://models.example/v1", "key_env": "ODDLY_NAMED"},
        },
        "agent": {"api_max_retries": 0},
        "toolsets": ["hermes-cli", "code_execution"],
        "delegation": {"api_key": SENTINELS["delegation"]},
        "plugins": {
            "enabled": ["observability/otel", "observability/langfuse"],
            "entries": {"thing": {"client_secret": SENTINELS["plugin entry"]}},
        },
        "a2a": {"principals": {"alice": {"token_env": "ALICE"}}},
    }
    (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    lines = {
        "LAB_KEY": SENTINELS["env file, secret name"],
        "ODDLY_NAMED": SENTINELS["env file, named by a setting"],
        "SETTING": SENTINELS["env file, no name"],
        "DATABASE_URL": f"postgres://app:{SENTINELS['database address']}@db.example/app",
        "ALICE": SENTINELS["principal"],
    }
    (home / ".env").write_text("".join(f"{name}='{value}'\n" for name, value in lines.items()))
    stored = {"id": "1", "access_token": SENTINELS["auth.json"], "refresh_token": SENTINELS["refresh token"]}
    (home / "auth.json").write_text(json.dumps({"version": 1, "credential_pool": {"acme": [stored]}}))
    for name in (".env", "auth.json", "config.yaml"):
        (home / name).chmod(0o600)
    return {"SERVICE_TOKEN": SENTINELS["shell variable"], "LANGFUSE_SECRET_KEY": SENTINELS["langfuse"]}


def recorded(home: Path) -> str:
    """Everything in the journal, as it is stored."""
    store = SqliteStore(home / "state.db")
    try:
        sessions = Sessions(store)
        rows = sessions.list(limit=1_000, children=True)
        return "".join(msgspec.json.encode(sessions.export(row.id)).decode() for row in rows)
    finally:
        store.close()


def written(home: Path) -> Iterator[tuple[str, str]]:
    """Every file of the home but those that the secrets were planted in."""
    for path in sorted(home.rglob("*")):
        if path.name == "config.yaml.parsed":  # the same document once more, as private and as protected
            assert path.stat().st_mode & 0o077 == 0 and FileGuard(home).refusal(path) is not None
        elif path.is_file() and path.name not in (".env", "auth.json", "config.yaml"):
            yield str(path), path.read_bytes().decode("latin-1")


def check(host: Host, provider: ScriptedProvider, said: str) -> None:
    """Nothing is in what a surface said, in the requests and in the files of the home."""
    out = {"said": said, "journal": recorded(host.home), **dict(written(host.home))}
    out |= {f"request {number}": json.dumps(one.body) for number, one in enumerate(provider.requests)}
    for row in host.sessions.list():
        out[f"bundle of {row.id}"] = write_bundle(host.store, row.id)
        out[f"evidence of {row.id}"] = export_evidence(host.store, row.id, []).decode()
    assert len(provider.requests) == 2 and "<redacted:" in said
    assert {name: found for name, content in out.items() if (found := found_in(content))} == {}
