"""The NeMo Relay runtime as installed: everything that differs between its releases is decided here."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Awaitable, Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Literal

#: Releases by their first two numbers that the plugin is tested with.
TESTED = ("0.3", "0.8", "0.10")

Kind = Literal["llm", "tool"]


class RelayMissing(Exception):
    """The runtime cannot be imported; the message says what to do."""


class Relay:
    """The runtime's functions. They are called in the context of the session they belong to."""

    def __init__(self) -> None:
        try:
            module: Any = import_module("nemo_relay")
        except ImportError as error:
            raise RelayMissing(
                f"nemo-relay cannot be imported ({error}), so nothing is exported; 'hermes install nemo-relay' gets it"
            ) from error
        self._module = module
        self.version = metadata.version("nemo-relay")
        self._plugin: Any = import_module("nemo_relay.plugin")
        observability: Any = import_module("nemo_relay.observability")
        self.schema: int = observability.ObservabilityConfig().version
        #: Since 0.8 the result of a tool has a type of its own.
        self._result_type = getattr(module, "ToolExecutionResult", None)
        self._pop_takes_metadata = _takes(module.scope.pop, "metadata")
        #: Whether managed tool calls keep their id, so that equal ones can be distinguished.
        self.knows_call_ids = _takes(module.tools.execute, "tool_call_id")
        self._initialize_takes_file = _takes(self._plugin.initialize, "additional_plugins_toml")
        self._event_metadata: Any = None
        with contextlib.suppress(ImportError):  # 0.10 has it
            self._event_metadata = import_module("nemo_relay.event_metadata")

    @property
    def is_tested(self) -> bool:
        return ".".join(self.version.split(".")[:2]) in TESTED

    @property
    def can_manage(self) -> bool:
        """Whether calls can be run through the runtime."""
        module = self._module
        wanted = ((module.llm, "execute"), (module.tools, "execute"), (module, "LLMRequest"))
        return all(callable(getattr(part, name, None)) for part, name in wanted)

    @property
    def reads_project_files(self) -> bool:
        """0.4 to 0.7 take over ``.nemo-relay/plugins.toml`` of whatever folder the process runs in."""
        return self._pop_takes_metadata and self._result_type is None

    # -- scopes, spans and marks --------------------------------------------------------------------------------

    def push(self, name: str, parent: Any, **fields: Any) -> Any:
        """Begin a session; its handle."""
        module = self._module
        return module.scope.push(name, module.ScopeType.Agent, handle=parent, **fields)

    def pop(self, handle: Any, details: dict[str, Any], **fields: Any) -> None:
        """End a session."""
        if self._pop_takes_metadata:
            fields["metadata"] = details
        self._module.scope.pop(handle, **fields)

    def mark(self, name: str, handle: Any, **fields: Any) -> None:
        self._module.scope.event(name, handle=handle, **fields)

    def begin(self, kind: Kind, name: str, content: Any, **fields: Any) -> Any:
        """Begin a model or tool call; the span that ``end`` takes."""
        module = self._module
        if kind == "tool":
            return module.tools.call(name, content, **fields)
        return module.llm.call(name, module.LLMRequest({}, content), **fields)

    def end(self, kind: Kind, span: Any, result: Any, **fields: Any) -> None:
        if kind == "tool":
            self._module.tools.call_end(span, self.tool_result(result), **fields)
        else:
            self._module.llm.call_end(span, result, **fields)

    # -- managed execution --------------------------------------------------------------------------------------

    async def execute(
        self, kind: Kind, name: str, content: Any, function: Callable[[Any], Awaitable[Any]], **fields: Any
    ) -> Any:
        """Run a call around ``function``, which is given what the runtime made of the content; its result."""
        module = self._module

        async def send(request: Any) -> Any:
            # What the runtime put into the headers is for itself and not sent to the provider.
            return await function(request.content)

        async def use(args: Any) -> Any:
            return self.tool_result(await function(args))

        if kind == "llm":
            return await module.llm.execute(name, module.LLMRequest({}, content), send, **fields)
        result = await module.tools.execute(name, content, use, **fields)
        has_form = self._result_type is not None and isinstance(result, self._result_type)
        return result.result if has_form else result

    def tool_result(self, result: Any) -> Any:
        """A tool's result in the form this release takes."""
        return result if self._result_type is None else self._result_type(result)

    @property
    def adds_metadata(self) -> bool:
        """Whether metadata can be added to the runtime's own events."""
        return self._event_metadata is not None and self.knows_call_ids

    def add_metadata(self, name: str, make: Callable[[Any], dict[str, str]]) -> None:
        """Have ``make`` add to the metadata of every event, where that is possible."""
        if self.adds_metadata:
            self._event_metadata.register_injector(name, 0, make)

    def stop_adding(self, name: str) -> None:
        if self.adds_metadata:
            self._event_metadata.deregister_injector(name)

    # -- exporters ----------------------------------------------------------------------------------------------

    def atof_exporter(self, folder: Path, filename: str, *, overwrite: bool) -> Any:
        module = self._module
        config = module.AtofExporterConfig()
        config.output_directory = str(folder)
        config.filename = filename
        config.mode = module.AtofExporterMode.Overwrite if overwrite else module.AtofExporterMode.Append
        return module.AtofExporter(config)

    def flush(self) -> None:
        """Wait until everything emitted so far was delivered. Not to be called where an event loop runs."""
        self._module.subscribers.flush()

    # -- components ---------------------------------------------------------------------------------------------

    def diagnostics(self, document: dict[str, Any]) -> list[dict[str, Any]]:
        """What the runtime has to say about a document, without loading any of it."""
        validate = getattr(self._plugin, "validate_exact", None) or self._plugin.validate
        report: dict[str, Any] = validate(document)
        return report.get("config", report)["diagnostics"]

    async def initialize(self, document: dict[str, Any]) -> Any:
        """Start the components of a document; what ``close`` takes."""
        if not self._initialize_takes_file:
            return await self._plugin.initialize(document)
        import tempfile

        # A file of the user's would be merged with the document, unless another one is named: an empty one.
        with tempfile.NamedTemporaryFile(prefix="nemo-relay-", suffix=".toml") as empty:
            return await self._plugin.initialize(document, additional_plugins_toml=os.fspath(empty.name))

    @property
    def closes_on_loop(self) -> bool:
        return not hasattr(self._plugin, "clear")

    async def close_on_loop(self, activation: Any) -> None:
        """Stop the components. A failed attempt leaves them active, and a second one often succeeds."""
        try:
            await activation.close()
        except Exception:
            await activation.close()

    def clear(self) -> None:
        """Stop the components, on releases that have no owned activation. It blocks."""
        self._plugin.clear()


def _takes(function: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(function).parameters
