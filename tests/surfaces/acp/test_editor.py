"""``hermes acp`` driven by the client of the official SDK, over a real connection."""

from __future__ import annotations

import asyncio
import base64
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import acp
import pytest
from acp.schema import (
    ClientCapabilities,
    EnvVariable,
    HttpMcpServer,
    ImageContentBlock,
    McpServerStdio,
    ResourceContentBlock,
    TextContentBlock,
)

from hermes.base.config.schema.modes import MODES
from hermes.host import Host
from hermes.service.mcp.sources import McpSources
from hermes.surfaces.acp.server import AcpServer
from hermes.testing import ScriptedProvider, hanging, reasoning, text, tool_call
from support.configured import configured_host
from support.left_turn import COMMAND, check_taken_up_once, leave_turn
from support.mcp_rig import FAULTY
from support.waiting import HANG


class Editor:
    """Records the updates, and answers questions with the option of a kind."""

    def __init__(self, picks: str = "allow_once") -> None:
        self.picks = picks
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.changed = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update.model_dump(by_alias=True, exclude_none=True))
        self.changed.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **kwargs: Any) -> Any:
        found = {option.kind: option.option_id for option in options}
        self.asked.append(
            {
                "call": tool_call.model_dump(by_alias=True, exclude_none=True),
                "options": [(option.kind, option.name) for option in options],
            }
        )
        if self.picks not in found:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": found[self.picks]}}

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.of(kind))

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 30)


@asynccontextmanager
async def connected(make_host: Callable[[Path], Host], editor: Editor) -> AsyncGenerator[Any]:
    """An editor at one end of a connection, and the agent at the other."""
    ours, theirs = socket.socketpair()
    source, sink = theirs.makefile("rb"), theirs.makefile("wb")
    thread = threading.Thread(target=AcpServer(source, sink, make_host).run)
    thread.start()
    reader, writer = await asyncio.open_connection(sock=ours)
    connection = acp.connect_to_agent(cast("Any", editor), writer, reader, use_unstable_protocol=True)
    try:
        await connection.initialize(protocol_version=1, client_capabilities=ClientCapabilities())
        yield connection
    finally:
        await connection.close()
        writer.close()
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        source.close()
        with suppress(OSError):  # what could not be sent any more
            sink.close()
        theirs.close()


class Rig:
    """A home, a working folder and a model's script for one test."""

    def __init__(self, home: Path, workdir: Path) -> None:
        self.home = home
        self.workdir = workdir

    def run(
        self,
        script: list[Any],
        drive: Callable[[Any, Editor, ScriptedProvider], Any],
        editor: Editor | None = None,
        **sections: Any,
    ) -> Any:
        async def driven() -> Any:
            used = editor or Editor()
            with ScriptedProvider(script) as provider:

                def make_host(cwd: Path) -> Host:
                    options = {"platform": "acp", **sections.pop("options", {})}
                    return configured_host(self.home, cwd, provider, options=options, **sections)

                async with connected(make_host, used) as agent:
                    return await asyncio.wait_for(drive(agent, used, provider), 60)

        return asyncio.run(driven())


@pytest.fixture
def rig(home: Path, workdir: Path) -> Rig:
    return Rig(home, workdir)


def words(said: str) -> list[Any]:
    return [TextContentBlock(type="text", text=said)]


def test_the_agent_says_what_it_can_do_before_it_builds_anything(rig: Rig) -> None:
    async def drive(agent: Any, _editor: Editor, _provider: ScriptedProvider) -> Any:
        return await agent.initialize(protocol_version=1)

    answer = rig.run([], drive)
    assert answer.protocol_version == 1
    can = answer.agent_capabilities
    assert can.load_session and can.prompt_capabilities.image
    assert can.session_capabilities.fork is not None and can.session_capabilities.list is not None
    assert not rig.home.exists()


def test_a_prompt_streams_thoughts_tools_diffs_and_plans(rig: Rig) -> None:
    (rig.workdir / "a.txt").write_text("old\n")
    todos = [{"id": "1", "content": "write", "status": "in_progress"}]
    script = [
        tool_call("todo", {"todos": todos}),
        tool_call("write_file", {"path": "a.txt", "content": "new\n"}),
        tool_call("terminal", {"command": "cat a.txt"}),
        reasoning("almost", "It is new."),
    ]

    async def drive(agent: Any, editor: Editor, _provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        assert session.modes.current_mode_id == "ask-risky"
        assert {mode.id for mode in session.modes.available_modes} == set(MODES)
        answer = await agent.prompt(session_id=session.session_id, prompt=words("go"))
        assert answer.stop_reason == "end_turn"
        await editor.until(lambda: editor.said() == "It is new.")
        assert editor.said("agent_thought_chunk") == "almost"
        [plan] = editor.of("plan")
        assert plan["entries"] == [{"content": "write", "priority": "medium", "status": "in_progress"}]
        listed, written, ran = editor.of("tool_call")
        assert (listed["kind"], written["kind"], ran["kind"], ran["title"]) == ("think", "edit", "execute", "cat a.txt")
        path = str(rig.workdir / "a.txt")
        assert written["content"] == [{"type": "diff", "path": path, "oldText": "old\n", "newText": "new\n"}]
        assert written["locations"] == [{"path": path}]
        ended = {update["toolCallId"]: update for update in editor.of("tool_call_update")}
        assert ended[ran["toolCallId"]]["status"] == "completed"
        assert "new" in ended[ran["toolCallId"]]["content"][0]["content"]["text"]
        names = {command["name"] for command in editor.of("available_commands_update")[0]["availableCommands"]}
        assert "compress" in names and "quit" not in names

    rig.run(script, drive)


def test_a_patch_of_several_files_is_shown_as_diffs(rig: Rig) -> None:
    for name in ("a", "b"):
        (rig.workdir / f"{name}.txt").write_text("one\ntwo\nthree\n")
    patch = """*** Begin Patch
*** Update File: a.txt
@@
 one
-two
+zwei
*** Delete File: b.txt
*** Add File: c.txt
+new
*** End Patch"""
    script = [tool_call("patch", {"mode": "patch", "patch": patch}), text("done")]

    async def drive(agent: Any, editor: Editor, _provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        await agent.set_session_mode(session_id=session.session_id, mode_id="accept-edits")
        await agent.prompt(session_id=session.session_id, prompt=words("go"))
        await editor.until(lambda: editor.said() == "done")

    editor = Editor()
    rig.run(script, drive, editor)
    [call] = editor.of("tool_call")
    paths = [str(rig.workdir / f"{name}.txt") for name in ("a", "b", "c")]
    assert call["locations"] == [{"path": path} for path in paths]
    changed, deleted, added = call["content"]
    assert changed == {"type": "diff", "path": paths[0], "oldText": "one\ntwo\n", "newText": "one\nzwei\n"}
    assert deleted == {"type": "diff", "path": paths[1], "oldText": "one\ntwo\nthree\n", "newText": ""}
    assert added == {"type": "diff", "path": paths[2], "newText": "new\n"}
    assert (rig.workdir / "a.txt").read_text() == "one\nzwei\nthree\n"
    assert editor.of("tool_call_update")[0]["status"] == "completed"


@pytest.mark.parametrize(("picks", "is_there"), [("allow_once", False), ("reject_once", True), ("nothing", True)])
def test_permission_is_asked_in_the_editor(rig: Rig, picks: str, is_there: bool) -> None:
    (rig.workdir / "notes").mkdir()
    script = [tool_call("terminal", {"command": "rm -rf notes"}), text("done")]

    async def drive(agent: Any, editor: Editor, _provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=words("clean"))
        [question] = editor.asked
        assert question["call"]["title"] == "rm -rf notes"
        assert ("allow_once", "Allow") in question["options"] and ("reject_once", "Reject") in question["options"]
        lasting = "all calls under the rule recursive-delete"
        assert ("allow_always", f"Allow for longer: {lasting}, in this session") in question["options"]
        assert ("allow_always", f"Always allow: {lasting}, in all sessions") in question["options"]
        await editor.until(lambda: editor.of("tool_call_update"))
        assert editor.of("tool_call_update")[0]["status"] == ("completed" if picks == "allow_once" else "failed")
        assert editor.of("tool_call")[0]["toolCallId"] == question["call"]["toolCallId"]

    rig.run(script, drive, Editor(picks))
    assert (rig.workdir / "notes").exists() == is_there


def test_hidden_characters_are_shown_in_the_question(rig: Rig) -> None:
    script = [tool_call("terminal", {"command": "rm -rf notes\u202e\u200b"}), text("done")]

    async def drive(agent: Any, editor: Editor, _provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=words("clean"))
        [question] = editor.asked
        said = str(question["call"]["content"]).replace("\\\\", "\\")
        assert r"It has hidden characters: rm -rf notes\u202e\u200b" in said

    rig.run(script, drive, Editor("reject_once"))


def test_a_mode_decides_what_is_asked(rig: Rig) -> None:
    script = [tool_call("write_file", {"path": "b.txt", "content": "x"}), text("planned")]

    async def drive(agent: Any, editor: Editor, _provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        await agent.set_session_mode(session_id=session.session_id, mode_id="plan")
        await editor.until(lambda: editor.of("current_mode_update"))
        with pytest.raises(acp.RequestError, match="there is no mode 'fast'"):
            await agent.set_session_mode(session_id=session.session_id, mode_id="fast")
        await agent.prompt(session_id=session.session_id, prompt=words("write"))

    rig.run(script, drive)
    assert not (rig.workdir / "b.txt").exists()


def test_a_prompt_is_cancelled_and_the_next_one_works(rig: Rig) -> None:
    async def drive(agent: Any, editor: Editor, provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        running = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=words("wait")))
        while not provider.requests:
            await asyncio.sleep(0.01)
        with pytest.raises(acp.RequestError, match="another prompt"):
            await agent.prompt(session_id=session.session_id, prompt=words("and this"))
        await agent.cancel(session_id=session.session_id)
        assert (await running).stop_reason == "cancelled"
        answer = await agent.prompt(session_id=session.session_id, prompt=words("again"))
        assert answer.stop_reason == "end_turn"

    rig.run([hanging(), text("here")], drive)


def test_cancel_stops_a_command(rig: Rig) -> None:
    async def drive(agent: Any, editor: Editor, _provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        running = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=words("wait")))
        await editor.until(lambda: editor.of("tool_call"))
        await agent.cancel(session_id=session.session_id)
        assert (await running).stop_reason == "cancelled"
        await editor.until(lambda: editor.of("tool_call_update"))
        assert editor.of("tool_call_update")[0]["status"] == "failed"

    rig.run([tool_call("terminal", {"command": "sleep 600"}), text("never")], drive)


def test_a_question_is_cancelled_with_its_prompt(rig: Rig) -> None:
    class Silent(Editor):
        async def request_permission(self, session_id: str, tool_call: Any, options: Any, **kwargs: Any) -> Any:
            self.asked.append({})
            self.changed.set()
            await asyncio.sleep(600)

    async def drive(agent: Any, editor: Editor, _provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        running = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=words("clean")))
        await editor.until(lambda: editor.asked)
        await agent.cancel(session_id=session.session_id)
        assert (await running).stop_reason == "cancelled"

    rig.run([tool_call("terminal", {"command": "rm -rf notes"}), text("never")], drive, Silent())


def test_sessions_are_listed_loaded_resumed_and_forked(rig: Rig) -> None:
    script = [tool_call("read_file", {"path": "a.txt"}), text("It says one."), text("forked"), text("resumed")]
    (rig.workdir / "a.txt").write_text("one\n")
    folder = str(rig.workdir)
    session_id = ""

    async def first(agent: Any, _editor: Editor, _provider: ScriptedProvider) -> str:
        session = await agent.new_session(cwd=folder, mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=words("read it"))
        return session.session_id

    async def second(agent: Any, editor: Editor, provider: ScriptedProvider) -> None:
        [row] = (await agent.list_sessions(cwd=folder)).sessions
        assert (row.session_id, row.cwd, row.title) == (session_id, folder, "read it")
        with pytest.raises(acp.RequestError):
            await agent.load_session(cwd=folder, session_id="20200101_000000_abcdef", mcp_servers=[])
        await agent.load_session(cwd=folder, session_id=session_id, mcp_servers=[])
        await editor.until(lambda: editor.said() == "It says one.")
        assert editor.said("user_message_chunk") == "read it"
        [call] = editor.of("tool_call")
        [ended] = editor.of("tool_call_update")
        assert call["toolCallId"] == ended["toolCallId"] and "one" in ended["content"][0]["content"]["text"]
        fork = await agent.fork_session(cwd=folder, session_id=session_id, mcp_servers=[])
        assert fork.session_id != session_id
        await agent.prompt(session_id=fork.session_id, prompt=words("go on"))
        assert len(provider.requests[-1].messages) == 6, "the fork knows the conversation"
        await agent.resume_session(cwd=folder, session_id=session_id, mcp_servers=[])
        await agent.prompt(session_id=session_id, prompt=words("and here"))
        assert "go on" not in str(provider.requests[-1].messages)
        await agent.close_session(session_id=session_id)
        with pytest.raises(acp.RequestError, match="is not open"):
            await agent.prompt(session_id=session_id, prompt=words("x"))

    session_id = rig.run(script[:2], first)
    rig.run(script[2:], second)


def test_a_turn_that_a_killed_process_left_is_finished_before_the_next_prompt(rig: Rig) -> None:
    with ScriptedProvider([COMMAND]) as provider:
        session_id = leave_turn(rig.home, rig.workdir, provider)

    async def drive(agent: Any, editor: Editor, provider: ScriptedProvider) -> list[dict[str, Any]]:
        await agent.load_session(cwd=str(rig.workdir), session_id=session_id, mcp_servers=[])
        await agent.prompt(session_id=session_id, prompt=words("And now?"))
        await editor.until(lambda: editor.said().endswith("Next."))
        return provider.requests[-1].messages

    messages = rig.run([text("Done."), text("Next.")], drive)
    check_taken_up_once(rig.workdir, messages)
    assert [message["content"] for message in messages if message["role"] == "user"] == ["Go.", "And now?"]


def test_images_files_and_commands_are_understood(rig: Rig) -> None:
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n picture").decode()

    async def drive(agent: Any, editor: Editor, provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        blocks = [
            TextContentBlock(type="text", text="What is it?"),
            ImageContentBlock(type="image", data=png, mime_type="image/png"),
            acp.resource_link_block("a.txt", (rig.workdir / "a.txt").as_uri()),
        ]
        await agent.prompt(session_id=session.session_id, prompt=blocks)
        said, picture = provider.requests[0].messages[-1]["content"]
        assert said["text"] == f"What is it?\n\n[a.txt]({rig.workdir / 'a.txt'})"
        assert picture["image_url"]["url"].startswith("data:image/png;base64,")
        await agent.prompt(session_id=session.session_id, prompt=words("/status"))
        await editor.until(lambda: "Session" in editor.said())
        assert len(provider.requests) == 1, "a command asks no model"

    rig.run([text("a picture")], drive)


def test_the_model_asks_in_the_editor(rig: Rig) -> None:
    script = [tool_call("clarify", {"question": "Which?", "choices": ["red", "blue"]}), text("red it is")]

    async def drive(agent: Any, editor: Editor, provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=words("paint"))
        [question] = editor.asked
        assert question["call"]["title"] == "Which?"
        assert [name for _, name in question["options"]] == ["red", "blue", "Skip"]
        # The last option of a kind is picked.
        assert '"user_response":"blue"' in provider.requests[1].messages[-1]["content"]

    rig.run(script, drive)


def test_the_model_asks_with_a_form_where_the_editor_has_them(rig: Rig) -> None:
    class FormEditor(Editor):
        async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
            self.asked.append({"message": message})
            return {"action": "accept", "content": {"answer": "a dark green"}}

    script = [tool_call("clarify", {"question": "Which colour?"}), text("green it is")]

    async def drive(agent: Any, editor: Editor, provider: ScriptedProvider) -> None:
        forms = ClientCapabilities.model_validate({"elicitation": {"form": {}}})
        await agent.initialize(protocol_version=1, client_capabilities=forms)
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=words("paint"))
        assert editor.asked == [{"message": "Which colour?"}]
        assert '"user_response":"a dark green"' in provider.requests[1].messages[-1]["content"]

    rig.run(script, drive, FormEditor())


def test_bad_input_gets_an_answer_and_ends_nothing(rig: Rig) -> None:
    async def drive(agent: Any, _editor: Editor, _provider: ScriptedProvider) -> None:
        for cwd in ("relative", "/no/such/folder", "/" + "a" * 5_000):
            with pytest.raises(acp.RequestError, match="cwd is"):
                await agent.new_session(cwd=cwd, mcp_servers=[])
        with pytest.raises(acp.RequestError, match="is not open"):
            await agent.prompt(session_id="nothing", prompt=words("x"))
        with pytest.raises(acp.RequestError, match="there is no method"):
            await agent.ext_method("frobnicate", {})
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        with pytest.raises(acp.RequestError, match="the prompt is empty"):
            await agent.prompt(session_id=session.session_id, prompt=words(" "))
        link = ResourceContentBlock(type="resource_link", name="x", uri="file://[")
        with pytest.raises(acp.RequestError, match="is not valid"):
            await agent.prompt(session_id=session.session_id, prompt=[link])
        assert (await agent.prompt(session_id=session.session_id, prompt=words("hi"))).stop_reason == "end_turn"
        await agent.close_session(session_id=session.session_id)
        with pytest.raises(acp.RequestError, match="there is no session"):
            await agent.load_session(session_id=session.session_id[:8], cwd=str(rig.workdir), mcp_servers=[])

    rig.run([text("hello")], drive)


def test_a_session_of_a_caller_is_not_opened_in_an_editor(rig: Rig) -> None:
    """It would work for the caller, in the folder that the editor has open."""
    hosts: list[Host] = []

    async def drive(agent: Any, _editor: Editor, _provider: ScriptedProvider) -> None:
        await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        theirs = hosts[0].new_session(principal="bob")
        theirs.run("hello")
        for open_it in (agent.load_session, agent.resume_session, agent.fork_session):
            with pytest.raises(acp.RequestError, match="is one of bob"):
                await open_it(session_id=theirs.id, cwd=str(rig.workdir), mcp_servers=[])

    original = AcpServer._ready_host  # pyright: ignore[reportPrivateUsage]

    def recorded(server: AcpServer, *given: Any) -> Host:
        hosts.append(original(server, *given))
        return hosts[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AcpServer, "_ready_host", recorded)
        rig.run([text("hello")], drive)


def test_a_failed_turn_is_an_error_with_its_cause(rig: Rig) -> None:
    from hermes.testing import failure

    async def drive(agent: Any, _editor: Editor, _provider: ScriptedProvider) -> None:
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[])
        with pytest.raises(acp.RequestError, match="invalid api key"):
            await agent.prompt(session_id=session.session_id, prompt=words("hi"))

    rig.run([failure(401, "invalid api key")], drive)


def test_mcp_servers_of_the_editor_join_those_of_the_configuration(rig: Rig) -> None:
    used: list[McpSources] = []

    async def drive(agent: Any, _editor: Editor, _provider: ScriptedProvider) -> None:
        server = HttpMcpServer(type="http", name="docs", url="http://127.0.0.1:9/mcp", headers=[])
        await agent.new_session(cwd=str(rig.workdir), mcp_servers=[server])

    original = McpSources.add

    def recorded(sources: McpSources, entries: Any) -> list[str]:
        used.append(sources)
        return original(sources, entries)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(McpSources, "add", recorded)
        rig.run([], drive)
    [sources] = used
    assert sources.servers is not None
    assert [status.name for status in sources.servers.status()] == ["docs"]


def test_a_program_that_the_editor_names_is_started_and_called(rig: Rig) -> None:
    colours = {"type": "object", "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}}}
    script = [
        tool_call("mcp__notes__echo", {"text": "hi"}),
        tool_call("mcp__notes__environment", {}),
        tool_call("mcp__notes__ask", {"message": "Which colour?", "requestedSchema": colours}),
        text("done"),
    ]

    async def drive(agent: Any, editor: Editor, provider: ScriptedProvider) -> None:
        server = McpServerStdio(
            name="notes",
            command=sys.executable,
            args=["-S", str(FAULTY)],
            env=[EnvVariable(name="NOTES_FOLDER", value="notes-of-ann")],
        )
        session = await agent.new_session(cwd=str(rig.workdir), mcp_servers=[server])
        await agent.prompt(session_id=session.session_id, prompt=words("go"))
        offered = {tool["function"]["name"] for tool in provider.requests[0].body["tools"]}
        assert "mcp__notes__echo" in offered
        assert "echo: hi" in provider.requests[1].messages[-1]["content"]
        assert "NOTES_FOLDER" in provider.requests[2].messages[-1]["content"]
        [question] = editor.asked
        assert question["call"]["title"].startswith("The MCP server notes asks: Which colour?")
        assert {"red", "blue"} <= {name for _, name in question["options"]}
        assert "action" in provider.requests[3].messages[-1]["content"]

    rig.run(script, drive, mcp_discovery_timeout=HANG)
