"""``hermes doctor`` and secrets: no way leads into its output, and files that hold them are for their owner alone."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

import pytest

from hermes.journal.runner import FileRunner
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.usage.plugins import PluginCalls, record_plugin_counters
from hermes.surfaces.cli.doctor.check import Installation
from journal.kit import start_turn
from support import run_hermes
from support.doctor_rig import answering, examine, write_private_config

#: A secret for every place that may hold one. None has a shape that gives it away.
SENTINELS = {
    name: f"zq{number}vermilion{number}walrus{number}"
    for number, name in enumerate(
        ("config", "header", "environment", "env_file", "query", "plugin", "proxy", "server", "hook", "named", "entry")
    )
}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def plant(home: Path, base_url: str) -> None:
    s = SENTINELS
    write_private_config(
        home,
        f"model:\n  default: m\n  base_url: {base_url}?token={s['query']}\n  api_key: {s['config']}\n"
        f"  extra_headers: {{X-Api-Key: {s['header']}}}\n"
        "fallback_providers:\n"
        "  - {provider: custom, model: n, base_url: 'http://model.example/v1', key_env: ODD_NAME}\n"
        f"plugins:\n  enabled: [leaky]\n  entries:\n    leaky:\n      password: {s['entry']}\n"
        f"hooks:\n  pre_tool_call:\n    - command: 'curl --token={s['hook']} http://127.0.0.1:1'\n"
        "unknown_setting: 1\n",
    )
    (home / ".env").write_text(f"SOME_API_KEY={s['env_file']}\nODD_NAME={s['named']}\n")
    folder = home / "plugins" / "leaky"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: leaky\n")
    (folder / "__init__.py").write_text(f"raise ValueError('password={s['plugin']} {s['env_file']} {s['entry']}')\n")
    runner = FileRunner(home / "runners")
    with closing(SqliteStore(home / "state.db")) as store:
        start_turn(store, runner).end("completed", answer="x")
        errors = [PluginCalls("leaky", "pre_tool_call", 2, 2, 0.1, f"refused {s['env_file']}, {s['environment']}")]
        record_plugin_counters(store, "s1", errors)
    runner.close()


@pytest.mark.parametrize("style", [[], ["--json"]], ids=["text", "json"])
def test_no_secret_reaches_the_output(home: Path, workdir: Path, style: list[str]) -> None:
    s = SENTINELS
    env = {"OTHER_TOKEN": s["environment"], "http_proxy": f"http://me:{s['proxy']}@127.0.0.1:1"}
    echo = {"error": {"message": f"you sent {s['config']} and {s['header']} and {s['query']}, not {s['env_file']}"}}
    with answering(lambda _method, _path: (500, echo)) as (base_url, requests):
        plant(home, base_url)
        done = run_hermes("doctor", "--load", *style, home=home, cwd=workdir, env=env)
    assert requests != [] and done.returncode == 1
    shown = done.stdout + done.stderr
    assert "<redacted>" in shown and "leaky" in shown and "fallback 1" in shown
    assert {name for name, value in s.items() if value in shown} == set()


@pytest.mark.parametrize(
    "text",
    ["model:\n  api_key: SECRET\n  api_key: SECRET\n", "api_key: *SECRET\n", "api_key: 'SECRET\n", "api_key: [SECRET"],
)
def test_a_configuration_that_cannot_be_parsed_keeps_its_secrets(home: Path, workdir: Path, text: str) -> None:
    write_private_config(home, text.replace("SECRET", SENTINELS["config"]))
    seen = examine(home, workdir, "--offline")
    assert seen.about("config.yaml")[0]["status"] == "broken"
    assert SENTINELS["config"] not in seen.output


def test_names_of_secrets_stay_readable(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_private_config(
        home, "model:\n  api_key: ${MY_OWN_KEY}\n  base_url: https://me:pass-word-1@host/v1?sig=abcdefgh1\n"
    )
    monkeypatch.setenv("HTTPS_PROXY", "me:proxy-password@host:1")
    monkeypatch.setenv("BROKEN_URL", "http://[half")
    redact = Installation(home, workdir).redactor.redact
    assert redact("set ${MY_OWN_KEY} in https://host/v1") == "set ${MY_OWN_KEY} in https://host/v1"
    for secret in ("pass-word-1", "abcdefgh1", "proxy-password"):
        assert secret not in redact(f"it said {secret} aloud")


def test_files_that_others_can_read(home: Path, workdir: Path) -> None:
    write_private_config(home, "model:\n  api_key: a-key-in-the-file\n")
    (home / ".env").write_text("A=1\n")
    (home / "auth.json").write_text("{}")
    for name in ("config.yaml", ".env", "auth.json"):
        (home / name).chmod(0o644)
    home.chmod(0o777)
    seen = examine(home, workdir, "system")
    assert seen.code == 1
    found = seen.about("secret files")
    assert [finding["status"] for finding in found] == ["broken"] * 4 and all(one["fixable"] for one in found)
    assert f"chmod 600 {home}/.env" in [finding["command"] for finding in found]
    fixed = examine(home, workdir, "system", "--fix")
    assert (fixed.code, fixed.document["fixed"]) == (0, 4), fixed.output
    assert {mode(home / name) for name in ("config.yaml", ".env", "auth.json")} == {0o600}
    assert mode(home) == 0o755
    assert examine(home, workdir, "system").one("secret files", "ok")["fixed"] is False


def test_a_configuration_without_keys_may_be_read(home: Path, workdir: Path) -> None:
    write_private_config(home, "model:\n  api_key: ${FROM_ENV}\n  default: m\n")
    (home / "config.yaml").chmod(0o644)
    home.chmod(0o755)
    assert examine(home, workdir, "system").one("secret files", "ok")["detail"] == "not readable by other users"


def test_a_configuration_that_cannot_be_read_may_contain_keys(home: Path, workdir: Path) -> None:
    write_private_config(home, "model: [\n")
    (home / "config.yaml").chmod(0o644)
    home.chmod(0o755)
    detail = examine(home, workdir, "system").one("secret files", "broken")["detail"]
    assert "config.yaml may contain keys and is readable by other users" in detail


def test_the_summary_offers_the_repair(home: Path, workdir: Path) -> None:
    home.mkdir(mode=0o700)
    (home / ".env").write_text("A=1\n")
    (home / ".env").chmod(0o640)
    done = run_hermes("doctor", "system", home=home, cwd=workdir)
    assert done.stdout.endswith("1 broken.\n'hermes doctor --fix' repairs 1 of these.\n")
    assert f"\n{' ' * 18}run: chmod 600 {home}/.env\n" in done.stdout
