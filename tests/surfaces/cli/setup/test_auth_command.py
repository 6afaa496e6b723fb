"""``hermes auth``: what is stored, what a person sees of it, and that a key is never among it."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import ProviderError
from hermes.models.credentials.oauth import Tokens
from hermes.models.credentials.pool import CredentialPool
from hermes.models.credentials.store import AuthFile, add_key, add_sign_in
from hermes.models.endpoint import Endpoint
from hermes.surfaces.cli.main import main
from support import run_hermes
from support.repl_terminal import CTRL_C, ReplTerminal

KEY = "sk-sentinel-0123456789abcdef"
LAB = Endpoint("http://127.0.0.1:9/v1", "m", "lab")

Output = pytest.CaptureFixture[str]


def said(capsys: Output, *arguments: str, code: int = 0) -> str:
    assert main(["auth", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def give(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.fixture
def file(home: Path) -> AuthFile:
    """A home with a provider of its own."""
    home.mkdir()
    (home / "config.yaml").write_text(
        "providers:\n  lab: {base_url: 'http://127.0.0.1:9/v1', model: m, key_env: LAB_TOKEN}\n"
        "credential_pool_strategies: {lab: round_robin}\n"
    )
    return AuthFile(home)


def test_nothing_is_stored(home: Path, capsys: Output) -> None:
    assert said(capsys).startswith("No credentials. 'hermes auth add PROVIDER' stores a key")
    assert json.loads(said(capsys, "list", "--json")) == {"path": str(home / "auth.json"), "credentials": []}
    assert not home.exists()


def test_a_key_from_standard_input(file: AuthFile, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, f"  {KEY}\n")
    text = said(capsys, "add", "lab", "--profile", "work", "--key-stdin")
    [stored] = file.credentials("lab")
    assert text == "lab: key …cdef stored as 'work'\n"
    assert (stored.secret, stored.label) == (KEY, "work")


@pytest.mark.parametrize(
    ("text", "message"), [("", "the key is empty"), ("sk a", "a blank"), ("a\nb", "a line break"), ("ü", "non-ASCII")]
)
def test_input_that_is_no_key(
    file: AuthFile, capsys: Output, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    give(monkeypatch, text)
    assert message in said(capsys, "add", "lab", "--key-stdin", code=1)
    assert not file.path.exists()


def test_a_misspelt_provider_is_refused(file: AuthFile, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, KEY)
    assert said(capsys, "add", "openroutr", "--key-stdin", code=1) == (
        "Error: unknown provider 'openroutr'; did you mean 'openrouter'? "
        "'providers.openroutr' in config.yaml adds one\n"
    )
    assert not file.path.exists()


def test_without_a_terminal_nobody_is_asked(file: AuthFile, workdir: Path) -> None:
    done = run_hermes("auth", "add", "lab", home=file.home, cwd=workdir, stdin=KEY)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("Error: not a terminal; give the key on standard input with --key-stdin\n")


def test_on_a_terminal_the_key_is_asked_for_and_not_shown(file: AuthFile, workdir: Path) -> None:
    with ReplTerminal(file.home, workdir, "auth", "add", "lab", ready="Key for lab (not shown):") as terminal:
        terminal.send(KEY)
        terminal.wait_for("key …cdef stored as 'key-1'")
        assert terminal.end() == 0
        assert KEY.encode() not in terminal.raw and b"sentinel" not in terminal.raw
    assert [one.secret for one in file.credentials("lab")] == [KEY]


def test_ctrl_c_at_the_question_stores_nothing(file: AuthFile, workdir: Path) -> None:
    with ReplTerminal(file.home, workdir, "auth", "add", "lab", ready="Key for lab (not shown):") as terminal:
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert not file.path.exists()


def test_the_list_has_state_and_counts(file: AuthFile, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_TOKEN", "lab-token-from-the-environment-wxyz")
    first = add_key(file, "lab", KEY, "work")
    add_key(file, "lab", f"{KEY}-second", "spare")
    add_sign_in(file, "lab", Tokens("access-sentinel", "refresh-sentinel", time.time() + 60), "me")
    add_sign_in(file, "lab", Tokens("access-sentinel-2", "", time.time() - 60), "old")
    add_key(file, "openrouter", f"{KEY}-third")
    pool = CredentialPool(file)
    lent = pool.take(LAB)
    assert lent is not None and lent.api_key == first.secret
    pool.report(lent, ProviderError(f"no {KEY}", reason="rate_limit", status_code=429, retry_after=1800))
    file.edit(lambda records: records["lab"][2].update(last_status="dead", last_error_reason="invalid_grant"))
    lines = said(capsys, "list").splitlines()
    ids = [one.id for one in file.credentials("lab")]
    [other] = file.credentials("openrouter")
    assert lines == [
        "PROVIDER    ID      PROFILE  KEY      REQUESTS  STATE",
        "lab         -       -        …wxyz    -         from the configuration or the environment, used first",
        f"lab         {ids[0]}  work     …cdef    1         cooling down, back in 30 min (rate_limit, HTTP 429)",
        f"lab         {ids[1]}  spare    …cond    0         ready",
        f"lab         {ids[2]}  me       sign-in  0         ended (invalid_grant); "
        "run: hermes auth login lab --profile me",
        f"lab         {ids[3]}  old      sign-in  0         expired; run: hermes auth login lab --profile old",
        f"openrouter  {other.id}  key-1    …hird    0         ready",
    ]
    document = json.loads(said(capsys, "list", "--json"))
    work = next(row for row in document["credentials"] if row["profile"] == "work")
    assert work["back_in_seconds"] == pytest.approx(1800, abs=60)
    del work["back_in_seconds"], work["last_used_at"]
    assert work == {
        "provider": "lab",
        "id": ids[0],
        "profile": "work",
        "type": "api_key",
        "key": "…cdef",
        "source": "manual",
        "strategy": "round_robin",
        "status": "cooling_down",
        "last_error_code": 429,
        "last_error_reason": "rate_limit",
        "last_error_message": "no <redacted>",
        "requests": 1,
        "expires_at": None,
    }
    statuses = [row["status"] for row in document["credentials"]]
    assert statuses == ["ready", "cooling_down", "ready", "dead", "expired", "ready"]
    assert "sentinel" not in "\n".join(lines) + json.dumps(document)


def test_a_key_that_rested_enough_is_ready(file: AuthFile, capsys: Output) -> None:
    add_key(file, "lab", KEY)
    file.edit(lambda records: records["lab"][0].update(last_status="exhausted", last_status_at=1, last_error_code=401))
    assert said(capsys).splitlines()[1].endswith("ready, after a failure (HTTP 401)")


def test_removing(file: AuthFile, capsys: Output) -> None:
    add_key(file, "lab", KEY, "a")
    second = add_key(file, "lab", f"{KEY}-2", "b")
    assert "several credentials that could be meant" in said(capsys, "remove", "lab", code=1)
    assert "give the id or --profile, not both" in said(capsys, "remove", "lab", "x", "--profile", "a", code=1)
    assert "no credential 'c' is stored for lab" in said(capsys, "remove", "lab", "--profile", "c", code=1)
    assert said(capsys, "remove", "lab", "--profile", "a") == "lab: 'a' removed\n"
    assert said(capsys, "remove", "lab", second.id) == "lab: 'b' removed\n"
    assert "nothing is stored for lab" in said(capsys, "remove", "lab", code=1)
    assert KEY not in file.path.read_text()


def test_a_damaged_file_is_told_with_every_answer(file: AuthFile, workdir: Path) -> None:
    file.path.write_text(f'{{"credential_pool": "{KEY}')
    for arguments in (("list",), ("list", "--json"), ("remove", "lab")):
        done = run_hermes("auth", *arguments, home=file.home, cwd=workdir)
        assert done.stderr.startswith("Warning: ") and done.stderr.count("is damaged (it is not JSON)") == 1
        assert KEY not in done.stdout + done.stderr
        if "--json" in arguments:
            json.loads(done.stdout)
    assert (file.home / "auth.json.corrupt").read_text().endswith(KEY)


def test_names_from_the_file_cannot_drive_the_terminal(file: AuthFile, capsys: Output) -> None:
    record: dict[str, Any] = {"id": "a\x1b[2J", "label": "x\x1b]0;t\x07", "access_token": KEY}
    file.path.write_text(json.dumps({"credential_pool": {"lab\x1b[31m": [record]}}))
    text = said(capsys)
    assert "\x1b" not in text and "\x07" not in text and "lab" in text
