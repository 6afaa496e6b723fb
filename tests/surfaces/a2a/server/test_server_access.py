"""Who may call, what they see, and what nobody ever sees."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from starlette.applications import Starlette

from hermes.base.config import A2AConfig, Config, PrincipalConfig
from hermes.base.config.schema.sections import A2APushConfig
from hermes.base.errors import HermesError
from hermes.base.http_server.listen_address import ListenAddress, check_listen_address
from hermes.base.http_server.principals import Principals, read_principals
from hermes.base.sanitize import Redactor
from hermes.surfaces.a2a.card import CardOptions, agent_card
from hermes.surfaces.a2a.server.handler import A2ARequestHandler
from hermes.surfaces.a2a.server.store.tasks import JournalTaskStore, StoredTask
from hermes.testing import ScriptedProvider, failure, reasoning, text
from support.a2a_rig import UNUSED_TLS, VERSION, calling, said, send, served, state_name, wire_message
from support.a2a_tables import a2a_tables
from support.webhook import webhook

ALICE, BOB, CAROL = (f"the-token-of-{name}-0123456789" for name in ("alice", "bob", "carol"))
SETTINGS = A2AConfig(
    principals={
        "alice": PrincipalConfig(token_env="ALICE_TOKEN"),
        "bob": PrincipalConfig(token_sha256=hashlib.sha256(BOB.encode()).hexdigest()),
        "carol": PrincipalConfig(token_env="CAROL_TOKEN", scopes=["read"]),
    }
)
CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 1}
ENV = {"ALICE_TOKEN": ALICE, "CAROL_TOKEN": CAROL}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token_is_needed_once_there_are_tokens(home: Path, workdir: Path) -> None:
    with ScriptedProvider("fine") as provider, served(home, workdir, provider, SETTINGS, env=ENV) as agent:
        for headers in ({}, bearer("wrong-token-wrong-token"), {"X-API-Key": ""}, {"Authorization": f"Basic {ALICE}"}):
            refused = agent.post("/", {"jsonrpc": "2.0", "id": 1, "method": "GetTask"}, headers=headers)
            assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Bearer")
            assert agent.get("/rest/tasks", headers=headers).status_code == 401
        for headers in (bearer(ALICE), {"X-API-Key": BOB}):
            answer = agent.rpc("SendMessage", wire_message("hello"), headers=headers)
            assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        card = agent.get("/.well-known/agent-card.json")
        assert card.status_code == 200 and set(card.json()["securitySchemes"]) == {"bearer", "apiKey"}


def test_scopes_are_the_same_on_every_transport(home: Path, workdir: Path) -> None:
    with ScriptedProvider("fine") as provider, served(home, workdir, provider, SETTINGS, env=ENV) as agent:
        headers = bearer(CAROL)
        assert agent.get("/rest/tasks", headers=headers).json()["tasks"] == []
        assert agent.rpc("ListTasks", headers=headers)["result"]["totalSize"] == 0
        for method in ("SendMessage", "SendStreamingMessage", "CancelTask", "message/send", "tasks/cancel"):
            refused = agent.post("/", {"jsonrpc": "2.0", "id": 7, "method": method}, headers=headers)
            assert refused.status_code == 403 and refused.json()["id"] == 7
        for path in ("/rest/message:send", "/rest/message:stream", "/rest/tasks/x:cancel", "/rest/v1/message:send"):
            assert agent.post(path, wire_message("hi"), headers=headers).status_code == 403
        assert agent.post("/rest/tasks/x/pushNotificationConfigs", {}, headers=headers).status_code == 403
        assert provider.requests == []


def test_callers_do_not_see_one_another(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False, headers=bearer(ALICE)) as alice:
            task = await send(alice, said("mine", context_id="shared"))
        async with calling(agent, streaming=False, headers=bearer(BOB)) as bob:
            other = await send(bob, said("mine too", context_id="shared"))
            assert state_name(other.status.state) == "completed"
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            refused = agent.rpc(method, {"id": task.id}, headers=bearer(BOB))
            assert refused["error"]["code"] == -32001
        assert (
            agent.rpc("SendMessage", wire_message("x", taskId=task.id), headers=bearer(BOB))["error"]["code"] == -32001
        )
        listed = agent.rpc("ListTasks", headers=bearer(BOB))["result"]["tasks"]
        assert [row["id"] for row in listed] == [other.id]

    with ScriptedProvider("fine") as provider, served(home, workdir, provider, SETTINGS, env=ENV) as agent:
        asyncio.run(call())
        # The same context, and yet another conversation.
        assert [len(request.messages) for request in provider.requests] == [2, 2]


def test_without_tokens_requests_of_web_pages_are_refused(home: Path, workdir: Path) -> None:
    with ScriptedProvider("fine") as provider, served(home, workdir, provider) as agent:
        port = int(agent.url.rpartition(":")[2])
        pages = ["https://evil.example.org", "null", f"http://127.0.0.1:{port + 1}", f"http://localhost:{port}"]
        for headers in (
            {"Host": "evil.example.org"},
            *({"Origin": page} for page in pages),
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": agent.url, "Sec-Fetch-Site": "cross-site"},
        ):
            refused = agent.post("/", {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}, headers=headers)
            assert refused.status_code == 403, headers
            assert agent.get("/rest/tasks", headers=headers).status_code == 403, headers
        # What a page can send without asking first.
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": wire_message()})
            sent = httpx.post(agent.url, content=body, headers={**VERSION, "Content-Type": kind}, verify=UNUSED_TLS)
            assert sent.json()["error"]["code"] == -32005
        assert agent.post("/", {}, headers={"Origin": agent.url}).status_code == 200
        assert agent.get("/rest/tasks", headers={"Sec-Fetch-Site": "none"}).status_code == 200
        assert provider.requests == []


# -- what never leaves ----------------------------------------------------------------------------------------------

SECRET = "sk-live-0123456789abcdefSENTINEL"
THOUGHT = "THOUGHT-that-nobody-may-see"


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (failure(500, f"upstream said {SECRET}"), None),
        (failure(401, f"wrong key {SECRET}"), None),
        (reasoning(THOUGHT, "the answer"), "the answer"),
        (text(f"<think>{THOUGHT}</think>the answer", chunks=20), "the answer"),
        (text(f"the <think>{THOUGHT}</think>answer", chunks=20), "the answer"),
    ],
)
def test_sentinels_are_on_no_channel(home: Path, workdir: Path, reply: Any, answer: str | None) -> None:
    settings = A2AConfig(answer_in_status=True, push=A2APushConfig(allowed_hosts=["127.0.0.1"]))
    with (
        webhook() as hook,
        ScriptedProvider(reply) as provider,
        served(home, workdir, provider, settings) as agent,
    ):
        told = {**wire_message("e"), "configuration": {"taskPushNotificationConfig": {"url": hook.url}}}
        channels = {
            "rpc": agent.post("/", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": wire_message("a")}),
            "sse": agent.post(
                "/", {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": wire_message("b")}
            ),
            "rest": agent.post("/rest/message:send", wire_message("c")),
            "rest stream": agent.post("/rest/message:stream", wire_message("d")),
            "rpc with a webhook": agent.rpc("SendMessage", told),
            "list": agent.get("/rest/tasks?includeArtifacts=true"),
        }
        seen = {name: getattr(response, "text", str(response)) for name, response in channels.items()}
        hook.wait(3)  # submitted, working, and how it ended
        seen["push"] = b"".join(hook.bodies).decode()
    with closing(sqlite3.connect(home / "state.db")) as connection:
        bodies = connection.execute("SELECT body FROM a2a_tasks").fetchall()
        seen["table"] = b"".join(body for (body,) in bodies).decode("latin-1")
    for name, words in seen.items():
        assert "SENTINEL" not in words and "THOUGHT" not in words, name
        assert (answer or "Agent error: ProviderError") in words, name


class BrokenStore(JournalTaskStore):
    """Fails with words that no caller may see."""

    async def find(self, task_id: str, owner: str) -> StoredTask | None:
        raise RuntimeError(SECRET)

    async def list(self, params: Any, context: Any) -> Any:
        raise RuntimeError(SECRET)


def test_of_an_internal_error_only_the_class_is_sent(home: Path, workdir: Path) -> None:
    async def call() -> None:
        card = agent_card(CardOptions(base_url="http://127.0.0.1:1", extended=True))
        requests = A2ARequestHandler(
            NoTurns(),  # pyright: ignore[reportArgumentType]
            BrokenStore(tables.store, "server", tables.workers),
            card,
            card,
            webhooks=tables.webhooks(),
        )
        routes = [
            *create_jsonrpc_routes(requests, "/", enable_v0_3_compat=True),
            *create_rest_routes(requests, path_prefix="/rest", enable_v0_3_compat=True),
        ]
        transport = httpx.ASGITransport(Starlette(routes=routes))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            for method, version in (("GetTask", "1.0"), ("SubscribeToTask", "1.0"), ("tasks/get", "0.3")):
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "x"}}
                response = await client.post("/", json=body, headers={"A2A-Version": version})
                assert SECRET not in response.text and "Agent error: RuntimeError" in response.text, method
            for path in ("/rest/tasks", "/rest/tasks/x", "/rest/tasks/x:subscribe"):
                response = await client.get(path, headers=VERSION)
                assert SECRET not in response.text and response.status_code == 500, path
        await requests.aclose()

    with a2a_tables(home) as tables:
        asyncio.run(call())


class NoTurns:
    """Nothing runs here."""


# -- where to listen ------------------------------------------------------------------------------------------------


def test_other_machines_need_tokens() -> None:
    known = read_principals(Config(a2a=SETTINGS), ENV, Redactor())
    check_listen_address(ListenAddress("127.0.0.1"), Principals())
    check_listen_address(ListenAddress("::1"), Principals())
    check_listen_address(ListenAddress("192.0.2.7"), known)
    check_listen_address(ListenAddress("0.0.0.0", public_url="https://agent.example.org"), known)
    with pytest.raises(HermesError, match="no token is required"):
        check_listen_address(ListenAddress("192.0.2.7"), Principals())
    with pytest.raises(HermesError, match="--public-url"):
        check_listen_address(ListenAddress("0.0.0.0"), known)


@pytest.mark.parametrize(
    ("settings", "env", "words"),
    [
        (A2AConfig(principals={"a": PrincipalConfig()}), {}, "give either"),
        (A2AConfig(principals={"a": PrincipalConfig(token_env="X", token_sha256="y")}), {}, "give either"),
        (A2AConfig(principals={"a": PrincipalConfig(token_env="X")}), {}, "X is not set"),
        (A2AConfig(principals={"a": PrincipalConfig(token_env="X")}), {"X": "short"}, "5 characters"),
        (A2AConfig(principals={"a": PrincipalConfig(token_sha256="abc")}), {}, "64 digits"),
        (
            A2AConfig(principals={"a": PrincipalConfig(token_sha256=hashlib.sha256().hexdigest())}),
            {},
            "an empty token",
        ),
        (A2AConfig(principals={"local": PrincipalConfig(token_env="X")}), {"X": ALICE}, "choose another"),
        (
            A2AConfig(principals={"a": PrincipalConfig(token_env="X"), "b": PrincipalConfig(token_env="X")}),
            {"X": ALICE},
            "same token",
        ),
    ],
)
def test_invalid_principals(settings: A2AConfig, env: dict[str, str], words: str) -> None:
    with pytest.raises(HermesError, match=words):
        read_principals(Config(a2a=settings), env, Redactor())


def test_one_token_in_the_environment_is_enough() -> None:
    redactor = Redactor()
    known = read_principals(Config(), {"HERMES_A2A_TOKEN": ALICE}, redactor)
    found = known.authenticate({"authorization": f"Bearer {ALICE}"})
    assert found is not None and found.name == "token" and known.authenticate({}) is None
    assert ALICE not in redactor.redact(f"it is {ALICE}")
