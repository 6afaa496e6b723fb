"""Copies for the outside: JSON-ready, bounded, without secrets, whatever goes in."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections import OrderedDict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.sanitize import REDACTED, Memo, Redactor, is_secret_key, payload, payload_limit, sanitise

SECRET = "sk-ant-api03-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA"


SECRET_NAMES = """
api_key apiKey API-KEY apikey x_api_key OPENAI_API_KEY authorization Proxy-Authorization cookie Set-Cookie token
access_token accessToken token_secret auth-token password db_password password_hash PASSWORD secret secret_value
client_secret clientSecret private_key privateKeyPem aws_secret_access_key refresh_tokens credentials smtp_pass
passphrase X-Goog-Api-Key session_token
LAB_KEY ENCRYPTION_KEY encryption_key ENV_TOKEN PROD_ENV_SECRET URL_SIGNING_KEY ENDPOINT_SECRET AWS_ACCESS_KEY_ID
"""
OTHER_NAMES = """
max_tokens input_tokens output_tokens token_count tokens total_tokens prompt_tokens token_limit token_type key keys
key_env api_key_env token_url authorization_endpoint author tokenizer secretary passed pass primary_key monkey
max_token_length content name model usage cached_token_usage
sort_key cache_key pattern_key rule_key LANGFUSE_PUBLIC_KEY PRIMARY_KEY API_KEY_ENV TOKEN_FILE KEY
"""


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_names_of_secrets(name: str) -> None:
    assert is_secret_key(name)


@pytest.mark.parametrize("name", OTHER_NAMES.split())
def test_names_that_are_no_secrets(name: str) -> None:
    assert not is_secret_key(name)


def test_plain_data_is_copied_unchanged() -> None:
    value = {"a": [1, 2.5, "x", None, True, {"b": "ü☤"}], "max_tokens": 5}
    copy = sanitise(value)
    assert copy == value
    copy["a"].append("mine")
    assert len(value["a"]) == 6  # pyright: ignore[reportArgumentType]


def test_secret_keys_hide_their_values_at_any_depth() -> None:
    value = {
        "headers": [{"Authorization": "Bearer x", "Cookie": {"a": "b"}, "X-Count": 1}],
        "api_key": 12345,
        "token": None,
        "password": "",
        "secret": False,
        "max_tokens": 9,
    }
    assert sanitise(value) == {
        "headers": [{"Authorization": REDACTED, "Cookie": REDACTED, "X-Count": 1}],
        "api_key": REDACTED,
        "token": None,
        "password": "",
        "secret": False,
        "max_tokens": 9,
    }


def test_secrets_inside_texts_and_keys_are_masked() -> None:
    copy = sanitise({f"key {SECRET}": [f"run with {SECRET} now", {"x": f"A_TOKEN={SECRET[3:9]}"}]})
    assert copy == {f"key {REDACTED}": [f"run with {REDACTED} now", {"x": f"A_TOKEN={REDACTED}"}]}


def test_secrets_it_was_told_about_are_masked_in_any_json_form() -> None:
    redactor = Redactor()
    redactor.add_secret('odd "quoted" secret')
    redactor.add_secret("short")
    document = {"a": 'the odd "quoted" secret here', "b": json.dumps({"c": 'odd "quoted" secret'}), "d": "short"}
    copy = sanitise(document, redactor=redactor)
    assert copy == {"a": f"the {REDACTED} here", "b": f'{{"c": "{REDACTED}"}}', "d": "short"}


def test_limits_of_the_first_pass() -> None:
    copy = sanitise(
        {"text": "x y " * 2_500, "list": list(range(250)), "dict": {str(i): i for i in range(210)}}, max_chars=10**6
    )
    assert copy["text"] == "x y " * 2_000 + "...[truncated 2000 chars]"
    assert copy["list"] == [*range(200), {"_truncated_items": 50}]
    assert len(copy["dict"]) == 201
    assert copy["dict"]["_truncated_items"] == 10


def test_depth_is_limited() -> None:
    value: Any = "bottom"
    for _ in range(12):
        value = [value]
    copy = sanitise(value)
    for _ in range(9):
        (copy,) = copy
    assert copy == "<list depth limit>"


def test_a_large_payload_is_cut_harder() -> None:
    long_texts = sanitise({"list": ["word " * 500] * 30})
    assert long_texts["list"] == ["word " * 200 + "...[truncated 1500 chars]"] * 30
    many_texts = sanitise({"list": ["word " * 150] * 100})
    assert many_texts["list"] == [*["word " * 150] * 50, {"_truncated_items": 50}]


def test_a_payload_that_stays_too_large_becomes_a_preview() -> None:
    copy = sanitise({"list": [{"a": "word " * 500, "b": "word " * 500} for _ in range(100)]})
    assert copy["_truncated"] is True
    assert copy["original_type"] == "dict"
    assert copy["preview"].startswith('{"list":[{"a":"word word')
    assert len(json.dumps(copy)) <= 50_000


def test_the_payload_limit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert payload_limit() == 50_000
    for text, limit in (("2000", 2_000), ("5", 1_000), ("-1", 1_000), ("many", 50_000)):
        monkeypatch.setenv("HERMES_PLUGIN_PAYLOAD_MAX_CHARS", text)
        assert payload_limit() == limit
    monkeypatch.setenv("HERMES_PLUGIN_PAYLOAD_MAX_CHARS", "2000")
    assert len(json.dumps(sanitise(["x" * 500] * 10))) <= 2_000


def test_a_cut_never_divides_a_secret() -> None:
    known = "correct horse battery"
    redactor = Redactor((known,))
    for secret in (SECRET, f"postgres://user:{'p' * 30}@host/db", f"password='{'p w ' * 10}'", known):
        for start in range(8_000 - len(secret), 8_000):
            text = "a " * (start // 2) + " " * (start % 2) + secret + " tail" * 10
            copy = sanitise([text], redactor=redactor)[0]
            assert "truncated" in copy or REDACTED in copy
            for length in range(12, len(secret)):
                piece = secret[:length]
                assert piece not in copy or piece.startswith(("postgres://user:"[:length], "password='"[:length]))
            assert "ppp" not in copy
            assert "p w p" not in copy


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    password: str = "hunter2"


class Record(msgspec.Struct):
    name: str


class Dumps:
    def model_dump(self, mode: str = "python") -> dict[str, Any]:
        return {"mode": mode, "token": "t"}


class OldDumps:
    def model_dump(self) -> dict[str, Any]:
        return {"a": 1}


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = object.__hash__


class Agreeable:
    def __getattr__(self, name: str) -> Any:
        return Agreeable()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Agreeable()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"12345", "<5 bytes>"),
        (bytearray(3), "<3 bytes>"),
        (memoryview(b"1234"), "<4 bytes>"),
        ((1, (2,)), [1, [2]]),
        ({1}, [1]),
        (frozenset({"a"}), ["a"]),
        (deque([1]), [1]),
        (range(3), [0, 1, 2]),
        (OrderedDict({"a": 1}), {"a": 1}),
        ({1: "a", (2, 3): "b", None: "c"}, {"1": "a", "(2, 3)": "b", "None": "c"}),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (2**70, str(2**70)),
        (Colour.RED, "red"),
        (Path("/tmp/x"), "/tmp/x"),
        (Point(1), {"x": 1, "password": REDACTED}),
        (Record("n"), {"name": "n"}),
        (SimpleNamespace(a=1, _b=2), {"a": 1}),
        (Dumps(), {"mode": "json", "token": REDACTED}),
        (OldDumps(), {"a": 1}),
        (ValueError("bad"), "ValueError: bad"),
        ("lone \ud800 half", "lone \ufffd half"),
        ({"\ud800": 1}, {"\ufffd": 1}),
        (int, "<class 'int'>"),
    ],
)
def test_other_types(value: Any, expected: Any) -> None:
    assert sanitise(value) == expected


def test_an_object_that_fails_at_everything_is_named() -> None:
    assert sanitise(Hostile()) == "<Hostile>"
    assert sanitise({"token": Hostile(), "x": [Hostile()]}) == {"token": REDACTED, "x": ["<Hostile>"]}


def test_an_object_that_answers_everything_ends_somewhere() -> None:
    assert isinstance(sanitise({"x": Agreeable()})["x"], str)


def test_a_generator_is_not_used_up() -> None:
    generator = (i for i in range(3))
    assert "generator" in sanitise([generator])[0]
    assert list(generator) == [0, 1, 2]


def test_cycles_end() -> None:
    value: dict[str, Any] = {"a": 1}
    value["self"] = value
    value["list"] = [value]
    assert sanitise(value) == {"a": 1, "self": "<cycle>", "list": ["<cycle>"]}


def test_the_same_object_twice_is_no_cycle() -> None:
    shared = [1]
    assert sanitise([shared, shared]) == [[1], [1]]


def test_a_value_that_unfolds_without_end_is_bounded() -> None:
    value: Any = "leaf"
    for _ in range(8):
        value = [value] * 100
    assert len(json.dumps(sanitise(value))) <= 50_000


def test_a_huge_text_is_looked_at_only_where_it_is_kept() -> None:
    copy = sanitise({"out": "line of output\n" * 2_000_000})
    assert len(copy["out"]) < 8_100


def test_a_memo_gives_the_same_answer_and_notices_changes() -> None:
    memo = Memo()
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"message {i} {SECRET}"} for i in range(20)]
    body = {"model": "m", "messages": messages, "api_key": ["x"], "tools": [{"name": "t", "token": "x"}], "n": 1}
    assert sanitise(body, memo=memo) == sanitise(body)
    messages[3]["content"] = "changed in place"
    messages.append({"role": "user", "content": "new"})
    second = sanitise(body, memo=memo)
    assert second == sanitise(body)
    second["messages"][3]["content"] = "changed by a receiver"
    assert sanitise(body, memo=memo) == sanitise(body)


def test_a_memo_forgets_what_is_no_longer_used() -> None:
    memo = Memo()
    for number in range(50):
        sanitise({"messages": [{"content": f"{number} " + "x " * 2_000}]}, memo=memo)
        sanitise({"messages": [{"content": f"{number} {i} " + "x " * 2_000} for i in range(60)]}, memo=memo)
    assert sum(len(key[0]) for key in memo.results) < 600_000


_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=30)
    | st.binary(max_size=10)
    | st.sampled_from([SECRET, Point(1), Record("n"), object(), print, "x" * 9_000])
    | st.builds(Hostile)
    | st.builds(Agreeable)
    | st.builds(Dumps)
)
_keys = st.text(max_size=8) | st.integers() | st.sampled_from(["api_key", "token"])
_trees: st.SearchStrategy[Any] = st.recursive(
    _leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_keys, inner, max_size=4)
        | st.tuples(inner)
        | inner.map(lambda item: SimpleNamespace(item=item))
    ),
    max_leaves=8,
)
_values = _trees | _trees.map(lambda item: [[item] * 300] * 300)


@settings(max_examples=80, deadline=None)
@given(_values)
def test_anything_becomes_bounded_json_without_secrets(value: Any) -> None:
    copy = sanitise(value, max_chars=20_000)
    text = json.dumps(copy, allow_nan=False, ensure_ascii=False)
    assert json.loads(msgspec.json.encode(copy)) == copy
    assert len(msgspec.json.encode(copy).decode()) <= 20_000
    assert SECRET not in text
    assert "hunter2" not in text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=5), _trees, max_size=3), min_size=1, max_size=3))
def test_a_memo_never_changes_the_result(bodies: list[dict[str, Any]]) -> None:
    memo = Memo()
    for body in bodies:
        document = {"messages": [body, *bodies], **body}
        assert sanitise(document, memo=memo) == sanitise(document)


_parts = st.dictionaries(
    st.sampled_from(["role", "content", "api_key", "n"]),
    st.sampled_from(["short", "x" * 300, "y" * 990, "y " * 501, "z " * 2_000, SECRET, f"{'k' * 2_000} {SECRET}"])
    | st.integers(48, 53).map(lambda count: [0] * count)
    | st.integers(48, 53).map(lambda count: {str(number): number for number in range(count)}),
    max_size=3,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(_parts, max_size=8), st.integers(1_000, 6_000))
def test_small_parts_are_the_same_when_the_rest_is_cut_harder(parts: list[dict[str, Any]], limit: int) -> None:
    document = {"messages": parts}
    made_once = sanitise(document, max_chars=limit, memo=Memo())
    with patch.object(payload, "_is_small", return_value=False):
        assert made_once == sanitise(document, max_chars=limit, memo=Memo())


def test_data_that_is_given_again_is_sanitised_once() -> None:
    memo = Memo()
    made: list[Any] = []

    def make(value: Any) -> Any:
        made.append(value)
        return sanitise(value)

    value: dict[str, Any] = {"model": "one", "stop": ["a"]}
    first = memo.repeated(value, make)
    assert memo.repeated(dict(value), make) is first and len(made) == 1
    value["stop"].append("b")  # changed in place
    assert memo.repeated(value, make) == {"model": "one", "stop": ["a", "b"]}
    assert memo.repeated({"odd": object}, make)["odd"] and len(made) == 3


def test_a_memo_tells_bytes_from_their_base64_text() -> None:
    memo = Memo()
    assert sanitise({"messages": [{"a": "YWJj"}]}, memo=memo) == {"messages": [{"a": "YWJj"}]}
    assert sanitise({"messages": [{"a": b"abc"}]}, memo=memo) == sanitise({"messages": [{"a": b"abc"}]})
    assert sanitise({"messages": [{"a": 2**70}]}, memo=memo) == sanitise({"messages": [{"a": 2**70}]})
