"""The API inside another server: its dispatcher, another application at the other paths, one API per home."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from hermes.base.errors import HermesError
from hermes.base.http_server.listen_address import ListenAddress
from hermes.base.http_server.principals import Principals
from hermes.base.http_server.stopping import StopEvent
from hermes.service.dispatch.local import LocalDispatcher
from hermes.surfaces.gateway.gateway import Gateway as RealGateway
from hermes.surfaces.openai_api.serve import ApiService
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text
from support.a2a_rig import UNUSED_TLS
from support.configured import configured_host


class Gateway:
    """As much of a gateway as the API needs."""

    def __init__(self, dispatcher: LocalDispatcher) -> None:
        self.dispatcher = dispatcher


def test_it_runs_beside_others_until_it_is_cancelled(home: Path, workdir: Path) -> None:
    with ScriptedProvider("fine") as provider, configured_host(home, workdir, provider) as host:

        async def main() -> None:
            page = PlainTextResponse("the page")
            with ApiService(host, ListenAddress(), Principals(), fallback=page) as service:
                with pytest.raises(HermesError, match="another API server uses"):
                    ApiService(host, ListenAddress(), Principals()).__enter__()
                dispatcher = LocalDispatcher(host, entries=service.entries)
                dispatcher.start()
                running = asyncio.create_task(service.run(Gateway(dispatcher)))
                async with httpx.AsyncClient(verify=UNUSED_TLS, base_url=service.url, timeout=60) as client:
                    messages: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
                    answer = await client.post("/chat/completions", json={"messages": messages})
                    assert answer.json()["choices"][0]["message"]["content"] == "fine"
                    assert (await client.get("/nothing")).status_code == 404
                    root = service.url.removesuffix("/v1")
                    assert (await client.get(f"{root}/sessions")).text == "the page"
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
                async with httpx.AsyncClient(verify=UNUSED_TLS) as client:
                    with pytest.raises(httpx.TransportError):
                        await client.get(f"{service.url}/models")

        asyncio.run(main())


def test_a_gateway_that_is_stopped_at_once_answers_its_clients(home: Path, workdir: Path) -> None:
    gate, asked = threading.Event(), threading.Event()

    def model(request: RecordedRequest) -> ScriptedReply:
        asked.set()
        return text("late", hold=gate)

    with ScriptedProvider(model) as provider, configured_host(home, workdir, provider) as host:

        async def main(pool: ThreadPoolExecutor) -> Future[httpx.Response]:
            with ApiService(host, ListenAddress(), Principals()) as service:
                gateway, stop = RealGateway(host, [], services=[service]), StopEvent()
                gateway.turn_entries.update(service.entries)
                running = asyncio.create_task(gateway.run(stop))
                document = {"messages": [{"role": "user", "content": "hello"}]}
                url = f"{service.url}/chat/completions"
                answer = pool.submit(httpx.post, url, json=document, verify=UNUSED_TLS, timeout=60)
                await asyncio.to_thread(asked.wait, 60)
                stop.set()
                stop.set()
                await running
                return answer  # the loop ends now, as that of the process does

        with ThreadPoolExecutor() as pool:
            refused = asyncio.run(main(pool)).result(60)
        gate.set()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "server_stopped")
