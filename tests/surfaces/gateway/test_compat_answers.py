"""What plugins see of a chat under upstream's names, and the answers that their buttons give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes.testing import RecordedRequest, text, tool_call
from support.gateway_rig import GatewayRig, RunningGateway
from support.waiting import wait_until

PLUGIN = """
from gateway.session_context import clear_session_vars, get_session_env, reset_session_vars, set_session_vars
from tools.approval import get_current_session_key, has_blocking_approval, resolve_gateway_approval
from tools.clarify_gateway import has_pending, mark_awaiting_text, resolve_text_response_for_session

seen = []
NAMES = ("PLATFORM", "CHAT_ID", "USER_ID", "KEY", "THREAD_ID")

def look(**fields):
    key = get_current_session_key()
    seen.append([get_session_env(f"HERMES_SESSION_{name}", "none") for name in NAMES] + [key])
    set_session_vars(platform="mine", chat_id="7")
    seen.append([get_session_env(f"HERMES_SESSION_{name}", "none") for name in NAMES])
    clear_session_vars([])
    seen.append(get_session_env("HERMES_SESSION_PLATFORM", "none"))
    reset_session_vars()

class Api:
    approve = staticmethod(resolve_gateway_approval)
    waits = staticmethod(has_blocking_approval)
    asks = staticmethod(has_pending)
    answer = staticmethod(resolve_text_response_for_session)
    seen = seen

def register(ctx):
    ctx.register_hook("pre_llm_call", look)
    ctx.register_command("api", lambda raw: Api)
"""


def start(rig: GatewayRig, home: Path) -> tuple[RunningGateway, Any]:
    folder = home / "plugins" / "buttons"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("")
    (folder / "__init__.py").write_text(PLUGIN)
    running = rig.start(options={"plugins": ["buttons"]})
    return running, running.host.plugins.commands["api"].handler("")


def script(request: RecordedRequest) -> Any:
    if any(message["role"] == "tool" for message in request.messages):
        return text("Cleaned.")
    if request.last_user_text.startswith("ask"):
        return tool_call("clarify", {"question": "Which?", "choices": ["red", "blue"]})
    return tool_call("terminal", {"command": "rm -r precious"})


def key_of(running: RunningGateway, chat: str) -> str:
    return next(row.key for row in running.gateway.inbox.chats() if row.read_source().chat_id == chat)


def test_a_button_answers_for_the_user_of_a_direct_chat(rig: GatewayRig, home: Path, workdir: Path) -> None:
    rig.provider.script = script  # pyright: ignore[reportAttributeAccessIssue]
    (workdir / "precious").mkdir()
    running, api = start(rig, home)
    client = rig.client()
    assert "rm -r precious" in client.ask("clean up")
    key = key_of(running, "alice")
    assert api.seen[0] == ["line", "alice", "alice", key, "", key]
    assert api.seen[1] == ["mine", "7", "", "", ""]
    assert api.seen[2] == ""
    wait_until(lambda: api.waits(key), "the approval")
    assert api.approve("no such chat", "once") == 0
    assert api.approve(key, "once") == 1
    assert client.hear(2)[1] == "Cleaned."
    assert not (workdir / "precious").exists()
    assert api.approve(key, "once") == 0


def test_a_button_gives_no_approval_for_others_and_refuses_for_all(rig: GatewayRig, home: Path, workdir: Path) -> None:
    rig.provider.script = script  # pyright: ignore[reportAttributeAccessIssue]
    running, api = start(rig, home)
    client = rig.client()
    client.ask("clean up", "#room", type="group", user="alice")
    key = key_of(running, "#room")
    wait_until(lambda: api.waits(key), "the approval")
    assert api.approve(key, "once") == 0  # anyone in the group may have pressed it
    assert api.approve(key, "deny", reason="no") == 1
    assert client.hear(2, "#room")[1] == "Cleaned."


def test_a_button_answers_a_question_of_the_model(rig: GatewayRig, home: Path) -> None:
    rig.provider.script = script  # pyright: ignore[reportAttributeAccessIssue]
    running, api = start(rig, home)
    client = rig.client()
    client.ask("ask me")
    key = key_of(running, "alice")
    wait_until(lambda: api.asks(key), "the question")
    assert api.answer(key, "2")
    assert client.hear(2)[1] == "Cleaned."
    results = [one for request in rig.provider.requests for one in request.messages if one["role"] == "tool"]
    assert "blue" in str(results)
