"""The ``clarify`` tool: a question of the model for the user, if there is one to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.agent.approvals.question import GivenAnswer, StoredQuestion, call_digest
from hermes.base.scope import new_id
from hermes.journal.questions import QuestionRow, Questions
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_error, tool_result

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime

MAX_CHOICES = 4
MAX_QUESTION_CHARS = 2_000
MAX_CHOICE_CHARS = 300


def run_clarify(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """Ask, and wait for the answer. Cancelling the turn ends the wait.

    Question and answer are stored: what was answered before a crash, or later, is not asked again.
    """
    questions = Questions(runtime.store)
    question = str(args.get("question", "")).strip()
    choices = [str(choice).strip() for choice in args.get("choices") or () if str(choice).strip()]
    problem = _problem(question, choices)
    if problem:
        return tool_error(problem)
    row = _row(args, context, question, choices)
    step = {"session_id": row.session_id, "turn_id": row.turn_id, "key": row.key, "digest": row.digest}
    earlier = questions.find(**step) if context.key else None
    if earlier is not None and earlier.state == "answered":
        response = earlier.answer
    else:
        responder, stored = runtime.responders.get(row.session_id), StoredQuestion(questions, row, earlier)
        if responder is None:
            stored.withdraw("no one could be asked")
            return tool_error(
                f"there is no one to ask here ({context.scope.platform}, not interactive). Choose the most sensible "
                f"reading yourself, continue, and say in your answer what you assumed"
            )
        ask = responder.answer

        def answer() -> GivenAnswer:
            return GivenAnswer(ask(question, choices, context.scope.interrupt) or "")

        response = stored.ask(responder.surface, answer).answer
    asked = {"question": question, "choices_offered": choices or None}
    if response is None or not response.strip():
        note = "The user did not answer. Choose the most sensible reading yourself and say what you assumed."
        return tool_result(**asked, user_response=None, note=note)
    return tool_result(**asked, user_response=response.strip())


def _row(args: Args, context: ToolContext, question: str, choices: list[str]) -> QuestionRow:
    scope = context.scope
    return QuestionRow(
        id=new_id("ask_")[:17],
        session_id=scope.session_id,
        turn_id=scope.turn_id,
        key=context.key or scope.tool_call_id,
        tool="clarify",
        digest=call_digest("clarify", args),
        subject=question,
        kind="clarify",
        choices=tuple(choices),
    )


def _problem(question: str, choices: list[str]) -> str | None:
    if not question:
        return "question is empty; say what you need to know"
    if len(question) > MAX_QUESTION_CHARS:
        return f"question has {len(question)} characters; at most {MAX_QUESTION_CHARS} are shown. Make it shorter"
    if len(choices) > MAX_CHOICES:
        return f"{len(choices)} choices; at most {MAX_CHOICES} are offered. The user can always answer in own words"
    if any(len(choice) > MAX_CHOICE_CHARS for choice in choices):
        return f"a choice is longer than {MAX_CHOICE_CHARS} characters; make it shorter"
    return None
