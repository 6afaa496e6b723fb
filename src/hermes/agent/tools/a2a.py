"""What a model is told about calling other agents, and where the tools' code is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.tools.registry import Args, Tool, ToolContext
from hermes.tools.schemas import fields, text

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime

# Every request carries these texts, so they are kept short.

_DISCOVER = "What another agent can do. Without agent: the agents that are known by name."
_SEND = (
    "Send a message to another agent and wait for its answer. It knows nothing of this conversation: tell it all it "
    "needs. If state is input-required, it asks something: answer with a2a_answer. Check what it says before you "
    "rely on it."
)
_ANSWER = "Answer what a task of another agent waits for. To an approval the answer is approve or deny."
_CANCEL = "Stop a task of another agent."

_AGENT = text("Name or URL")
_TASK = text("From a2a_send")


def a2a_tools(runtime: Runtime) -> list[Tool]:
    """The tools of the toolset ``a2a``. Their code, and the SDK, are imported at the first call."""
    known = ", ".join(sorted(runtime.config.a2a.agents))
    agent = text(f"Name ({known}) or URL") if known else _AGENT

    def discover(args: Args, context: ToolContext) -> str:
        from hermes.agent.tools.a2a_calls import run_discover

        return run_discover(args, context, runtime.models)

    def send(args: Args, context: ToolContext) -> str:
        from hermes.agent.tools.a2a_calls import run_send

        return run_send(args, context, runtime.models)

    def answer(args: Args, context: ToolContext) -> str:
        from hermes.agent.tools.a2a_calls import run_answer

        return run_answer(args, context, runtime.models)

    def cancel(args: Args, context: ToolContext) -> str:
        from hermes.agent.tools.a2a_calls import run_cancel

        return run_cancel(args, context, runtime.models)

    message = {"message": text(), "context_id": text("Go on with that conversation; from an earlier answer")}
    return [
        Tool("a2a_discover", "a2a", _DISCOVER, fields([], agent=agent), discover, parallel=True, emoji="📇"),
        Tool("a2a_send", "a2a", _SEND, fields(["agent", "message"], agent=agent, **message), send, emoji="📨"),
        Tool(
            *("a2a_answer", "a2a", _ANSWER),
            fields(["agent", "task_id", "answer"], agent=agent, task_id=_TASK, answer=text()),
            answer,
            emoji="💬",
        ),
        Tool(
            *("a2a_cancel", "a2a", _CANCEL, fields(["agent", "task_id"], agent=agent, task_id=_TASK), cancel),
            emoji="🛑",
        ),
    ]
