"""The status line: what it says, and what it leaves out first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from hermes.models.local.endpoint import ADDRESS, EMBEDDED, LOCAL
from hermes.models.local.prompt.conversation import MOST_TOKENS
from hermes.surfaces.cli.repl.status_line import StatusFacts, conversation_facts, short_count, status_line
from hermes.surfaces.cli.terminal import cells
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.surface import OneShotSurface
from hermes.testing import ScriptedProvider, text
from support import HostFactory

FACTS = StatusFacts(
    model="gpt-5",
    session_id="20260101_120000_a1b2c3",
    input_tokens=45_600,
    output_tokens=789,
    cost_usd=0.01234,
    context_tokens=12_345,
    context_window=128_000,
    mode="yolo",
    queued=2,
)


def test_everything_on_one_line() -> None:
    expected = "gpt-5 · 45.6k in, 789 out · $0.0123 · 12.3k/128k 10% · a1b2c3 · queued 2 · yolo"
    assert status_line(FACTS, 80) == expected
    assert status_line(FACTS, 100, unicode=False) == expected.replace("·", "|")


def test_the_least_important_goes_first() -> None:
    assert status_line(FACTS, 78) == "gpt-5 · 45.6k in, 789 out · $0.0123 · 12.3k/128k 10% · queued 2 · yolo"
    assert status_line(FACTS, 60) == "gpt-5 · $0.0123 · 12.3k/128k 10% · queued 2 · yolo"
    assert status_line(FACTS, 40) == "gpt-5 · 12.3k/128k 10% · queued 2 · yolo"
    assert status_line(FACTS, 39) == "gpt-5 · 12.3k/128k 10% · yolo"
    assert status_line(FACTS, 20) == "gpt-5 · yolo"
    assert status_line(FACTS, 4) == "yolo"
    assert status_line(replace(FACTS, mode=""), 4) == "gpt…"


def test_what_is_unknown_is_left_out() -> None:
    assert status_line(StatusFacts(), 80) == "no model"
    assert status_line(StatusFacts(model="m", context_tokens=2_000), 80) == "m · 2k context"
    assert status_line(StatusFacts(model="m", context_window=8_192), 80) == "m · 0/8.2k 0%"
    assert status_line(StatusFacts(model="m", cost_usd=0.0), 80) == "m · $0.0000"
    assert status_line(StatusFacts(model="m", cost_usd=12.345), 80) == "m · $12.35"


def test_a_session_id_is_shortened_to_what_tells_it_apart() -> None:
    assert status_line(StatusFacts(model="m", session_id="20260101_120000_a1b2c3"), 80) == "m · a1b2c3"
    assert status_line(StatusFacts(model="m", session_id="my-own-session"), 80) == "m · -session"
    assert status_line(StatusFacts(model="m", session_id=""), 80) == "m"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1k"),
        (12_345, "12.3k"),
        (99_949, "99.9k"),
        (99_951, "100k"),
        (128_000, "128k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (1_234_567, "1.2M"),
    ],
)
def test_counts_are_short(count: int, text: str) -> None:
    assert short_count(count) == text


@given(st.text(max_size=90), st.integers(0, 10**9), st.none() | st.floats(0, 10**6), st.integers(1, 120), st.booleans())
def test_the_line_always_fits(model: str, tokens: int, cost: float | None, width: int, unicode: bool) -> None:
    facts = StatusFacts(model, "s", tokens, tokens, cost, tokens, 128_000, queued=tokens)
    line = status_line(facts, width, unicode=unicode)
    assert cells(line) <= width and "\n" not in line and "\x1b" not in line


def test_a_resumed_session_shows_an_estimate_of_its_context(make_host: HostFactory) -> None:
    with ScriptedProvider([text("word " * 4_000)]) as provider:
        before = make_host(provider)
        session = before.new_session()
        session.run("tell me")
        before.close()
        host = make_host(provider)
        again = conversation_facts(Conversation(host, host.resume_session(session.id), OneShotSurface()))
    assert again.context_tokens > 2_000 and again.context_window == 128_000


def test_the_embedded_model_is_shown_with_what_it_sees(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        contexts = make_host(provider).runtime.contexts
        [other] = make_host(provider).new_session().models.endpoints[:1]
    embedded = structs.replace(other, provider=LOCAL, base_url=ADDRESS, model=EMBEDDED, context_length=None)
    assert contexts.seen_by(embedded) == MOST_TOKENS
    assert contexts.seen_by(other) == contexts.length_for(other)
