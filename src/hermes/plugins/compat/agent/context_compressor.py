"""``agent.context_compressor``: the built-in engine as a class that plugins extend.

Like upstream's it works in two steps: old results of tools become one line each, then the host summarises the older
part of the conversation. Plugins replace the first step.
"""

from __future__ import annotations

import json
from typing import Any

from hermes.plugins.compat.agent.engines import ContextEngine, Messages
from hermes.plugins.compat.agent.runtime import service
from hermes.plugins.compat.names import Names
from hermes.plugins.services import PluginHost

#: The shortest argument of an old call that is cut.
_LONG_ARGUMENT = 500
_ARGUMENT_CHARS = 200
#: How much of the arguments of a call its line shows.
_SHOWN_CHARS = 120
_CHARS_PER_TOKEN = 4
_REPEATED = "[The same result as that of a later call]"


def context_compressor(host: PluginHost) -> Names:
    """The names of the module, for one host."""

    class ContextCompressor(_Compressor):
        """The engine of this host."""

        def _condense(self, messages: Messages, current_tokens: int | None, focus: str, notes: str) -> Messages:
            return service(host, "condense")(messages, current_tokens, focus=focus, notes=notes)

    ContextCompressor.__module__ = "agent.context_compressor"
    return {"ContextCompressor": ContextCompressor}


class _Compressor(ContextEngine):
    # Plugins take the names of the parameters from the signature.
    def __init__(
        self,
        model: str,
        threshold_percent: float = 0.50,
        protect_first_n: int = 3,
        protect_last_n: int = 20,
        summary_target_ratio: float = 0.20,
        quiet_mode: bool = False,
        base_url: str = "",
        api_key: str = "",
        config_context_length: int | None = None,
        provider: str = "",
        api_mode: str = "",
        **_others: Any,
    ) -> None:
        self.model, self.provider = model, provider
        self.base_url, self.api_key, self.api_mode = base_url, api_key, api_mode
        self.quiet_mode = quiet_mode
        self.threshold_percent = threshold_percent
        self.protect_first_n, self.protect_last_n = protect_first_n, protect_last_n
        self.summary_target_ratio = min(max(summary_target_ratio, 0.1), 0.8)
        self.context_length = config_context_length or 0
        self.threshold_tokens = int(self.context_length * threshold_percent)

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  (plugins override it as a property)
        """The name that ``context.engine`` selects it by."""
        return "compressor"

    @property
    def tail_token_budget(self) -> int:
        """How much of the end of a conversation stays as it is."""
        return int(self.threshold_tokens * self.summary_target_ratio)

    def update_from_response(self, usage: dict[str, Any]) -> None:
        """Take note of what a model call took."""
        self.last_prompt_tokens = int(usage.get("prompt_tokens") or 0)
        self.last_completion_tokens = int(usage.get("completion_tokens") or 0)
        self.last_total_tokens = int(usage.get("total_tokens") or self.last_prompt_tokens + self.last_completion_tokens)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the prompt has reached the threshold."""
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return 0 < self.threshold_tokens <= tokens

    def compress(
        self,
        messages: Messages,
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
        **_options: Any,
    ) -> Messages:
        """Old results first, then the summary of the host."""
        pruned, _ = self._prune_old_tool_results(
            messages, protect_tail_count=self.protect_last_n, protect_tail_tokens=self.tail_token_budget
        )
        shorter = self._condense(pruned, current_tokens, focus_topic or "", memory_context.strip())
        if shorter != messages:
            self.compression_count += 1
        return shorter

    def prune_tool_results_only(self, messages: Messages, current_tokens: int | None = None) -> tuple[Messages, int]:
        """The first step alone."""
        return self._prune_old_tool_results(messages, protect_tail_count=self.protect_last_n)

    def _condense(self, messages: Messages, current_tokens: int | None, focus: str, notes: str) -> Messages:
        raise NotImplementedError

    def _prune_boundary(
        self, messages: Messages, protect_tail_count: int, protect_tail_tokens: int | None = None
    ) -> int:
        """Where the protected end begins: that many messages at least, and more while they fit the tokens."""
        boundary, tokens = max(0, len(messages) - protect_tail_count), 0
        if protect_tail_tokens:
            for at in range(len(messages) - 1, -1, -1):
                tokens += len(json.dumps(messages[at], default=str)) // _CHARS_PER_TOKEN
                if tokens > protect_tail_tokens:
                    break
                boundary = min(boundary, at)
        return boundary

    def _prune_old_tool_results(
        self,
        messages: Messages,
        protect_tail_count: int,
        protect_tail_tokens: int | None = None,
        min_prune_chars: int = 200,
    ) -> tuple[Messages, int]:
        """The messages with a line in place of each long result before the protected end, and how many that are."""
        boundary = self._prune_boundary(messages, protect_tail_count, protect_tail_tokens)
        calls = {call["id"]: call["function"] for one in messages for call in one.get("tool_calls") or ()}
        later: set[str] = set()
        found: Messages = []
        count = 0
        for at in range(len(messages) - 1, -1, -1):
            message = messages[at]
            content: Any = message.get("content")
            if message.get("role") == "tool" and isinstance(content, str) and len(content) > min_prune_chars:
                is_repeated = content in later
                later.add(content)
                if is_repeated or at < boundary:
                    function = calls.get(message.get("tool_call_id"), {})
                    line = _REPEATED if is_repeated else _line(function, content)
                    message, count = {**message, "content": line}, count + 1
            elif message.get("tool_calls") and at < boundary:
                message = {**message, "tool_calls": [_with_short_arguments(call) for call in message["tool_calls"]]}
            found.append(message)
        return found[::-1], count


def _line(function: dict[str, Any], content: str) -> str:
    arguments = str(function.get("arguments") or "")
    shown = arguments if len(arguments) <= _SHOWN_CHARS else f"{arguments[:_SHOWN_CHARS]}…"
    lines = content.count("\n") + 1
    return f"[{function.get('name') or 'tool'} {shown}: {lines} lines, {len(content)} characters, left out]"


def _with_short_arguments(call: dict[str, Any]) -> dict[str, Any]:
    arguments: Any = call["function"].get("arguments")
    if not isinstance(arguments, str) or len(arguments) <= _LONG_ARGUMENT:
        return call
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return call
    if not isinstance(parsed, dict):
        return call
    shorter = {name: _cut(value) for name, value in parsed.items()}  # pyright: ignore[reportUnknownVariableType]
    return {**call, "function": {**call["function"], "arguments": json.dumps(shorter, ensure_ascii=False)}}


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _ARGUMENT_CHARS:
        return f"{value[:_ARGUMENT_CHARS]}… ({len(value) - _ARGUMENT_CHARS} characters left out)"
    return value
