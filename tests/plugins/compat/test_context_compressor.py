"""``agent.context_compressor``: an engine that extends the built-in one, and what the built-in one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes.agent.context.plan import is_summary
from hermes.base.config import Config, ContextConfig, PluginsConfig
from hermes.base.config.schema.sections import AgentConfig, ModelConfig
from hermes.host import Host, HostOptions
from hermes.plugins.compat.agent.engines import ContextEngine
from hermes.plugins.compat.names import find_module
from hermes.plugins.services import PluginHost
from hermes.testing import PluginHarness, ScriptedProvider, text
from hermes.testing.scripted.script import RecordedRequest

ENGINE = """
from agent.context_compressor import ContextCompressor


class Careful(ContextCompressor):
    @property
    def name(self):
        return "careful"

    def _prune_old_tool_results(self, messages, protect_tail_count, protect_tail_tokens=None, min_prune_chars=200):
        pruned, count = super()._prune_old_tool_results(messages, protect_tail_count, protect_tail_tokens)
        return [{**one, "content": one["content"].replace("one", "ONE")} for one in pruned], count + 1


def register(ctx):
    ctx.register_context_engine(Careful("any", quiet_mode=True, protect_last_n=2))
"""


def conversation(results: int, size: int = 1_000) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look around."}]
    for at in range(results):
        call = {
            "id": f"c{at}",
            "type": "function",
            "function": {"name": "look", "arguments": '{"at": "' + "y" * 600 + '"}'},
        }
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": f"{at} " + "x" * size})
    return [*messages, {"role": "assistant", "content": "I looked."}]


def compressor(**options: Any) -> Any:
    with PluginHarness(lambda _ctx: None) as harness:
        host = PluginHost(harness.tools, harness.hooks, harness, harness.plugins, {})
        module = find_module(host, "agent.context_compressor")
        assert module is not None
        return module.ContextCompressor("any", **options)


def test_old_results_become_a_line_each_and_the_end_stays() -> None:
    messages = conversation(4)
    pruned, count = compressor(protect_last_n=3).prune_tool_results_only(messages)
    assert count == 3
    assert [one["content"] for one in pruned[-3:]] == [one["content"] for one in messages[-3:]]
    first = pruned[2]["content"]
    assert first.startswith('[look {"at": "yyy')
    assert first.endswith("1 lines, 1002 characters, left out]")
    assert len(pruned[1]["tool_calls"][0]["function"]["arguments"]) < 300
    assert len(pruned[-3]["tool_calls"][0]["function"]["arguments"]) > 600
    assert messages == conversation(4)  # what it was given is untouched


def test_of_equal_results_the_latest_stays() -> None:
    messages = conversation(2)
    messages[2]["content"] = messages[4]["content"]
    pruned, count = compressor(protect_last_n=20).prune_tool_results_only(messages)
    assert count == 1
    assert "same result" in pruned[2]["content"]
    assert pruned[4] == messages[4]


def test_the_protected_end_is_as_long_as_its_tokens() -> None:
    engine, messages = compressor(), conversation(4, size=4_000)
    assert engine._prune_boundary(messages, 1) == 9
    assert engine._prune_boundary(messages, 1, 1_100) == 8  # a result of about a thousand tokens more
    assert engine._prune_boundary(messages, 1, 1_000_000) == 0


def test_it_is_time_at_the_threshold() -> None:
    engine = compressor(threshold_percent=0.5)
    assert not engine.should_compress(10_000)  # the window is not known yet
    engine.update_model("any", 10_000)
    assert [engine.should_compress(tokens) for tokens in (4_999, 5_000)] == [False, True]
    engine.update_from_response({"prompt_tokens": 6_000, "completion_tokens": 5})
    assert engine.should_compress()
    assert engine.get_status()["threshold_tokens"] == 5_000


class ByItsMethods:
    def update_from_response(self, usage: dict[str, Any]) -> None: ...

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return False

    def compress(self, messages: list[Any], current_tokens: int | None = None, **_options: Any) -> list[Any]:
        return messages


class OfAnotherKind(ByItsMethods):
    def should_compress(self, messages: list[Any], tokens: int, threshold: int) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return False


class Late(ByItsMethods):
    async def compress(self, messages: list[Any]) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return messages


def test_an_engine_is_one_by_what_it_does() -> None:
    found = {kind.__name__: issubclass(kind, ContextEngine) for kind in (ByItsMethods, OfAnotherKind, Late, dict)}
    assert found == {"ByItsMethods": True, "OfAnotherKind": False, "Late": False, "dict": False}
    assert not issubclass(ByItsMethods, type(compressor()))


def test_a_plugin_extends_it_and_the_host_writes_the_summary(home: Path, workdir: Path) -> None:
    folder = home / "plugins" / "careful"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: careful\n")
    (folder / "__init__.py").write_text(ENGINE)

    def answer(request: RecordedRequest) -> Any:
        if request.messages[0]["content"].startswith("You condense"):
            return text("They counted.")
        return text("Good.", usage=None)

    with ScriptedProvider(answer) as provider:
        model = ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, context_length=16_000)
        config = Config(
            model=model,
            agent=AgentConfig(api_max_retries=0),
            plugins=PluginsConfig(enabled=["careful"]),
            context=ContextConfig(engine="careful"),
        )
        with Host(home, config, HostOptions(toolsets=["file"]), cwd=workdir, env={}) as host:
            session = host.new_session()
            session.run("first " + "one " * 2_000)
            for _ in range(5):
                session.run("again " + "one " * 2_000)
            messages = session.messages()
            assert any(map(is_summary, messages))
            assert any("ONE" in str(one["content"]) for one in messages if not is_summary(one))
            assert session.window.status()["compression_count"] >= 1
