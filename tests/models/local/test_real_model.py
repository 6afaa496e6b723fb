"""The embedded model itself: it starts, it is locked away, and it answers through the same pipeline as any other.

Nothing here is asserted that so small a model gets right only now and then. ``HERMES_TEST_LOCAL_MODEL=1`` in the
environment turns a missing installation from a reason to skip into a failure.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hermes.base.config.schema.sections import LocalConfig
from hermes.base.errors import ProviderError
from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.local.endpoint import is_embedded
from hermes.models.local.install.install import inspect
from hermes.models.local.prompt.wire import EmbeddedWire
from hermes.models.local.running import running_states
from hermes.models.local.service import LocalService
from hermes.models.reply import Reply, normalise
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import Delta, ModelRequest, TextDelta
from support.local_rig import ENDPOINT, gone

pytestmark = pytest.mark.local_model

#: Read before the tests are given an environment of their own.
REQUIRED = bool(os.environ.get("HERMES_TEST_LOCAL_MODEL"))
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("terminal", "read_file")]

Message = dict[str, Any]


class Model(NamedTuple):
    home: Path
    service: LocalService
    weights: Path

    def ask(self, *messages: Message, tools: list[dict[str, Any]] | None = TOOLS, **options: Any) -> Reply:
        on_delta = options.pop("on_delta", None)
        kwargs = EmbeddedWire().kwargs(ENDPOINT, ModelRequest(list(messages), tools, **options))
        return normalise(self.service.send(ENDPOINT, EmbeddedWire(), kwargs, interrupt=Interrupt(), on_delta=on_delta))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Generator[Model]:
    """One server for all tests, also for those that another worker runs."""
    home = tmp_path_factory.getbasetemp().parent / "home-of-the-local-model"
    parts = inspect(home)
    if not parts.is_complete and not REQUIRED:
        pytest.skip("the embedded model is not installed in this environment")
    assert parts.is_complete, f"the embedded model is not installed: {parts}"
    assert parts.weights is not None
    driver = Driver()
    service = LocalService(driver, home, LocalConfig(), {})
    yield Model(home, service, parts.weights)
    service.close()
    driver.close()


def user(said: str) -> Message:
    return {"role": "user", "content": said}


def test_a_question_is_answered_piece_by_piece(model: Model) -> None:
    deltas: list[Delta] = []
    reply = model.ask(user("What is the capital of France?"), on_delta=deltas.append)
    assert "Paris" in reply.content
    assert (reply.model, reply.finish_reason) == ("smollm2-135m", "stop")
    assert len(deltas) > 1
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == reply.content
    assert reply.usage is not None
    assert 0 < reply.usage.prompt_tokens < 300


def test_it_says_what_it_is_told_to_say(model: Model) -> None:
    assert model.ask(user("Reply exactly ok")).content.strip(" .!\n").lower() == "ok"


def test_a_named_file_is_read_and_quoted(model: Model) -> None:
    """Whether it calls or talks is its choice; a call is always a proper one, and a result comes back unchanged."""
    asked = user("Read the file docs/a.md")
    reply = model.ask(asked)
    for call in reply.tool_calls:
        assert (call.name, json.loads(call.arguments)) == ("read_file", {"path": "docs/a.md"})
    content = 'He said "x\\y" & <b>\tnaïve 日本 </b>\nroot ::= "a" | [^"]* {1,2} # end'
    called: Message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "function": {"name": "read_file", "arguments": '{"path": "docs/a.md"}'}}],
    }
    result: Message = {"role": "tool", "tool_call_id": "1", "content": json.dumps({"content": content})}
    assert model.ask(asked, called, result).content == f"docs/a.md says:\n{content}"


def test_a_schema_is_kept(model: Model) -> None:
    fields = {"name": {"type": "string"}, "age": {"type": "integer"}}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    wanted = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    reply = model.ask(user("Anna is 31 years old."), tools=None, response_format=wanted)
    answer = json.loads(reply.content)
    assert isinstance(answer["name"], str)
    assert isinstance(answer["age"], int)


def test_nobody_else_is_served(model: Model) -> None:
    model.service.reached(ENDPOINT, Interrupt())
    [state] = running_states(model.home)
    base = state.base_url.removesuffix("/v1")
    for path in ("/v1/models", "/props", "/slots"):
        request = urllib.request.Request(base + path, headers={"Origin": "https://evil.example"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        with refused.value:
            assert refused.value.code == 401
            assert refused.value.headers.get("Access-Control-Allow-Origin") != "https://evil.example"
    memory = Path(f"/proc/{state.pid}/status")
    if memory.exists():
        used = next(int(line.split()[1]) for line in memory.read_text().splitlines() if line.startswith("VmRSS"))
        assert used < 400_000


def test_any_model_file_runs_with_its_own_template_and_limits(model: Model, tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.symlink_to(model.weights)
    driver = Driver()
    service = LocalService(driver, model.home, LocalConfig(model_path=str(own), context_length=256), {})
    try:
        [endpoint] = service.settled([ENDPOINT])
        assert (endpoint.model, endpoint.context_length, is_embedded(endpoint)) == ("own.gguf", 256, False)
        wire = ChatCompletions()

        def ask(text: str) -> Reply:
            kwargs = wire.kwargs(endpoint, ModelRequest([user(text)], max_tokens=4, temperature=0))
            return normalise(service.send(endpoint, wire, kwargs, interrupt=Interrupt()))

        assert ask("Hello!").model == "own.gguf"
        with pytest.raises(ProviderError) as refused:
            ask("word " * 1000)
        assert refused.value.reason == "context_too_long"
        [pid] = [state.pid for state in running_states(model.home) if state.model == str(own)]
    finally:
        service.close()
        driver.close()
    assert gone(pid)
