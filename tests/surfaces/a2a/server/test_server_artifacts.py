"""How a turn's events become a task's: nothing lost, nothing twice, whatever the pace."""

from __future__ import annotations

import asyncio

import pytest
from a2a.server.events import Event, EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import Task, TaskArtifactUpdateEvent
from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.events import TurnResult
from hermes.base.sanitize import Redactor
from hermes.contract.events import (
    AttemptAnswered,
    AttemptFailed,
    ReasoningDelta,
    TextDelta,
    TurnEvent,
    TurnStarted,
)
from hermes.models.costs.usage import Usage
from hermes.service.live.turn import LiveTurn
from hermes.surfaces.a2a.server.artifacts import ArtifactStream
from support.a2a_rig import artifact_text
from support.events import some, tool_started

ANSWERED = some(AttemptAnswered)
RESULT = TurnResult("s", "t", "completed", "", None, Usage(), "m", "p", 1, [], 0.0)
FAILED = some(AttemptFailed, error={"message": "it broke"})


class Collected(EventQueue):
    """Keeps the events, and the task that they make."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.task = Task(id="t")

    async def enqueue_event(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, TaskArtifactUpdateEvent):
            append_artifact_to_task(self.task, event)

    @property
    def chunks(self) -> list[TaskArtifactUpdateEvent]:
        return [event for event in self.events if isinstance(event, TaskArtifactUpdateEvent)]


def relayed(*told: TurnEvent, answer: str | None = None, pause_after: int = -1, watched: bool = True) -> Collected:
    """What comes of these events, told by another thread."""

    async def run() -> Collected:
        queue = Collected()
        updater, live = TaskUpdater(queue, "t", "c"), LiveTurn("s", Redactor(), loop=asyncio.get_running_loop())
        relay = ArtifactStream(updater, live, show_tools=True, has_subscribers=lambda: watched)

        def tell() -> None:
            for number, event in enumerate(told):
                relay.listen(event)
                if number == pause_after:
                    paused.wait(0.02)
            live.end(RESULT)

        import threading

        paused = threading.Event()
        thread = threading.Thread(target=tell)
        thread.start()
        await relay.run()
        thread.join()
        if answer is None:
            await relay.cut()
        else:
            await relay.finish(answer)
        return queue

    return asyncio.run(run())


def test_a_second_attempt_replaces_the_text_of_the_first() -> None:
    told = (TextDelta("half an"), FAILED, TextDelta("a whole answer"), ANSWERED)
    made = relayed(*told, answer="a whole answer", pause_after=0)
    assert artifact_text(made.task) == "a whole answer" and len(made.task.artifacts) == 1
    assert made.chunks[-1].last_chunk and len({chunk.artifact.artifact_id for chunk in made.chunks}) == 1


def test_a_second_attempt_without_text_leaves_none() -> None:
    made = relayed(TextDelta("half an answer"), FAILED, ANSWERED, pause_after=0)
    assert artifact_text(made.task) == ""


def test_the_text_of_a_cut_off_answer_is_kept() -> None:
    made = relayed(TextDelta("half an ans"), pause_after=0)
    assert artifact_text(made.task) == "half an ans" and made.chunks[-1].last_chunk


def test_reasoning_is_not_forwarded() -> None:
    made = relayed(ReasoningDelta("secret"), TextDelta("x"), ANSWERED, answer="x")
    assert [chunk.artifact.parts[0].text for chunk in made.chunks] == ["x"]


@given(
    st.lists(st.text(max_size=5), max_size=8),
    st.lists(st.text(max_size=5), max_size=8),
    st.integers(-1, 10),
    st.booleans(),
)
def test_chunks_make_the_answers_at_any_pace(
    first: list[str], second: list[str], pause_after: int, watched: bool
) -> None:
    told: list[TurnEvent] = [*map(TextDelta, first), ANSWERED, tool_started("1", "tool", {})]
    told += [*map(TextDelta, second), ANSWERED]
    made = relayed(*told, answer="".join(second), pause_after=pause_after, watched=watched)
    expected = [text for text in ("".join(first), "".join(second)) if text]
    assert [artifact_text(Task(artifacts=[artifact])) for artifact in made.task.artifacts] == expected
    for artifact in made.task.artifacts:
        chunks = [chunk for chunk in made.chunks if chunk.artifact.artifact_id == artifact.artifact_id]
        assert [chunk.append for chunk in chunks] == [False, *[True] * (len(chunks) - 1)]
        assert [chunk.last_chunk for chunk in chunks] == [*[False] * (len(chunks) - 1), True]
        assert all(chunk.artifact.parts[0].text for chunk in chunks)


def corrected(*told: TurnEvent, texts: list[str], answer: str, is_whole: bool) -> list[str]:
    """The artifacts of a turn of which only these events came through, once its record was read."""

    async def run() -> list[str]:
        queue = Collected()
        updater = TaskUpdater(queue, "t", "c")
        live = LiveTurn("s", Redactor(), loop=asyncio.get_running_loop())
        relay = ArtifactStream(updater, live, show_tools=True, has_subscribers=lambda: True)
        if not is_whole:
            relay.rejoin([])
        for event in told:
            relay.listen(event)
        live.end(RESULT)
        await relay.run()
        relay.listen(TextDelta("too late"))
        await relay.correct(queue.task.artifacts, texts)
        await relay.finish(answer)
        return ["".join(part.text for part in artifact.parts) for artifact in queue.task.artifacts]

    return asyncio.run(run())


@pytest.mark.parametrize(
    "told",
    [
        pytest.param((TextDelta("lf a word"), ANSWERED, TextDelta("whole"), ANSWERED), id="joined in the middle"),
        pytest.param((some(TurnStarted), TextDelta("half a word"), ANSWERED), id="joined at the beginning"),
        pytest.param((), id="nothing came through"),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_artifacts_are_those_of_the_record_whatever_came_through(told: tuple[TurnEvent, ...], is_whole: bool) -> None:
    texts = ["half a word", "whole"]
    assert corrected(*told, texts=texts, answer="whole", is_whole=is_whole) == texts


def test_an_end_that_was_lost_leaves_no_half_of_an_answer() -> None:
    assert corrected(TextDelta("a who"), texts=["a whole answer"], answer="a whole answer", is_whole=True) == [
        "a whole answer"
    ]
