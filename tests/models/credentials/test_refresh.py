"""Sign-ins that renew themselves: before they end, once across processes, and never at the price of the sign-in."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config import Config
from hermes.base.config.schema.sections import ModelProviderConfig
from hermes.base.errors import ProviderError
from hermes.base.http.client import HttpClient
from hermes.base.sanitize import Redactor
from hermes.models.credentials.home_keys import HomeKeys
from hermes.models.credentials.oauth import Tokens
from hermes.models.credentials.pool import CredentialPool
from hermes.models.credentials.store import AuthFile, add_key, add_sign_in
from hermes.models.endpoint import Endpoint
from support import SOURCES
from support.authorization_server import AuthorizationServer

LAB = Endpoint("http://127.0.0.1:9/v1", "m", "lab")
REFUSED = ProviderError("lab: the key was refused", reason="auth", status_code=401)

SignIn = Callable[..., None]


@pytest.fixture
def pool(file: AuthFile, server: AuthorizationServer, http: HttpClient) -> HomeKeys:
    config = Config(providers={"lab": ModelProviderConfig(oauth=server.settings)})
    return HomeKeys(file.home, config, http, Redactor())


@pytest.fixture
def sign_in(file: AuthFile, server: AuthorizationServer) -> SignIn:
    """Leaves a sign-in whose token ends in so many seconds."""

    def add(seconds: float | None = 10, refresh_token: str | None = None, access_token: str = "access-old") -> None:
        token = server.new_refresh_token() if refresh_token is None else refresh_token
        add_sign_in(file, "lab", Tokens(access_token, token, None if seconds is None else time.time() + seconds))

    return add


def take(pool: HomeKeys) -> str:
    lent = pool.take(LAB)
    return "" if lent is None else lent.api_key


def refreshes(server: AuthorizationServer) -> int:
    return len(server.asked("refresh_token"))


def test_a_token_is_renewed_before_it_ends_and_the_new_one_is_kept(
    file: AuthFile, pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn
) -> None:
    sign_in(10)
    [old] = file.credentials("lab")
    before = int(time.time())
    token = take(pool)
    assert token.startswith("access-") and token != "access-old"
    [new] = AuthFile(file.home).credentials("lab")
    assert (new.secret, new.id) == (token, old.id)
    assert new.refresh_token != old.refresh_token and new.refresh_token
    assert new.expires_at is not None and before <= new.expires_at - 3600 <= time.time()
    assert take(pool) == token
    assert refreshes(server) == 1
    [form] = server.asked("refresh_token")
    assert form == {
        "grant_type": "refresh_token",
        "client_id": server.settings.client_id,
        "refresh_token": form["refresh_token"],
    }


@pytest.mark.parametrize("seconds", [None, 3600])
def test_a_token_that_is_good_is_used_as_it_is(
    pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn, seconds: float | None
) -> None:
    sign_in(seconds)
    assert take(pool) == "access-old"
    assert refreshes(server) == 0


def test_what_waits_is_done_before_a_token_is_renewed_and_only_then(
    pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn
) -> None:
    seen: list[int] = []
    sign_in(10)
    for _ in range(2):
        pool.take(LAB, lambda: seen.append(refreshes(server)))
    assert (seen, refreshes(server)) == ([0], 1)


def test_a_server_that_keeps_the_refresh_token(
    file: AuthFile, pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn
) -> None:
    server.rotates, server.token_life = False, 30
    sign_in(10)
    [old] = file.credentials("lab")
    first, second = take(pool), take(pool)
    assert first != second  # half a minute is within the margin
    assert file.credentials("lab")[0].refresh_token == old.refresh_token


def test_many_threads_renew_once(pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn) -> None:
    server.token_delay = 0.1
    sign_in(-10)
    taken: list[str] = []
    threads = [threading.Thread(target=lambda: taken.append(take(pool))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refreshes(server) == 1
    assert len(set(taken)) == 1 and taken[0] and len(taken) == 8


TAKING = """
import sys
from pathlib import Path
from hermes.base.config import load_config
from hermes.models.credentials.home_keys import HomeKeys
from hermes.base.http.client import HttpClient
from hermes.models.endpoint import Endpoint
from hermes.base.sanitize import Redactor

home = Path(sys.argv[1])
http = HttpClient()
pool = HomeKeys(home, load_config(home).config, http, Redactor())
print("ready", flush=True)
sys.stdin.readline()
lent = pool.take(Endpoint("http://127.0.0.1:9/v1", "m", "lab"))
print("" if lent is None else lent.api_key)
http.close()
"""


def test_two_processes_renew_once(file: AuthFile, home: Path, server: AuthorizationServer, sign_in: SignIn) -> None:
    server.token_delay = 0.3
    sign_in(-10)
    (home / "config.yaml").write_text(server.config())
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TAKING, str(home)],
            env={"PYTHONPATH": str(SOURCES)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    tokens = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert refreshes(server) == 1
    assert tokens == [file.credentials("lab")[0].secret] * 3


def test_a_sign_in_that_the_provider_has_expired_is_dead(
    file: AuthFile, pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn
) -> None:
    sign_in(-10, refresh_token="refresh-of-yesterday")
    assert pool.take(LAB) is None
    [dead] = file.credentials("lab")
    assert (dead.status, dead.error_reason) == ("dead", "invalid_grant")
    assert pool.explain(LAB) == (
        "lab: the authorization server refused (invalid_grant: the token <redacted> was used before); "
        "run: hermes auth login lab --profile login"
    )
    assert pool.take(LAB) is None
    assert refreshes(server) == 1  # it is not asked again
    other = CredentialPool(AuthFile(file.home))
    assert other.take(LAB) is None
    assert other.explain(LAB) == "lab: no sign-in is valid; run: hermes auth login lab"
    assert not other.comes_back(LAB)


def test_a_dead_sign_in_leaves_the_keys(file: AuthFile, pool: HomeKeys, sign_in: SignIn) -> None:
    sign_in(-10, refresh_token="refresh-of-yesterday")
    add_key(file, "lab", "sk-spare-0123456789")
    assert take(pool) == "sk-spare-0123456789"


def test_signing_in_again_brings_it_back(file: AuthFile, pool: HomeKeys, sign_in: SignIn) -> None:
    sign_in(-10, refresh_token="refresh-of-yesterday")
    assert pool.take(LAB) is None
    sign_in(3600, access_token="access-fresh")
    assert take(pool) == "access-fresh"
    assert len(file.credentials("lab")) == 1


BROKEN = [(503, b"{}"), (500, b"<html>oops</html>"), (200, b"nonsense"), (200, b"[]"), (200, b'{"token_type":"mac"}')]


@pytest.mark.parametrize("answer", BROKEN)
def test_a_server_that_fails_costs_nothing_while_the_token_is_good(
    file: AuthFile, pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn, answer: tuple[int, bytes]
) -> None:
    server.broken = answer
    sign_in(30)
    assert take(pool) == "access-old"
    assert file.credentials("lab")[0].status == "ok"
    server.broken = None
    assert take(pool) != "access-old"


def test_a_server_that_fails_when_the_token_is_over(
    file: AuthFile, pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn
) -> None:
    server.broken = (503, b"{}")
    sign_in(-1)
    assert pool.take(LAB) is None
    assert "the server is overloaded (HTTP 503)" in pool.explain(LAB)
    assert file.credentials("lab")[0].status == "ok"  # a pause of this process only
    server.broken = None
    assert take(pool).startswith("access-")  # the only one is tried again at once


def test_a_token_that_was_withdrawn_is_renewed_once_and_then_rests(
    file: AuthFile, pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn
) -> None:
    sign_in(3600)
    add_key(file, "lab", "sk-spare-0123456789")
    lent = pool.take(LAB)
    assert lent is not None and lent.api_key == "access-old"
    pool.report(lent, REFUSED)
    second = pool.take(LAB)
    assert second is not None and second.api_key not in ("access-old", "sk-spare-0123456789")
    assert refreshes(server) == 1
    pool.report(second, REFUSED)
    assert take(pool) == "sk-spare-0123456789"
    assert refreshes(server) == 1
    assert file.credentials("lab")[0].status == "exhausted"


def test_a_renewed_token_that_works_may_be_renewed_again(
    pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn
) -> None:
    sign_in(3600)
    for number in (1, 2):
        lent = pool.take(LAB)
        assert lent is not None
        pool.report(lent, REFUSED)
        again = pool.take(LAB)
        assert again is not None and again.api_key != lent.api_key
        pool.report(again, None)
        assert refreshes(server) == number


def test_nothing_is_asked_of_the_server_when_the_result_could_not_be_kept(
    home: Path, file: AuthFile, pool: HomeKeys, server: AuthorizationServer, sign_in: SignIn
) -> None:
    sign_in(-1)
    lock = home / ".config.lock"
    lock.unlink()
    lock.mkdir()
    assert pool.take(LAB) is None
    assert "is not renewed, since the result could not be kept" in pool.explain(LAB)
    lock.rmdir()
    assert refreshes(server) == 0
    assert take(pool).startswith("access-")


def test_without_settings_a_token_is_used_to_its_end(file: AuthFile, http: HttpClient, sign_in: SignIn) -> None:
    pool = HomeKeys(file.home, Config(), http, Redactor())
    sign_in(30)
    assert take(pool) == "access-old"
    sign_in(-1)
    assert pool.take(LAB) is None
    assert "set providers.lab.oauth.client_id" in pool.explain(LAB)


def test_a_token_that_ended_and_cannot_be_renewed_is_not_sent(pool: HomeKeys, sign_in: SignIn) -> None:
    sign_in(-1, refresh_token="")
    assert pool.take(LAB) is None
    assert pool.explain(LAB) == (
        "lab: the sign-in 'login' has ended and cannot be renewed; run: hermes auth login lab --profile login"
    )


def test_tokens_are_masked_and_in_no_log(
    file: AuthFile, server: AuthorizationServer, http: HttpClient, sign_in: SignIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    redactor = Redactor()
    config = Config(providers={"lab": ModelProviderConfig(oauth=server.settings)})
    pool = HomeKeys(file.home, config, http, redactor)
    sign_in(-1)
    lent = pool.take(LAB)
    assert lent is not None
    pool.report(lent, REFUSED)
    sign_in(-1, refresh_token="refresh-of-yesterday")
    server.secrets.append("refresh-of-yesterday")
    assert pool.take(LAB) is None
    text = caplog.text + pool.explain(LAB) + repr(pool) + repr(file.credentials("lab"))
    assert [secret for secret in server.secrets if secret in text] == []
    [current] = file.credentials("lab")
    assert redactor.redact(f"{lent.api_key} {current.refresh_token}") == "<redacted> <redacted>"


def test_another_file_shape_is_renewed_too(file: AuthFile, pool: HomeKeys, server: AuthorizationServer) -> None:
    """As another program of this format would have left it: under custom:, with an ISO date."""
    record: dict[str, Any] = {
        "id": "x1",
        "auth_type": "oauth",
        "access_token": "access-old",
        "refresh_token": server.new_refresh_token(),
        "expires_at": "2020-01-01T00:00:00Z",
        "inference_base_url": "kept",
    }
    file.home.mkdir()
    file.path.write_text(json.dumps({"version": 1, "credential_pool": {"custom:lab": [record]}}))
    token = take(pool)
    [kept] = json.loads(file.path.read_bytes())["credential_pool"]["custom:lab"]
    assert (kept["access_token"], kept["inference_base_url"]) == (token, "kept")
    assert "expires_at" not in kept and kept["expires_at_ms"] > time.time() * 1000
