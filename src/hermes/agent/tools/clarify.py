"""The ``clarify`` tool: a question of the model's for the person at the other end, if there is one."""

from __future__ import annotations

from hermes.agent.approvals.person import People
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_error, tool_result

MAX_CHOICES = 4
MAX_QUESTION_CHARS = 2_000
MAX_CHOICE_CHARS = 300


def run_clarify(args: Args, context: ToolContext, people: People) -> str:
    """Ask, and wait for the answer. Cancelling the turn ends the wait."""
    question = str(args.get("question", "")).strip()
    choices = [str(choice).strip() for choice in args.get("choices") or () if str(choice).strip()]
    problem = _problem(question, choices)
    if problem:
        return tool_error(problem)
    scope = context.scope
    person = people.of(scope.session_id)
    if person is None:
        return tool_error(
            f"nobody can be asked here ({scope.platform}, not interactive). Choose the most sensible reading yourself, "
            f"go on, and say in your answer what you assumed"
        )
    response = person.answer(question, choices, scope.interrupt)
    asked = {"question": question, "choices_offered": choices or None}
    if response is None or not response.strip():
        note = "The user did not answer. Choose the most sensible reading yourself and say what you assumed."
        return tool_result(**asked, user_response=None, note=note)
    return tool_result(**asked, user_response=response.strip())


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
