"""The bytes of a request: what is added to a conversation, what a tool result adds to its content, stable prefixes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from hermes.base.config import Config
from hermes.base.config.schema.sections import ModelConfig
from hermes.host import Host
from hermes.models.endpoint import ApiMode
from hermes.testing import ScriptedProvider, text, tool_call
from hermes.testing.scripted.script import RecordedRequest
from support.configured import configured_host

#: The tools of a fresh home. Their schemas and the system prompt are in every request.
FRESH = [
    "clarify",
    "delegate_task",
    "memory",
    "patch",
    "process",
    "read_file",
    "search_files",
    "session_search",
    "terminal",
    "todo",
    "web_fetch",
    "write_file",
]
MOST_BYTES = 6_250
#: A tool that is not among the twelve.
MOST_BYTES_OF_A_TOOL = 400

#: Prose and code with lines of an ordinary length: 60 bytes on average.
LINES = [
    "The journal is a write-ahead record of every conversation, and each",
    "step is on disk before the next one depends on it.",
    "",
    "def finished(turn: Turn, *, by: str = 'owner') -> bool:",
    "    return turn.state in FINISHED and turn.owner == by  # no lease is needed",
    "    # A claim without a result means that the effect may have happened.",
    "That is how a turn continues after a crash, and what `hermes sessions` reads.",
] * 12
CONTENT = "\n".join(LINES) + "\n"


def sent(request: RecordedRequest) -> bytes:
    """The body as it arrived: JSON keeps the order, so that encoding it again gives the same bytes."""
    body = msgspec.json.encode(request.body)
    assert len(body) == int(request.headers["content-length"])
    return body


def test_the_first_request_of_a_fresh_home_is_small(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("Hello.")]) as provider, configured_host(home, workdir, provider) as host:
        host.new_session().run("hi")
    [request] = provider.requests
    assert [tool["function"]["name"] for tool in request.body["tools"]] == FRESH
    # The path of the working directory is the user's.
    assert len(sent(request)) - len(str(workdir)) <= MOST_BYTES


def test_every_other_tool_is_small(home: Path, workdir: Path) -> None:
    with ScriptedProvider() as provider, configured_host(home, workdir, provider) as host:
        sizes = {tool.name: len(msgspec.json.encode(tool.definition())) for tool in host.tools.all().values()}
    others = {name: size for name, size in sizes.items() if name not in FRESH}
    assert others and {name: size for name, size in others.items() if size > MOST_BYTES_OF_A_TOOL} == {}


# -- results


def overhead(result: str, content: str) -> float:
    return len(result.encode()) / len(content.encode()) - 1


@pytest.fixture
def answer_of(home: Path, workdir: Path) -> Callable[..., str]:
    """The result of one tool call as the model gets it."""

    def run(name: str, **args: Any) -> str:
        with (
            ScriptedProvider([tool_call(name, args), text("Done.")]) as provider,
            configured_host(home, workdir, provider, options={"allow_everything": True}) as host,
        ):
            host.new_session().run("go")
        return provider.requests[1].messages[-1]["content"]

    return run


def test_a_file_costs_little_more_than_its_lines(answer_of: Callable[..., str], workdir: Path) -> None:
    (workdir / "a.py").write_text(CONTENT)
    assert overhead(answer_of("read_file", path="a.py"), CONTENT) <= 0.30


def test_output_costs_little_more_than_itself(answer_of: Callable[..., str], workdir: Path) -> None:
    (workdir / "a.py").write_text(CONTENT)
    assert overhead(answer_of("terminal", command="cat a.py"), CONTENT) <= 0.15


def test_matches_cost_little_more_than_themselves(answer_of: Callable[..., str], workdir: Path) -> None:
    (workdir / "a.py").write_text(CONTENT)
    found = "\n".join(f"{number}:{line}" for number, line in enumerate(LINES, 1) if "turn" in line)
    assert overhead(answer_of("search_files", pattern="turn"), found) <= 0.15


def test_names_cost_little_more_than_themselves(answer_of: Callable[..., str], workdir: Path) -> None:
    names = [f"a_module_with_a_name_{number}.py" for number in range(40)]
    for name in names:
        (workdir / name).write_text("")
    assert overhead(answer_of("search_files", pattern="*.py", target="files"), "\n".join(names)) <= 0.15


def test_a_diff_costs_little_more_than_itself(answer_of: Callable[..., str], workdir: Path) -> None:
    old = "".join(f"{number}. {line}\n" for number, line in enumerate(LINES[:20]))
    (workdir / "a.py").write_text(old)
    result = answer_of("patch", mode="replace", path="a.py", old_string=old, new_string=old.replace(". ", ") "))
    assert overhead(result, msgspec.json.decode(result)["diff"]) <= 0.15


# -- prefixes


def conversation(home: Path, workdir: Path, provider_name: str, mode: ApiMode) -> list[RecordedRequest]:
    """Two turns of several steps, as they go to a provider of that name."""
    (workdir / "a.txt").write_text("forty-two\n")
    replies = [
        tool_call("read_file", {"path": "a.txt"}),
        tool_call("search_files", {"pattern": "two"}),
        text("It is 42."),
        tool_call("todo", {"todos": [{"id": "1", "content": "Look again"}]}),
        text("Still 42."),
    ]
    with ScriptedProvider(replies) as provider:
        model = ModelConfig(
            provider=provider_name, default="scripted", base_url=provider.base_url, api_key="test-key", api_mode=mode
        )
        with Host(home, Config(model=model), cwd=workdir, env={}) as host:
            session = host.new_session()
            for message in ("What is in a.txt?", "And now?"):
                assert session.run(message).status == "completed"
    assert len(provider.requests) == len(replies)
    return provider.requests


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: without_marks(item) for name, item in fields.items() if name != "cache_control"}
    return [without_marks(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def marked(body: dict[str, Any]) -> list[int]:
    """The messages with a cache mark, by their position."""
    return [at for at, one in enumerate(body["messages"]) if any("cache_control" in part for part in one["content"])]


@pytest.mark.parametrize("mode", ["chat_completions", "codex_responses"])
def test_a_request_begins_with_the_bytes_of_the_one_before(home: Path, workdir: Path, mode: ApiMode) -> None:
    requests = conversation(home, workdir, "openai", mode)
    bodies = [sent(request) for request in requests]
    for before, after in pairwise(bodies):
        assert before.endswith(b"]}") and after.startswith(before.removesuffix(b"]}"))
    keys = {request.body["prompt_cache_key"] for request in requests}
    assert len(keys) == 1 and keys.pop()


def test_the_same_holds_for_anthropic_with_its_marks(home: Path, workdir: Path) -> None:
    requests = conversation(home, workdir, "anthropic", "anthropic_messages")
    bodies = [msgspec.json.encode(without_marks(request.body)) for request in requests]
    for before, after in pairwise(bodies):
        assert before.endswith(b"]}") and after.startswith(before.removesuffix(b"]}"))
    for before, after in pairwise(requests):
        # What the last request ended with is marked once more, which is where the cache is found.
        assert marked(before.body)[-1] == len(before.body["messages"]) - 1
        assert marked(before.body)[-1] in marked(after.body)
        assert "cache_control" in after.body["tools"][-1] and "cache_control" in after.body["system"][-1]
