"""Values in the journal: what goes in comes out, large ones are stored once, and nothing can pose as a reference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.journal.bodies import BLOB_THRESHOLD, clean_text, message_text, to_json
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from journal.kit import assistant, finish_turn, rows, start_turn, user

pytestmark = pytest.mark.both_stores

# JSON has no other floats, and whole numbers of any size.
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5), max_leaves=20
)


@pytest.fixture
def keep(store: Store, runner: Runner) -> Any:
    """Records a value and gives back what the journal has for it."""
    turn = start_turn(store, runner)
    sessions = Sessions(store)

    def keep(value: object) -> Any:
        turn.event("value", "", value)
        turn.commit()
        return sessions.events("s1")[-1]["body"]

    return keep


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values)
def test_what_goes_in_comes_out(keep: Any, value: object) -> None:
    assert keep(value) == value


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("a\0b", "a\0b"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ({"key \udcff": ["\ud800", {"x": "\udfff"}]}, {"key \ufffd": ["\ufffd", {"x": "\ufffd"}]}),
        (("a", "\udc80"), ["a", "\ufffd"]),
        (2**80, 2**80),
        (float("nan"), None),
        (b"bytes", "Ynl0ZXM="),
        ("\u2028 \U0001f600 \u202e", "\u2028 \U0001f600 \u202e"),
    ],
)
def test_odd_values(keep: Any, value: object, kept: object) -> None:
    assert keep(value) == kept


def test_values_may_be_nested(keep: Any) -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"in": [deep]}
    assert keep(deep) == deep


@pytest.mark.parametrize(
    "value",
    [
        {"$blob": "0" * 64},
        {"$blob": ""},
        {"$blob": None},
        {"$blob": "0" * 64, "more": 1},
        '{"$blob":"' + "0" * 64 + '"}',
    ],
)
def test_nothing_can_pose_as_a_reference_to_a_blob(keep: Any, value: object) -> None:
    assert keep(value) == value


def test_nothing_can_reach_the_blob_of_another_session(keep: Any, store: Store, runner: Runner) -> None:
    start_turn(store, runner, "other", message=user("secret " * 10_000))
    digests = [digest for (digest,) in rows(store, "SELECT sha256 FROM blobs")]
    assert len(digests) == 2  # the event that began the turn, and the message
    for digest in digests:
        assert keep({"$blob": digest}) == {"$blob": digest}


@pytest.mark.parametrize("extra", [0, 1])
def test_only_large_values_become_blobs(keep: Any, store: Store, extra: int) -> None:
    text = "x" * (BLOB_THRESHOLD - 2 + extra)  # two characters are the quotes
    assert keep(text) == text
    assert rows(store, "SELECT length(data) FROM blobs") == [(BLOB_THRESHOLD + 1,)] * extra


@pytest.mark.sqlite_only
def test_equal_large_values_are_stored_once(store: Store, runner: Runner, journal_path: Path) -> None:
    def size() -> int:
        return journal_path.stat().st_size + Path(f"{journal_path}-wal").stat().st_size

    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    store.write(lambda _: None)
    empty = size()
    for session in ("s1", "s2"):
        for _ in range(3):
            finish_turn(start_turn(store, runner, session, message=user([image])))
    assert rows(store, "SELECT count(*) FROM blobs") == [(2,)]
    assert rows(store, "SELECT session_id, count(*) FROM blob_uses GROUP BY 1") == [("s1", 2), ("s2", 2)]
    assert size() - empty < 538_000
    assert Sessions(store).messages("s2")[4] == user([image])


def test_shared_fields_stay_as_long_as_a_session_uses_them(store: Store, runner: Runner) -> None:
    sessions, fields = Sessions(store), {"system": "Be brief.", "tools": ["terminal"]}

    def record(session_id: str) -> None:
        turn = start_turn(store, runner, session_id)
        for number in range(2):  # the second time the session has them
            turn.event("setup", "", {"number": number}, fields)
            turn.commit()
        finish_turn(turn)

    def recorded(session_id: str) -> list[Any]:
        return [event["body"] for event in sessions.events(session_id) if event["kind"] == "setup"]

    expected = [{"number": 0, **fields}, {"number": 1, **fields}]
    for name in ("one", "two"):
        record(name)
        assert recorded(name) == expected
    assert rows(store, "SELECT count(*) FROM blobs") == [(3,)]
    sessions.delete("one", runner)
    assert recorded("two") == expected
    sessions.delete("two", runner)
    assert rows(store, "SELECT count(*) FROM blobs") == [(0,)]
    record("three")
    assert recorded("three") == expected


def test_structs_with_odd_text_are_repaired_too() -> None:
    import msgspec

    class Reply(msgspec.Struct):
        content: str
        parts: list[str]

    assert to_json(Reply("a\ud800", ["\udcff"])) == '{"content":"a\ufffd","parts":["\ufffd"]}'


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_clean_text_is_always_encodable_and_changes_nothing_else(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    assert len(clean) == len(text)
    for new, old in zip(clean, text, strict=True):
        assert new == old or (new == "?" and (old == "\0" or "\ud800" <= old <= "\udfff"))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (user("plain"), "plain"),
        (assistant(None), ""),
        ({"role": "assistant"}, ""),
        (user([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]), "a\nb"),
        (user([]), ""),
    ],
)
def test_the_words_of_a_message(message: dict[str, Any], expected: str) -> None:
    assert message_text(message) == expected


_FIRST_USE_IN_THREADS = """
import sys, threading, msgspec
from hermes.agent.turn import Answered
from hermes.journal.records import EVENTS, STEPS, convert_record, decode_record

sys.setswitchinterval(1e-6)
barrier = threading.Barrier(8)

def read():
    barrier.wait()
    tags = [*((kind, "") for kind in EVENTS), *(("step_done", step) for step in STEPS)]
    for kind, key in tags:
        for read in (lambda: convert_record(kind, key, {"a": 1}), lambda: decode_record(kind, key, '{"a":1}')):
            try:
                read()
            except msgspec.ValidationError:
                pass
    try:
        msgspec.convert(dict.fromkeys(Answered.__struct_fields__), Answered)
    except msgspec.ValidationError:
        pass

threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_recorded_bodies_may_be_read_by_several_threads_at_once() -> None:
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", _FIRST_USE_IN_THREADS], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
