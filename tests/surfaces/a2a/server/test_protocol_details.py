"""Details of the protocol, in both versions, that the SDK leaves to the server."""

from __future__ import annotations

import asyncio
import base64
import re
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import msgspec
import pytest
from a2a.types import ListTasksRequest, a2a_pb2_grpc
from google.protobuf import json_format

from hermes.base.config import A2AConfig, PrincipalConfig
from hermes.base.config.schema.sections import A2APushConfig
from hermes.testing import RecordedRequest, ScriptedProvider, by_step, text, tool_call
from support import run_hermes, start_hermes, write_config
from support.a2a_rig import UNUSED_TLS, VERSION, Served, served, sse_documents, wait_until, wire_message
from support.webhook import webhook

OLD = {"A2A-Version": "0.3"}


def old_message(words: str = "hello", **more: Any) -> dict[str, Any]:
    """The parameters of ``message/send`` in protocol 0.3."""
    part = {"kind": "text", "text": words}
    return {"message": {"kind": "message", "messageId": f"m-{words}", "role": "user", "parts": [part], **more}}


# -- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", ""])
def test_bodies_that_are_not_json_by_their_type(agent: Served, kind: str) -> None:
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 7, "method": "ListTasks"})
    headers = {**VERSION, "Content-Type": kind}
    rpc = httpx.post(agent.url, content=body, headers=headers, verify=UNUSED_TLS).json()
    assert (rpc["id"], rpc["error"]["code"]) == (7, -32005)
    sent = msgspec.json.encode(wire_message())
    rest = httpx.post(f"{agent.url}/rest/message:send", content=sent, headers=headers, verify=UNUSED_TLS)
    assert rest.status_code == 415 and rest.json()["error"]["code"] == 415
    assert httpx.post(f"{agent.url}/rest/tasks/x:cancel", headers=VERSION, verify=UNUSED_TLS).status_code == 404


def test_both_json_types_are_accepted_with_parameters_and_answered_in(agent: Served) -> None:
    for kind in ("application/json; charset=utf-8", "application/a2a+json"):
        sent = agent.post("/rest/message:send", wire_message(), headers={"Content-Type": kind})
        assert sent.status_code == 200, sent.text
        assert sent.headers["content-type"] == kind.partition(";")[0]  # the answer is what the caller speaks


def test_a_number_of_5000_digits_is_a_clean_error(agent: Served) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"x": ' + b"1" * 5_000 + b"}}"
    headers = {**VERSION, "Content-Type": "application/json"}
    answer = httpx.post(agent.url, content=body, headers=headers, verify=UNUSED_TLS)
    assert answer.json()["error"] == {"code": -32700, "message": "Invalid JSON payload"}
    rest = httpx.post(f"{agent.url}/rest/message:send", content=body, headers=headers, verify=UNUSED_TLS)
    assert rest.status_code == 400 and "digits" not in rest.text
    digits = wire_message("1" * 5_000)
    assert agent.rpc("SendMessage", digits)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("raw", ["%%%", "abc$", "a", "Zm9v\nYmFy!"])
def test_files_that_are_not_base64(agent: Served, raw: str) -> None:
    message = wire_message(parts=[{"text": "look"}, {"raw": raw, "mediaType": "text/plain"}])
    assert agent.rpc("SendMessage", message)["error"]["code"] == -32602
    assert agent.post("/rest/message:send", message).status_code == 400
    old = old_message(parts=[{"kind": "file", "file": {"bytes": raw, "mimeType": "text/plain"}}])
    assert agent.rpc("message/send", old, headers=OLD)["error"]["code"] == -32602


@pytest.mark.parametrize("data", [b"hello", b"hell", b"hel", bytes(range(32, 127))])
def test_every_base64_that_proto_json_allows_is_taken(agent: Served, data: bytes) -> None:
    for encoded in (base64.b64encode(data), base64.urlsafe_b64encode(data), base64.b64encode(data).rstrip(b"=")):
        message = wire_message(parts=[{"raw": encoded.decode(), "mediaType": "text/plain"}])
        assert "result" in agent.rpc("SendMessage", message), encoded


def test_words_of_the_agent_are_no_message_to_it(agent: Served) -> None:
    assert agent.rpc("SendMessage", wire_message(role="ROLE_AGENT"))["error"]["code"] == -32602
    assert agent.rpc("message/send", old_message(role="agent"), headers=OLD)["error"]["code"] == -32602
    assert agent.post("/rest/message:send", wire_message(role="ROLE_AGENT")).status_code == 400


# -- protocol 0.3 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("message/send", {}),
        ("message/send", {"message": {"role": "user"}}),
        ("message/stream", {"message": "hello"}),
        ("tasks/get", {}),
        ("tasks/get", {"id": 5}),
        ("tasks/cancel", None),
    ],
)
def test_wrong_parameters_of_a_03_request_are_invalid_params(agent: Served, method: str, params: Any) -> None:
    body = {"jsonrpc": "2.0", "id": "x", "method": method, **({} if params is None else {"params": params})}
    answer = agent.post("/", body, headers=OLD).json()
    assert (answer["id"], answer["error"]["code"]) == ("x", -32602) and "params" in answer["error"]["message"]


@pytest.mark.parametrize("wrong", [{"jsonrpc": "aaa"}, {"id": {"bad": "type"}}])
def test_what_is_no_json_rpc_request_is_an_invalid_request(agent: Served, wrong: dict[str, Any]) -> None:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": "x", "method": "message/send", "params": {}, **wrong}
    assert agent.post("/", body, headers=OLD).json()["error"]["code"] == -32600


def test_a_03_stream_ends_with_a_final_question(agent: Served) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": old_message("ask")}
    last = sse_documents(agent.post("/", body, headers=OLD).text)[-1]["result"]
    assert (last["status"]["state"], last["final"]) == ("input-required", True)
    request = {"messageId": "r", "role": "ROLE_USER", "content": [{"text": "ask"}]}
    rest = sse_documents(agent.post("/rest/v1/message:stream", {"message": request}, headers=OLD).text)[-1]
    assert rest["statusUpdate"]["final"] is True


def test_webhooks_of_a_03_client(home: Path, workdir: Path) -> None:
    settings = A2AConfig(push=A2APushConfig(allowed_hosts=["127.0.0.1"]))
    with (
        ScriptedProvider("fine") as provider,
        webhook() as hook,
        served(home, workdir, provider, settings) as agent,
    ):
        config = {"pushNotificationConfig": {"url": hook.url, "token": "t"}, "blocking": True}
        task = agent.rpc("message/send", {**old_message(), "configuration": config}, headers=OLD)["result"]
        wait_until(lambda: len(hook.bodies) >= 3)
        got = agent.rpc("tasks/pushNotificationConfig/get", {"id": task["id"]}, headers=OLD)["result"]
        unknown = agent.rpc("tasks/pushNotificationConfig/get", {"id": "no-task"}, headers=OLD)
        chosen = {"id": task["id"], "pushNotificationConfigId": got["pushNotificationConfig"]["id"]}
        deleted = agent.rpc("tasks/pushNotificationConfig/delete", chosen, headers=OLD)
        assert "error" not in deleted and deleted["result"] is None, "a response without a result is none"
        newer = {"url": hook.url, "taskId": task["id"]}
        assert "result" in agent.rpc("CreateTaskPushNotificationConfig", newer)
    assert got["pushNotificationConfig"]["url"] == hook.url and unknown["error"]["code"] == -32001
    bodies = [msgspec.json.decode(body) for body in hook.bodies]
    assert [body["kind"] for body in bodies] == ["task"] * len(bodies)
    assert [body["status"]["state"] for body in bodies] == ["submitted", "working", "completed"]
    assert bodies[-1]["artifacts"][0]["parts"][0]["text"] == "fine"


def test_the_extended_card_needs_a_token(home: Path, workdir: Path, agent: Served) -> None:
    card = agent.get("/.well-known/agent-card.json").json()
    assert not card["capabilities"].get("extendedAgentCard") and not card.get("supportsAuthenticatedExtendedCard")
    assert agent.rpc("agent/getAuthenticatedExtendedCard", headers=OLD)["error"]["code"] == -32007
    token = "a-token-that-is-long-enough"
    settings = A2AConfig(principals={"ci": PrincipalConfig(token_env="CI")})
    with ScriptedProvider("x") as provider, served(home, workdir, provider, settings, env={"CI": token}) as known:
        headers = {"Authorization": f"Bearer {token}"}
        extended = known.rpc("GetExtendedAgentCard", headers=headers)["result"]
        rest = known.get("/rest/extendedAgentCard", headers=headers)
        assert rest.json() == extended and rest.headers["content-type"] == "application/a2a+json"
        public = known.get("/.well-known/agent-card.json").json()
    assert public["capabilities"]["extendedAgentCard"] is True
    tags, shown = ({tag for skill in card["skills"] for tag in skill["tags"]} for card in (extended, public))
    assert "read_file" in tags and "read_file" not in shown


# -- protocol 1.0 -----------------------------------------------------------------------------------------------------


def test_the_card_has_the_time_of_its_last_change(agent: Served) -> None:
    first = agent.get("/.well-known/agent-card.json")
    changed = parsedate_to_datetime(first.headers["last-modified"])
    assert changed.tzinfo is not None
    again = agent.get("/.well-known/agent-card.json", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304 and again.headers["last-modified"] == first.headers["last-modified"]


def test_names_of_the_usage_are_camel_case_and_requests_are_counted(home: Path, workdir: Path) -> None:
    with ScriptedProvider(text("fine", usage=None)) as provider, served(home, workdir, provider) as agent:
        task = agent.rpc("SendMessage", wire_message())["result"]["task"]
    usage = task["metadata"]["hermes.usage"]
    assert usage["requests"] == task["metadata"]["hermes.steps"] == 1
    assert all(re.fullmatch("[a-z]+([A-Z][a-z]+)*", name) for name in usage)


def test_an_unknown_version_over_grpc_is_refused(home: Path, workdir: Path) -> None:
    async def call(version: str) -> grpc.StatusCode:
        async with grpc.aio.insecure_channel(agent.grpc) as channel:
            stub: Any = a2a_pb2_grpc.A2AServiceStub(channel)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            metadata = [("a2a-version", version)] if version else []
            try:
                await stub.ListTasks(ListTasksRequest(), metadata=metadata)
            except grpc.aio.AioRpcError as error:
                return error.code()
            return grpc.StatusCode.OK

    with ScriptedProvider("fine") as provider, served(home, workdir, provider, grpc=True) as agent:
        codes = {version: asyncio.run(call(version)) for version in ("", "1.0", "1.1", "99.0", "0.3", "x")}
    refused = grpc.StatusCode.UNIMPLEMENTED
    ok = grpc.StatusCode.OK
    assert codes == {"": ok, "1.0": ok, "1.1": ok, "99.0": refused, "0.3": refused, "x": refused}


def test_an_answer_that_is_json_is_data_too_for_callers_that_accept_it(home: Path, workdir: Path) -> None:
    def script(request: RecordedRequest) -> Any:
        answers = {"plain": "just words", "fenced": "```json\n[1, 2.5]\n```"}
        return text(answers.get(request.last_user_text.split("\n")[0], '{"colour": "green", "count": 3}'))

    def parts(words: str, *modes: str) -> list[dict[str, Any]]:
        request = {**wire_message(words), "configuration": {"acceptedOutputModes": list(modes)}}
        task = agent.rpc("SendMessage", request)["result"]["task"]
        return [part for artifact in task["artifacts"] for part in artifact["parts"]]

    data = {"data": {"colour": "green", "count": 3}, "mediaType": "application/json"}
    with ScriptedProvider(script) as provider, served(home, workdir, provider) as agent:
        assert len(parts("a")) == len(parts("b", "text/plain")) == 1
        assert parts("c", "text/plain", "application/json")[1] == data
        assert "only JSON" not in provider.requests[-1].messages[-1]["content"]
        assert parts("d", "application/json")[1] == data
        assert "only JSON" in provider.requests[-1].messages[-1]["content"]
        assert parts("fenced", "application/json")[1]["data"] == [1, 2.5]
        assert len(parts("plain", "application/json")) == 1
        assert "application/json" in agent.get("/.well-known/agent-card.json").json()["defaultOutputModes"]


# -- messages that are sent twice --------------------------------------------------------------------------------------


def test_the_same_message_twice_is_one_task(home: Path, workdir: Path) -> None:
    with ScriptedProvider("fine") as provider:
        with served(home, workdir, provider) as agent:
            message = wire_message("once")
            first = agent.rpc("SendMessage", message)["result"]["task"]
            again = agent.rpc("SendMessage", message)["result"]["task"]
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": message}
            [streamed] = sse_documents(agent.post("/", body).text)
            assert first["id"] == again["id"] == streamed["result"]["task"]["id"]
            assert agent.rpc("SendMessage", wire_message("once"))["result"]["task"]["id"] != first["id"]
            within = wire_message("there", contextId=first["contextId"])
            assert len({agent.rpc("SendMessage", within)["result"]["task"]["id"] for _ in range(2)}) == 1
        with served(home, workdir, provider) as agent:
            assert agent.rpc("SendMessage", message)["result"]["task"]["id"] == first["id"]
            assert len(provider.requests) == 3
            # An id that is used for other words is no repetition.
            changed = {"message": {**message["message"], "parts": [{"text": "other words"}]}}
            assert agent.rpc("SendMessage", changed)["result"]["task"]["id"] != first["id"]


def test_the_same_message_id_of_two_callers_is_two_tasks(home: Path, workdir: Path) -> None:
    tokens = {name: f"the-token-of-{name}-0123456789" for name in ("alice", "bob")}
    settings = A2AConfig(principals={name: PrincipalConfig(token_env=name) for name in tokens})
    message = wire_message("once", contextId="shared")
    with ScriptedProvider("fine") as provider, served(home, workdir, provider, settings, env=tokens) as agent:
        ids = {
            agent.rpc("SendMessage", message, headers={"X-API-Key": token})["result"]["task"]["id"]
            for token in tokens.values()
        }
    assert len(ids) == 2 and len(provider.requests) == 2


def test_the_same_message_at_the_same_moment_runs_once(home: Path, workdir: Path) -> None:
    async def both() -> set[str]:
        message = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": wire_message("once")}
        async with httpx.AsyncClient(verify=UNUSED_TLS, timeout=60) as http:
            sent = [http.post(agent.url, json=message, headers=VERSION) for _ in range(5)]
            answers = await asyncio.gather(*sent)
        return {answer.json()["result"]["task"]["id"] for answer in answers}

    with ScriptedProvider("fine") as provider, served(home, workdir, provider) as agent:
        assert len(asyncio.run(both())) == 1
    assert len(provider.requests) == 1


def test_an_answer_that_is_sent_twice_counts_once(home: Path, workdir: Path) -> None:
    script = by_step(tool_call("clarify", {"question": "Which?"}), text("done"))
    with ScriptedProvider(script) as provider, served(home, workdir, provider) as agent:
        task = agent.rpc("SendMessage", wire_message("go"))["result"]["task"]
        answer = wire_message("blue", taskId=task["id"])
        states = [agent.rpc("SendMessage", answer)["result"]["task"]["status"]["state"] for _ in range(2)]
    assert states == ["TASK_STATE_COMPLETED"] * 2 and len(provider.requests) == 2


def test_another_answer_under_the_id_of_the_first_message_is_an_answer(home: Path, workdir: Path) -> None:
    script = by_step(tool_call("clarify", {"question": "Which?"}), text("done"))
    with ScriptedProvider(script) as provider, served(home, workdir, provider) as agent:
        first = wire_message("go")
        task = agent.rpc("SendMessage", first)["result"]["task"]
        answer = wire_message("blue", taskId=task["id"], messageId=first["message"]["messageId"])
        assert agent.rpc("SendMessage", answer)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


# -- operation ---------------------------------------------------------------------------------------------------------


def test_malformed_requests_leave_no_trace_in_the_log(home: Path, workdir: Path) -> None:
    with ScriptedProvider("fine") as provider:
        write_config(home, provider.base_url)
        process = start_hermes("a2a", "serve", home=home, cwd=workdir, stdout=-1)
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            for method, params in (("SendMessage", {"message": 5}), ("message/send", {"x": 1}), ("GetTask", [1])):
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                assert "error" in httpx.post(url, json=body, headers=VERSION, verify=UNUSED_TLS).json()
            assert "error" in httpx.post(url, json={"jsonrpc": "9"}, headers=VERSION, verify=UNUSED_TLS).json()
        finally:
            process.terminate()
            process.communicate(timeout=60)
    file = home / "logs" / "agent.log"
    log = file.read_text() if file.exists() else ""
    assert "Traceback" not in log and "ERROR" not in log and "Failed to" not in log


def test_a_waiting_question_is_no_failure_in_the_log(
    home: Path, workdir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = by_step(tool_call("clarify", {"question": "Which?"}), text("done"))
    with (
        caplog.at_level("INFO", logger="hermes"),
        ScriptedProvider(script) as provider,
        served(home, workdir, provider) as agent,
    ):
        agent.rpc("SendMessage", wire_message("go"))
        listed = run_hermes("sessions", "list", home=home, cwd=workdir).stdout
    assert "turn 1 suspended after 1 steps: waiting for an answer" in caplog.text
    assert "error" not in caplog.text and "failed" not in caplog.text
    assert "[waiting]" in listed


def test_the_missing_grpc_package_is_named_with_its_extra(home: Path, workdir: Path, tmp_path: Path) -> None:
    (tmp_path / "hidden" / "grpc").mkdir(parents=True)
    broken = tmp_path / "hidden" / "grpc" / "__init__.py"
    broken.write_text("raise ModuleNotFoundError(\"No module named 'grpc'\", name='grpc')\n")
    write_config(home, "http://127.0.0.1:1/v1")
    from support import SOURCES

    env = {"PYTHONPATH": f"{tmp_path / 'hidden'}:{SOURCES}"}
    done = run_hermes("a2a", "serve", "--grpc-port", "0", home=home, cwd=workdir, env=env)
    assert done.returncode == 1 and "a2a-grpc" in done.stderr and "Traceback" not in done.stderr


def test_data_of_protobuf_is_what_was_sent() -> None:
    from hermes.surfaces.a2a.server.content import data_part

    part = data_part('{"a": [1, "b", null, true]}')
    assert part is not None and json_format.MessageToDict(part.data) == {"a": [1, "b", None, True]}
    assert data_part("3") is None and data_part("{") is None and data_part('"text"') is None
