"""Surfaces whose approvals are answered later, each as a real server: begin a turn that asks, answer it, stop it."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from hermes.base.config import A2AConfig
from hermes.host import Host
from hermes.journal.questions import QuestionRow, Questions
from hermes.service.dispatch.local import LocalDispatcher
from hermes.surfaces.web.chat import PLATFORM, PageChat, page_entry
from hermes.surfaces.web.service import PageService
from hermes.testing import ScriptedProvider
from support import a2a_rig, web_rig
from support.api_rig import ServedApi, served_api
from support.configured import configured_host
from support.gateway_rig import GatewayRig, LineClient
from support.waiting import wait_until

#: No test waits for that.
LONG = 3_600.0


class LateSurface:
    """One surface: its servers one after the other, and its only client."""

    #: As both approval hooks report it.
    surface = ""
    #: Who answers there, where that is known.
    answerer: str | None = ""
    #: Whether a question of it has a time limit.
    has_timeout = True
    #: Whether an answer from elsewhere, such as ``hermes approvals``, lets the turn go on.
    is_answered_elsewhere = True
    #: What its client says.
    message = "go"

    def __init__(self, home: Path, workdir: Path, provider: ScriptedProvider) -> None:
        self.home, self.workdir, self.provider = home, workdir, provider

    @contextmanager
    def serving(self, seconds: float = LONG) -> Generator[Host]:
        """A server until the end of the block; an approval has so many seconds."""
        raise NotImplementedError
        yield

    def begin(self) -> None:
        """Send a message."""
        raise NotImplementedError

    def wait_until_asked(self) -> None:
        """Wait until the user of the surface can see the question."""

    def answer(self, question: QuestionRow) -> None:
        """Approve, as a user of the surface does."""
        raise NotImplementedError

    def leave(self) -> None:
        """Stop the turn, as a user of the surface does; where that is possible by hanging up."""
        raise NotImplementedError


def open_question(host: Host, surface: LateSurface) -> QuestionRow:
    """The question of the turn, once it waits."""
    questions = Questions(host.store)
    surface.wait_until_asked()

    # A question without a time limit says nothing when its turn is suspended: then its thread is free.
    wait_until(lambda: any(one.deadline or not host.workers.busy for one in questions.pending()), "the question")
    [row] = questions.pending()
    return row


class OnGateway(LateSurface):
    surface, answerer = "gateway", "owner"

    @contextmanager
    def serving(self, seconds: float = LONG) -> Generator[Host]:
        rig = GatewayRig(self.home, self.workdir, self.provider)
        running = rig.start(approval_timeout=seconds)
        self._client: LineClient = rig.client()
        try:
            yield running.host
        finally:
            rig.close()

    def begin(self) -> None:
        self._client.say(self.message)

    def wait_until_asked(self) -> None:
        self._client.hear(1)

    def answer(self, question: QuestionRow) -> None:
        self._client.say("/approve", id="answer")

    def leave(self) -> None:
        self._client.say("/stop", id="stop")


class OnApi(LateSurface):
    surface, answerer = "api_server", "alice"

    @contextmanager
    def serving(self, seconds: float = LONG) -> Generator[Host]:
        more: dict[str, Any] = {"gateway": {"approval_timeout": seconds}}
        with served_api(self.home, self.workdir, self.provider, with_keys=True, **more) as api:
            self._api: ServedApi = api
            yield api.host

    def begin(self) -> None:
        self._run: str = self._api.post("/runs", {"input": "go"}).json()["run_id"]

    def wait_until_asked(self) -> None:
        wait_until(lambda: self._api.get(f"/runs/{self._run}").json()["status"] == "waiting", "the run to wait")

    def answer(self, question: QuestionRow) -> None:
        assert self._api.post(f"/runs/{self._run}/approval", {"choice": "approve"}).status_code == 200

    def leave(self) -> None:
        assert self._api.post(f"/runs/{self._run}/stop", {}).status_code == 200


class OnApiStream(OnApi):
    """A client that reads the stream of its answer, and hangs up."""

    def begin(self) -> None:
        self._client = httpx.Client(headers=self._api.headers, verify=a2a_rig.UNUSED_TLS, timeout=60)
        self._started = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_until_asked(self) -> None:
        self._started.wait(60)

    def _read(self) -> None:
        document = {"messages": [{"role": "user", "content": "go"}], "stream": True}
        with (
            suppress(httpx.HTTPError, OSError, RuntimeError),
            self._client.stream("POST", f"{self._api.url}/chat/completions", json=document) as response,
        ):
            self._response = response
            self._started.set()
            for _ in response.iter_raw():
                pass

    def leave(self) -> None:
        self._response.extensions["network_stream"].get_extra_info("socket").shutdown(2)


class OverA2A(LateSurface):
    surface, answerer = "a2a", "local"

    @contextmanager
    def serving(self, seconds: float = LONG) -> Generator[Host]:
        settings = A2AConfig(approval_timeout=seconds)
        with a2a_rig.served(self.home, self.workdir, self.provider, settings) as agent:
            self._agent: a2a_rig.Served = agent
            yield agent.host

    def begin(self) -> None:
        message = {**a2a_rig.wire_message("go"), "configuration": {"returnImmediately": True}}
        self._task: str = self._agent.rpc("SendMessage", message)["result"]["task"]["id"]

    def wait_until_asked(self) -> None:
        def state() -> str:
            return self._agent.rpc("GetTask", {"id": self._task})["result"]["status"]["state"]

        wait_until(lambda: state() == "TASK_STATE_INPUT_REQUIRED", "the task to ask")

    def answer(self, question: QuestionRow) -> None:
        self._agent.rpc("SendMessage", a2a_rig.wire_message("approve", taskId=self._task))

    def leave(self) -> None:
        self._agent.rpc("CancelTask", {"id": self._task})


class OnPage(LateSurface):
    surface, answerer, has_timeout = "web", "owner", False

    @contextmanager
    def serving(self, seconds: float = LONG) -> Generator[Host]:
        with configured_host(self.home, self.workdir, self.provider, options={"platform": PLATFORM}) as host:
            dispatcher = LocalDispatcher(host, entries={PLATFORM: page_entry(host)}, platforms=[PLATFORM])
            chat = PageChat(host, dispatcher)
            service = PageService(host.store, host.runner, host.home, host.redactor, chat)
            with web_rig.served(service) as page:
                self._page: web_rig.Page = page
                yield host

    def begin(self) -> None:
        self._session: str = self._page.post("/api/chat", {"text": "go", "key": "1"}).json["session"]

    def answer(self, question: QuestionRow) -> None:
        assert self._page.post(f"/api/approvals/{question.id}", {"answer": "once"}).status == 200

    def leave(self) -> None:
        assert self._page.post(f"/api/chat/{self._session}/stop", {}).json == {"stopped": True}


LATE_SURFACES = (OnGateway, OnApi, OverA2A, OnPage)
