"""Searching past conversations: an index that follows the journal and heals itself."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base.errors import JournalError
from hermes.journal.history.search import SearchIndex
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite import search as search_module
from hermes.journal.store.sqlite.search import SqliteSearchIndex
from journal.kit import StoreFactory, assistant, can_mount, finish_turn, in_own_mounts, python, rows, start_turn, user

pytestmark = pytest.mark.both_stores


class Talk(Protocol):
    def __call__(self, session_id: str, question: str, answer: str = ...) -> None: ...


@pytest.fixture
def index(store: Store) -> SearchIndex:
    return store.search_index()


@pytest.fixture
def talk(store: Store, runner: Runner) -> Talk:
    """Adds a turn to a session."""

    def talk(session_id: str, question: str, answer: str = "Well.") -> None:
        finish_turn(start_turn(store, runner, session_id, message=user(question)), answer)

    return talk


def found(index: SearchIndex, query: str, limit: int = 20) -> list[str]:
    return sorted(hit.session_id for hit in index.search(query, limit=limit))


# -- matching ----------------------------------------------------------------------------------------------------------


def test_words_are_found_in_questions_and_answers(index: SearchIndex, talk: Talk) -> None:
    talk("s1", "What is the capital of France?", "Paris.")
    talk("s2", "What is the capital of Peru?", "Lima.")
    assert found(index, "capital") == ["s1", "s2"]
    assert found(index, "capital france") == ["s1"]
    assert found(index, "LIMA") == ["s2"]
    assert found(index, "paris lima") == []
    (hit,) = index.search("paris")
    assert (hit.session_id, hit.title, hit.role) == ("s1", "What is the capital of France?", "assistant")
    assert hit.snippet == "[Paris]." and hit.updated_at > 0


def test_a_phrase_is_kept_together(index: SearchIndex, talk: Talk) -> None:
    talk("s1", "the quick brown fox")
    talk("s2", "brown and quick")
    assert found(index, "quick brown") == ["s1", "s2"]
    assert found(index, '"quick brown"') == ["s1"]
    assert found(index, 'fox "quick brown"') == ["s1"]
    assert found(index, '"quick brown') == ["s1"], "a quote that is never closed still begins a phrase"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("see src/hermes/cli.py:42", "hermes/cli.py"),
        ("a C++ programme", "c++"),
        ("rm -rf /tmp/x", "-rf"),
        ("NEAR(a, b) OR NOT c", "NEAR OR NOT"),
        ("price: 3.50 €", "3.50"),
        ("column:value ^start *", "column:value ^start"),
        ("naïve café Übung", "naive cafe"),
        ("Привет, мир", "привет"),
        ("日本語 テスト", "日本語"),
        ("with \u0000 inside", "with\u0000inside"),
        ("x{y}", "{y}"),
    ],
)
def test_no_character_is_an_operator(index: SearchIndex, talk: Talk, text: str, query: str) -> None:
    talk("s1", text)
    talk("s2", "something else entirely")
    assert found(index, query) == ["s1"]


@pytest.mark.parametrize("query", ["", "   ", '"', '""', "* - + ()", "🙂"])
def test_a_query_without_words_is_refused(index: SearchIndex, query: str) -> None:
    with pytest.raises(JournalError, match="nothing to search for: give at least one word"):
        index.search(query)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(st.characters(codec=None, exclude_categories=()), max_size=30))
def test_any_query_gives_hits_or_a_clear_refusal(index: SearchIndex, store: Store, talk: Talk, query: str) -> None:
    if not rows(store, "SELECT id FROM sessions"):
        talk("s1", "a few words, 1 2 3")
    try:
        index.search(query)
    except JournalError as error:
        assert "nothing to search for" in str(error)


def test_the_limit_is_kept(index: SearchIndex, talk: Talk) -> None:
    for number in range(6):
        talk(f"s{number}", "the same words")
    assert len(index.search("words", limit=4)) == 4


def test_tool_output_is_not_searched(
    index: SearchIndex,
    store: Store,
    runner: Runner,
) -> None:
    turn = start_turn(store, runner)
    turn.message(1, 1, {"role": "tool", "tool_call_id": "c", "content": "needle"})
    turn.message(1, 0, {"role": "assistant", "content": None, "tool_calls": []})
    finish_turn(turn, "haystack")
    assert found(index, "needle") == [] and found(index, "haystack") == ["s1"]


def test_long_messages_and_parts_are_searched(index: SearchIndex, talk: Talk, store: Store, runner: Runner) -> None:
    talk("s1", "x " * 30_000 + "needle")
    finish_turn(
        start_turn(store, runner, "s2", message=user([{"type": "text", "text": "a needle"}, {"type": "image_url"}]))
    )
    assert found(index, "needle") == ["s1", "s2"]


# -- following the journal ---------------------------------------------------------------------------------------------


def test_an_empty_journal_has_no_hits(index: SearchIndex) -> None:
    assert index.search("anything") == []


@pytest.mark.sqlite_only
def test_the_index_follows_what_was_written_since(
    index: SearchIndex, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "_BATCH", 7)
    talk("s1", "first needle")
    assert found(index, "needle") == ["s1"]
    for number in range(20):
        talk(f"t{number:02}", "another needle")
    assert len(found(index, "needle", limit=50)) == 21


def test_a_replaced_message_is_found_by_its_new_words_only(index: SearchIndex, store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner)
    turn.message(1, 0, assistant("provisional words"))
    turn.commit()
    assert found(index, "provisional") == ["s1"]
    turn.message(1, 0, assistant("final words"))
    turn.commit()
    assert found(index, "provisional") == []
    assert found(index, "final words") == ["s1"]


def test_deleted_sessions_are_not_found_and_hide_no_others(
    index: SearchIndex, talk: Talk, store: Store, runner: Runner
) -> None:
    for number in range(12):
        talk(f"gone{number:02}", "needle needle needle")
    talk("kept", "a needle among other words that make it rank lower than those")
    assert len(index.search("needle", limit=5)) == 5
    for number in range(12):
        Sessions(store).delete(f"gone{number:02}", runner)
    assert found(index, "needle", limit=5) == ["kept"]


@pytest.mark.sqlite_only
def test_the_words_of_a_deleted_session_can_be_forgotten(
    index: SqliteSearchIndex, talk: Talk, store: Store, runner: Runner
) -> None:
    talk("s1", "my secret recipe")
    talk("s2", "my public recipe")
    index.search("recipe")
    index.forget(Sessions(store).delete("s1", runner))
    assert rows(index.path, "SELECT session_id FROM docs WHERE text LIKE '%recipe%'") == [("s2",)]
    assert rows(index.path, "SELECT rowid FROM words WHERE words MATCH 'secret'") == []
    assert found(index, "recipe") == ["s2"]


@pytest.mark.sqlite_only
def test_forgetting_makes_no_index(index: SqliteSearchIndex) -> None:
    index.forget(["s1"])
    assert not index.path.exists()


# -- healing -----------------------------------------------------------------------------------------------------------


@pytest.mark.sqlite_only
def test_an_index_that_was_deleted_is_built_again(index: SqliteSearchIndex, talk: Talk) -> None:
    talk("s1", "needle")
    assert found(index, "needle") == ["s1"]
    assert index.path.stat().st_mode & 0o777 == 0o600
    for file in index.files():
        file.unlink(missing_ok=True)
    assert found(index, "needle") == ["s1"]


@pytest.mark.parametrize("damage", ["garbage", "truncated", "page", "table", "version"])
@pytest.mark.sqlite_only
def test_a_damaged_index_is_built_again_and_the_journal_untouched(
    index: SqliteSearchIndex, talk: Talk, journal_path: Path, damage: str
) -> None:
    for number in range(40):
        talk(f"s{number:02}", f"needle {os.urandom(300).hex()}")
    index.search("needle")
    before = rows(journal_path, "SELECT * FROM messages")
    content = index.path.read_bytes()
    if damage == "garbage":
        index.path.write_bytes(b"not a database at all " * 500)
    elif damage == "truncated":
        index.path.write_bytes(content[: len(content) // 2 // 4096 * 4096])
    elif damage == "page":
        index.path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    else:
        with closing(sqlite3.connect(index.path, isolation_level=None)) as connection:
            connection.execute("DROP TABLE docs" if damage == "table" else "PRAGMA user_version = 77")
    assert len(found(index, "needle", limit=100)) == 40
    assert rows(journal_path, "SELECT * FROM messages") == before


@pytest.mark.sqlite_only
def test_an_index_of_another_journal_is_built_again(
    index: SqliteSearchIndex, talk: Talk, store: Store, journal_path: Path, open_store: StoreFactory, runner: Runner
) -> None:
    for number in range(5):
        talk(f"s{number}", "needle of the old journal")
    index.search("needle")
    store.close()
    for file in store.files():
        file.unlink(missing_ok=True)
    new_store = open_store()
    finish_turn(start_turn(new_store, runner, "new", message=user("needle of the new journal")))
    assert found(SqliteSearchIndex(new_store, index.path), "needle") == ["new"]


def test_several_searches_at_once(journal_path: Path, open_store: StoreFactory, talk: Talk) -> None:
    for number in range(30):
        talk(f"s{number}", "needle")
    results: list[int] = []
    barrier = threading.Barrier(4)

    def search(index: SqliteSearchIndex) -> None:
        barrier.wait()
        results.append(len(index.search("needle", limit=50)))

    indexes = [open_store().search_index() for _ in range(4)]
    threads = [threading.Thread(target=search, args=(index,)) for index in indexes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [30] * 4


FULL_DISK = """
import sys
from pathlib import Path
from journal.kit import finish_turn, start_turn, user
from hermes.base.errors import JournalError
from hermes.journal.runner import FileRunner, Runner
from hermes.journal.store.sqlite.search import SqliteSearchIndex
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.store import SqliteStore
truth, small = Path(sys.argv[1]), Path(sys.argv[2])
store, runner = SqliteStore(truth / "state.db"), FileRunner(truth / "runners")
index = SqliteSearchIndex(store, small / "search.db")
finish_turn(start_turn(store, runner, "first", message=user("needle")))
print(len(index.search("needle")))
inode = index.path.stat().st_ino
for number in range(100):
    finish_turn(start_turn(store, runner, f"s{number}", message=user(f"word{number} " * 1000)))
try:
    index.search("needle")
except JournalError as error:
    print(error)
assert index.path.stat().st_ino == inode, "an index is not thrown away because the disk is full"
"""


@pytest.mark.skipif(not can_mount(), reason="needs a small disk of its own")
@pytest.mark.sqlite_only
def test_a_full_disk_says_so_and_keeps_the_index(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    wrapper = in_own_mounts("mount -t tmpfs -o size=300k none FOLDER", small)
    done = python(FULL_DISK, str(tmp_path), str(small), wrapper=wrapper)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "1",
        f"no space left for {small}/search.db; free some and run the same command again",
    ]


@pytest.mark.sqlite_only
def test_a_place_that_cannot_hold_the_index_is_named(store: Store, talk: Talk, tmp_path: Path) -> None:
    talk("s1", "needle")
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(JournalError, match=r"search\.db"):
        SqliteSearchIndex(store, blocked / "search.db").search("needle")
