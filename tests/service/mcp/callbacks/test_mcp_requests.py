"""Requests of MCP servers while a call runs: model answers within a budget, questions to the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.config.schema.mcp import McpElicitationConfig, McpSamplingConfig
from hermes.base.config.schema.sections import BudgetLimitsConfig, BudgetsConfig
from hermes.base.scope import Interrupt
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host, tool_answers
from support.mcp_rig import faulty
from support.waiting import HANG


class Person:
    """Answers questions in turn."""

    surface = "test"

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.questions: list[tuple[str, tuple[str, ...]]] = []

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        return ApprovalAnswer("deny")

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        self.questions.append((question, tuple(choices)))
        return self.answers.pop(0)


def ask(
    home: Path, workdir: Path, tool: str, args: dict[str, Any], person: Person | None = None, **settings: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the server was answered, and the requests to the model."""
    budgets = settings.pop("budgets", BudgetsConfig())
    replies = [tool_call(f"mcp__f__{tool}", args), text("4"), text("done"), text("more")]
    with ScriptedProvider(replies) as provider:
        with configured_host(
            *(home, workdir, provider),
            mcp_servers={"f": faulty(**settings)},
            mcp_discovery_timeout=HANG,
            budgets=budgets,
        ) as host:
            session = host.new_session()
            if person is not None:
                host.responders.attach(session.id, person)
            session.run("go")
            [answer] = tool_answers(host, session.id)
        return msgspec.json.decode(answer["result"]), [sent.body for sent in provider.requests]


_SAMPLE = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "2+2?"}}],
    "maxTokens": 10_000,
    "systemPrompt": "Be short.",
}


def test_a_server_gets_an_answer_of_the_users_model(home: Path, workdir: Path) -> None:
    answer, requests = ask(home, workdir, "think", _SAMPLE, sampling=McpSamplingConfig(max_tokens_cap=50))
    assert answer["content"]["text"] == "4"
    asked = requests[1]
    assert asked["messages"][0] == {"role": "system", "content": "Be short."}
    assert "2+2?" in str(asked["messages"][1])
    assert 50 in (asked.get("max_tokens"), asked.get("max_completion_tokens"))
    assert "tools" not in asked


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sampling": McpSamplingConfig(enabled=False)}, "Sampling not supported"),
        ({"budgets": BudgetsConfig(on_limit="stop", plugin=BudgetLimitsConfig(calls=0))}, "budget"),
    ],
)
def test_sampling_is_refused_when_it_is_off_or_the_budget_is_spent(
    home: Path, workdir: Path, settings: dict[str, Any], words: str
) -> None:
    answer, _ = ask(home, workdir, "think", _SAMPLE, **settings)
    assert words.lower() in str(answer["error"]).lower()


_FORM = {
    "message": "Which colour?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "count": {"type": "integer", "description": "How many"},
            "sure": {"type": "boolean"},
        },
        "required": ["colour"],
    },
}


def test_a_form_is_asked_field_by_field(home: Path, workdir: Path) -> None:
    person = Person(["blue", "many", "3", "yes"])
    answer, _ = ask(home, workdir, "ask", _FORM, person)
    assert answer == {"action": "accept", "content": {"colour": "blue", "count": 3, "sure": True}}
    question, choices = person.questions[0]
    assert question.startswith("The MCP server f asks: Which colour?")
    assert choices == ("red", "blue", "decline")
    assert "must be an integer" in person.questions[2][0]


@pytest.mark.parametrize(
    ("person", "settings", "expected"),
    [
        (Person(["decline"]), {}, "decline"),
        (Person([""]), {}, "decline"),
        (None, {}, "decline"),
        (Person([]), {"elicitation": McpElicitationConfig(enabled=False)}, "error"),
    ],
)
def test_a_form_is_declined(
    home: Path, workdir: Path, person: Person | None, settings: dict[str, Any], expected: str
) -> None:
    answer, _ = ask(home, workdir, "ask", _FORM, person, **settings)
    assert answer.get("action") == expected or expected in answer
