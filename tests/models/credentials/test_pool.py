"""Which key is lent out, and what becomes of one that fails."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.base.config import Config
from hermes.base.config.schema.sections import PoolStrategy
from hermes.base.errors import CredentialError, FailureReason, ProviderError
from hermes.base.http.client import HttpClient
from hermes.base.sanitize import Redactor
from hermes.models.credentials.credential import Credential
from hermes.models.credentials.home_keys import HomeKeys
from hermes.models.credentials.pool import CredentialPool
from hermes.models.credentials.store import AuthFile, add_key, remove
from hermes.models.endpoint import Endpoint
from hermes.models.retry import KeyRing

LAB = Endpoint("http://127.0.0.1:9/v1", "m", "lab")

AddKeys = Callable[..., list[Credential]]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(file: AuthFile, clock: Clock) -> CredentialPool:
    return CredentialPool(file, clock=clock)


def failure(reason: FailureReason, status: int | None = None, retry_after: float | None = None) -> ProviderError:
    return ProviderError(f"lab: {reason}", reason=reason, status_code=status, retry_after=retry_after)


def name(endpoint: Endpoint | None) -> str:
    """The label in a key of these tests."""
    return "" if endpoint is None else endpoint.api_key.removeprefix("sk-of-").removesuffix("-0123456789")


def use(pool: KeyRing, error: ProviderError | None = None, endpoint: Endpoint = LAB) -> str:
    """Take a key, report what became of it, and say which it was."""
    lent = pool.take(endpoint)
    if lent is not None:
        pool.report(lent, error)
    return name(lent)


# -- without stored keys --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "sk-configured"])
def test_a_provider_without_stored_keys_is_left_alone(pool: CredentialPool, home: Path, key: str) -> None:
    endpoint = Endpoint("http://127.0.0.1:9/v1", "m", "lab", key)
    for _ in range(3):
        assert pool.take(endpoint) is endpoint
        pool.report(endpoint, failure("rate_limit", 429))
    pool.close()
    assert not home.exists()


# -- strategies -----------------------------------------------------------------------------------------------------


def uses(file: AuthFile, clock: Clock, strategy: PoolStrategy, times: int) -> list[str]:
    pool = CredentialPool(file, strategies={"lab": strategy}, clock=clock)
    used: list[str] = []
    for _ in range(times):
        clock.now += 1
        used.append(use(pool))
    pool.close()
    return used


def test_fill_first_stays_with_the_first(file: AuthFile, clock: Clock, add_keys: AddKeys) -> None:
    add_keys("a", "b", "c")
    assert uses(file, clock, "fill_first", 3) == ["a", "a", "a"]


def test_round_robin_goes_round_over_processes(file: AuthFile, clock: Clock, add_keys: AddKeys) -> None:
    add_keys("a", "b", "c")
    assert uses(file, clock, "round_robin", 4) == ["a", "b", "c", "a"]
    assert uses(file, clock, "round_robin", 2) == ["b", "c"]


def test_least_used_evens_out(file: AuthFile, clock: Clock, add_keys: AddKeys) -> None:
    add_keys("a", "b")
    uses(file, clock, "fill_first", 3)
    assert uses(file, clock, "least_used", 4) == ["b", "b", "b", "a"]


def test_random_uses_all(file: AuthFile, clock: Clock, add_keys: AddKeys) -> None:
    add_keys("a", "b", "c")
    assert set(uses(file, clock, "random", 100)) == {"a", "b", "c"}


def test_priority_comes_before_the_order_in_the_file(file: AuthFile, pool: CredentialPool, add_keys: AddKeys) -> None:
    add_keys("a", "b")
    file.edit(lambda records: records["lab"][1].update(priority=-1))
    assert use(pool) == "b"


def test_the_configured_key_comes_first_and_is_not_stored(
    file: AuthFile, pool: CredentialPool, add_keys: AddKeys
) -> None:
    add_keys("a")
    own = Endpoint("http://127.0.0.1:9/v1", "m", "lab", "sk-of-own-0123456789")
    assert use(pool, endpoint=own) == "own"
    assert use(pool, failure("rate_limit", 429), own) == "own"
    assert use(pool, endpoint=own) == "a"
    assert "sk-of-own" not in file.path.read_text()


def test_a_configured_key_that_is_stored_too_counts_once(pool: CredentialPool, add_keys: AddKeys) -> None:
    add_keys("a", "b")
    same = Endpoint("http://127.0.0.1:9/v1", "m", "lab", "sk-of-b-0123456789")
    assert [use(pool, failure("auth", 401), same) for _ in range(3)] == ["a", "b", ""]


def test_a_key_may_have_an_address_of_its_own(file: AuthFile, pool: CredentialPool, add_keys: AddKeys) -> None:
    add_keys("a")
    file.edit(lambda records: records["lab"][0].update(base_url="http://127.0.0.1:7/v2"))
    lent = pool.take(LAB)
    assert lent is not None and lent.base_url == "http://127.0.0.1:7/v2"
    pool.report(lent, None)


@pytest.mark.parametrize("damage", [{"base_url": "ftp://x"}, {"access_token": "sk-ü"}, {"access_token": "sk\n"}])
def test_a_record_that_cannot_be_sent_is_passed_over(
    file: AuthFile, pool: CredentialPool, add_keys: AddKeys, damage: dict[str, str]
) -> None:
    add_keys("a", "b")
    file.edit(lambda records: records["lab"][0].update(damage))
    assert [use(pool), use(pool)] == ["b", "b"]
    remove(file, "lab", "b")
    assert pool.take(LAB) is None
    assert "base_url" in pool.explain(LAB) or "cannot be sent" in pool.explain(LAB)


# -- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "status", "retry_after", "seconds"),
    [
        ("auth", 401, None, 300),
        ("auth", 403, None, 300),
        ("billing", 402, None, 3600),
        ("rate_limit", 429, None, 3600),
        ("rate_limit", 429, 20.0, 20),
    ],
)
def test_a_failed_key_rests_and_comes_back(
    pool: CredentialPool,
    clock: Clock,
    add_keys: AddKeys,
    reason: FailureReason,
    status: int,
    retry_after: float | None,
    seconds: float,
) -> None:
    add_keys("a", "b")
    assert use(pool, failure(reason, status, retry_after)) == "a"
    assert use(pool) == "b"
    clock.now += seconds - 1
    assert use(pool) == "b"
    clock.now += 2
    assert use(pool) == "a"


def test_the_state_is_known_to_other_processes(file: AuthFile, clock: Clock, add_keys: AddKeys) -> None:
    add_keys("a", "b")
    use(CredentialPool(file, clock=clock), failure("rate_limit", 429, 120.0))
    other = CredentialPool(AuthFile(file.home), clock=clock)
    assert use(other) == "b"
    clock.now += 121
    assert use(other) == "a"
    [first, _] = AuthFile(file.home).credentials("lab")
    assert (first.status, first.error_code, first.error_reason, first.request_count) == ("ok", None, "", 2)


@pytest.mark.parametrize("reason", ["overloaded", "server_error", "timeout", "connection", "bad_request", "malformed"])
def test_a_failure_that_is_not_the_keys_leaves_it(
    pool: CredentialPool, add_keys: AddKeys, reason: FailureReason
) -> None:
    add_keys("a", "b")
    assert [use(pool, failure(reason)) for _ in range(3)] == ["a", "a", "a"]


def test_when_all_rest_there_is_none(pool: CredentialPool, clock: Clock, add_keys: AddKeys) -> None:
    add_keys("a", "b")
    use(pool, failure("rate_limit", 429, 600.0))
    use(pool, failure("auth", 401))
    assert pool.take(LAB) is None and pool.comes_back(LAB)
    assert pool.explain(LAB) == (
        "lab: all keys are cooling down, the first is back in 5 min; 'hermes auth list' shows them, "
        "'hermes auth add lab' adds one"
    )
    clock.now += 301
    assert use(pool) == "b"


def test_the_only_key_is_never_withheld(file: AuthFile, pool: CredentialPool, add_keys: AddKeys) -> None:
    """There is none to spare it for; how often to try again is a question of retries."""
    add_keys("a")
    assert [use(pool, failure("rate_limit", 429)) for _ in range(3)] == ["a", "a", "a"]
    assert file.credentials("lab")[0].status == "exhausted"
    assert use(pool) == "a"
    assert file.credentials("lab")[0].status == "ok"


def test_a_key_that_was_removed_meanwhile_stays_removed(
    file: AuthFile, pool: CredentialPool, add_keys: AddKeys
) -> None:
    add_keys("a", "b")
    lent = pool.take(LAB)
    assert lent is not None
    remove(file, "lab", "a")
    pool.report(lent, failure("auth", 401))
    assert [one.label for one in file.credentials("lab")] == ["b"]


# -- leases ---------------------------------------------------------------------------------------------------------


def test_parallel_work_spreads_over_the_keys(pool: CredentialPool, add_keys: AddKeys) -> None:
    add_keys("a", "b", "c")
    lent = [endpoint for _ in range(4) if (endpoint := pool.take(LAB))]
    assert [name(endpoint) for endpoint in lent] == ["a", "b", "c", "a"]
    pool.report(lent[1], None)
    assert name(pool.take(LAB)) == "b"


def test_many_threads_share_fairly_and_every_request_counts(
    file: AuthFile, pool: CredentialPool, add_keys: AddKeys
) -> None:
    add_keys("a", "b", "c", "d")
    start, held = threading.Barrier(16), threading.Barrier(16)
    at_once: list[str] = []

    def work() -> None:
        start.wait()
        lent = pool.take(LAB)
        assert lent is not None
        at_once.append(name(lent))
        held.wait()
        pool.report(lent, None)
        for _ in range(5):
            use(pool)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(at_once) == dict.fromkeys("abcd", 4)
    pool.close()
    assert sum(one.request_count for one in file.credentials("lab")) == 96
    again = [pool.take(LAB) for _ in range(4)]
    assert {name(endpoint) for endpoint in again} == {"a", "b", "c", "d"}


# -- writing --------------------------------------------------------------------------------------------------------


def test_successes_are_written_now_and_then_only(
    file: AuthFile, pool: CredentialPool, clock: Clock, add_keys: AddKeys
) -> None:
    add_keys("a", "b")
    before = file.path.stat().st_mtime_ns, file.path.stat().st_ino
    for _ in range(50):
        use(pool)
    assert (file.path.stat().st_mtime_ns, file.path.stat().st_ino) == before
    clock.now += 6
    use(pool)
    assert file.credentials("lab")[0].request_count == 51
    use(pool)
    pool.close()
    assert file.credentials("lab")[0].request_count == 52


def test_requests_count_when_they_were_answered(file: AuthFile, pool: CredentialPool, add_keys: AddKeys) -> None:
    add_keys("a")
    for error in (
        None,
        failure("connection"),
        failure("timeout"),
        failure("bad_request", 400),
        failure("overloaded", 503),
    ):
        use(pool, error)
    pool.close()
    assert file.credentials("lab")[0].request_count == 3


def test_counts_of_two_processes_add_up(file: AuthFile, pool: CredentialPool, add_keys: AddKeys) -> None:
    add_keys("a")
    other = CredentialPool(AuthFile(file.home))
    for _ in range(3):
        use(pool)
        use(other)
    pool.close()
    other.close()
    assert file.credentials("lab")[0].request_count == 6


# -- profiles -------------------------------------------------------------------------------------------------------


def test_a_named_credential_is_lent_whatever_the_order(pool: CredentialPool, add_keys: AddKeys) -> None:
    add_keys("a", "b")
    named = replace(LAB, api_key="sk-configured", credential="b")
    for _ in range(2):
        assert use(pool, failure("rate_limit", 429), named) == "b"
    assert use(pool) == "a"


def test_a_credential_that_does_not_exist_is_an_error(pool: CredentialPool, add_keys: AddKeys) -> None:
    add_keys("a", "b")
    with pytest.raises(CredentialError) as caught:
        pool.take(replace(LAB, api_key="sk-configured", credential="c"))
    assert str(caught.value) == (
        "no credential 'c' is stored for lab (stored: 'a', 'b'); add it with 'hermes auth add lab --profile c'"
    )
    with pytest.raises(CredentialError, match=r"no credential 'a' is stored for other \(stored: none\)"):
        pool.take(replace(LAB, provider="other", credential="a"))


def test_a_credential_that_was_removed_is_an_error(file: AuthFile, pool: CredentialPool, add_keys: AddKeys) -> None:
    add_keys("a", "b")
    named = replace(LAB, credential="a")
    assert use(pool, endpoint=named) == "a"
    remove(file, "lab", "a")
    with pytest.raises(CredentialError, match="no credential 'a' is stored for lab"):
        pool.take(named)


# -- secrets --------------------------------------------------------------------------------------------------------


def test_keys_are_masked_from_the_moment_they_are_lent(file: AuthFile, add_keys: AddKeys) -> None:
    [first, second] = add_keys("a", "b")
    redactor = Redactor()
    pool = CredentialPool(file, redactor=redactor)
    echo = ProviderError(f"lab: who is {first.secret}?\n try", reason="auth", status_code=401)
    assert use(pool, echo) == "a"
    assert redactor.redact(f"{first.secret} {second.secret}") == "<redacted> <redacted>"
    assert file.credentials("lab")[0].error_message == "lab: who is <redacted>? try"
    shown = repr([pool, pool.find("lab", "a"), pool.take(LAB), vars(pool)["_state"]])
    assert first.secret not in shown and second.secret not in shown


def test_the_pool_of_a_home_follows_its_configuration(file: AuthFile, http: HttpClient, add_keys: AddKeys) -> None:
    add_keys("a", "b")
    config = Config(credential_pool_strategies={"lab": "round_robin"})
    pool = HomeKeys(file.home, config, http, Redactor())
    assert pool.has("lab") and not pool.has("other")
    assert [use(pool) for _ in range(3)] == ["a", "b", "a"]


def test_the_keys_of_a_home_are_opened_when_there_are_any(home: Path, http: HttpClient) -> None:
    keys = HomeKeys(home, Config(), http, Redactor())
    assert keys.take(LAB) is LAB
    keys.report(LAB, failure("auth", 401))
    assert (keys.providers(), keys.has("lab"), keys.notices) == ([], False, [])
    keys.close()
    assert not home.exists()
    add_key(AuthFile(home), "lab", "sk-of-a-0123456789", "a")
    lent = keys.take(LAB)
    assert lent is not None and name(lent) == "a"
    assert (keys.providers(), keys.has("lab")) == (["lab"], True)
    keys.report(lent, failure("auth", 401))
    assert name(keys.take(replace(LAB, credential="a"))) == "a"
    keys.require("lab", "a")
    with pytest.raises(CredentialError, match="no credential 'b' is stored for lab"):
        keys.require("lab", "b")
    assert "hermes auth login lab" not in keys.explain(LAB)
    keys.close()
    assert AuthFile(home).credentials("lab")[0].error_code == 401


def test_a_home_without_credentials_has_no_profile_either(home: Path, http: HttpClient) -> None:
    keys = HomeKeys(home, Config(), http, Redactor())
    for ask in (lambda: keys.require("lab", "a"), lambda: keys.take(replace(LAB, api_key="sk", credential="a"))):
        with pytest.raises(CredentialError, match=r"no credential 'a' is stored for lab \(stored: none\)"):
            ask()


def test_a_home_that_cannot_be_written_still_lends_and_remembers(
    home: Path, clock: Clock, add_keys: AddKeys, caplog: pytest.LogCaptureFixture
) -> None:
    add_keys("a", "b")
    file = AuthFile(home)
    pool = CredentialPool(file, clock=clock)
    lock = home / ".config.lock"
    lock.unlink()
    lock.mkdir()
    try:
        assert use(pool, failure("rate_limit", 429)) == "a"
        assert [use(pool) for _ in range(3)] == ["b", "b", "b"]
        clock.now += 10
        use(pool)
        warnings: list[Any] = [record for record in caplog.records if "is not kept" in record.getMessage()]
        assert len(warnings) == 1
    finally:
        lock.rmdir()
    pool.close()
    assert [(one.status, one.request_count) for one in file.credentials("lab")] == [("exhausted", 1), ("ok", 4)]
