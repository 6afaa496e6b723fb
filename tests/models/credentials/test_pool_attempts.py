"""The pool under the policy of attempts: the next key at once, a renewed token, and what is said when none is left."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.base.config import Config
from hermes.base.config.schema.sections import ModelProviderConfig
from hermes.base.errors import ProviderError
from hermes.base.http.client import HttpClient
from hermes.base.sanitize import Redactor
from hermes.models.credentials.home_keys import HomeKeys
from hermes.models.credentials.oauth import Tokens
from hermes.models.credentials.store import AuthFile, add_key, add_sign_in
from hermes.models.endpoint import Endpoint
from hermes.models.retry import Failure, KeyRing, Send, attempts
from support.authorization_server import AuthorizationServer

LAB = Endpoint("http://127.0.0.1:9/v1", "m", "lab")
OTHER = Endpoint("http://127.0.0.1:9/v1", "m", "other", "sk-other")
RATE_LIMIT = ProviderError("slow down", reason="rate_limit", status_code=429)
REFUSED = ProviderError("who?", reason="auth", status_code=401)


@pytest.fixture
def keys(home: Path, server: AuthorizationServer, http: HttpClient) -> HomeKeys:
    return HomeKeys(home, Config(providers={"lab": ModelProviderConfig(oauth=server.settings)}), http, Redactor())


def pursue(
    keys: KeyRing, *outcomes: ProviderError | None, endpoints: tuple[Endpoint, ...] = (LAB,), retries: int = 0
) -> list[str]:
    """Which keys are sent when the attempts go like this; a pause is a dot."""
    policy = attempts(endpoints, retries, keys=keys, jitter=lambda: 0)
    left, sent = list(outcomes), list[str]()
    try:
        action = next(policy)
        while True:
            if not isinstance(action, Send):
                sent.append(".")
                action = next(policy)
                continue
            sent.append(action.endpoint.api_key)
            outcome = left.pop(0)
            action = policy.send(None if outcome is None else Failure(outcome))
    except StopIteration:
        assert left == []
    return sent


def add(file: AuthFile, *names: str) -> None:
    for one in names:
        add_key(file, "lab", one, one)


def test_the_next_key_is_tried_at_once(file: AuthFile, keys: HomeKeys) -> None:
    add(file, "sk-a", "sk-b", "sk-c")
    assert pursue(keys, RATE_LIMIT, REFUSED, None) == ["sk-a", "sk-b", "sk-c"]
    assert pursue(keys, None) == ["sk-c"]
    keys.close()
    assert [one.request_count for one in file.credentials("lab")] == [1, 1, 2]


def test_when_all_rest_the_fallback_is_asked_without_another_try(file: AuthFile, keys: HomeKeys) -> None:
    add(file, "sk-a", "sk-b")
    assert pursue(keys, RATE_LIMIT, RATE_LIMIT, None, endpoints=(LAB, OTHER), retries=3) == ["sk-a", "sk-b", "sk-other"]
    assert pursue(keys, None, endpoints=(LAB, OTHER)) == ["sk-other"]


def test_when_all_rest_and_nobody_else_can_be_asked_it_is_said(file: AuthFile, keys: HomeKeys) -> None:
    add(file, "sk-a", "sk-b")
    with pytest.raises(ProviderError, match="slow down"):
        pursue(keys, RATE_LIMIT, RATE_LIMIT)
    with pytest.raises(ProviderError, match="lab: all keys are cooling down, the first is back in 60 min"):
        pursue(keys)


def test_the_only_key_is_tried_again_like_any_request(file: AuthFile, keys: HomeKeys) -> None:
    add(file, "sk-a")
    assert pursue(keys, RATE_LIMIT, RATE_LIMIT, None, retries=2) == ["sk-a", ".", "sk-a", ".", "sk-a"]
    with pytest.raises(ProviderError, match="who"):
        pursue(keys, REFUSED, retries=2)
    assert pursue(keys, None) == ["sk-a"]


def test_a_withdrawn_token_is_renewed_within_the_call_and_once_only(
    file: AuthFile, keys: HomeKeys, server: AuthorizationServer
) -> None:
    tokens = Tokens("access-old", server.new_refresh_token(), time.time() + 3600)
    add_sign_in(file, "lab", tokens)
    first, second = pursue(keys, REFUSED, None)
    assert first == "access-old" and second in server.secrets
    with pytest.raises(ProviderError, match="who"):
        pursue(keys, REFUSED, REFUSED, retries=3)
    assert len(server.asked("refresh_token")) == 2


def test_a_named_credential_is_used_or_nothing(file: AuthFile, keys: HomeKeys) -> None:
    add(file, "sk-a", "sk-b")
    named = (replace(LAB, credential="sk-b"),)
    assert pursue(keys, None, endpoints=named) == ["sk-b"]
    with pytest.raises(ProviderError, match="who"):
        pursue(keys, REFUSED, endpoints=named)
    keys.close()
    assert [one.request_count for one in file.credentials("lab")] == [0, 2]


def test_another_credential_of_the_same_provider_may_stand_in(file: AuthFile, keys: HomeKeys) -> None:
    add(file, "sk-a", "sk-b")
    both = (replace(LAB, credential="sk-b"), replace(LAB, credential="sk-a"))
    assert pursue(keys, REFUSED, None, endpoints=both) == ["sk-b", "sk-a"]
