"""Execution middleware that hands model and tool calls to the runtime, when an adaptive component wants them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from hermes.contract.response import to_plain
from hermes.trace.clean import Cleaner
from hermes.trace.tracker import OpenAttempt, OpenTool

from .loop import RelayLoop
from .managed import HandBack
from .relay import Relay
from .runtime_exporters import RuntimeExporters
from .sessions import RelaySpan, SessionScope
from .sink import Fields, RelaySink, about_of

log = logging.getLogger("hermes.plugins.nemo_relay")


class ManagedCalls:
    """The callbacks of both kinds. A call whose start was not seen is run as if they were not there."""

    def __init__(
        self, relay: Relay, exporters: RuntimeExporters, sink: RelaySink, loop: RelayLoop, clean: Cleaner
    ) -> None:
        self._relay = relay
        self._exporters = exporters
        self._sink = sink
        self._loop = loop
        self._clean = clean
        if not relay.knows_call_ids:
            log.warning(
                "nemo-relay %s does not keep the ids of managed tool calls; equal calls at the same time "
                "cannot be distinguished in its events",
                relay.version,
            )

    def run_llm(self, *, request: dict[str, Any], next_call: Callable[[Any], Any], **fields: Any) -> Any:
        attempt = self._sink.tracker.attempt(fields["api_request_id"])
        shown = self._clean.value(to_plain(request))

        def begin(session: SessionScope, call: Any, about: Fields, mode: str) -> Any:
            return self._relay.execute_llm(
                fields["provider"] or "model",
                shown,
                call,
                handle=session.handle,
                metadata=about,
                data={"mode": mode},
                model_name=fields["model"],
            )

        return self._run_managed(attempt, fields, begin, shown, request, next_call)

    def run_tool(self, *, args: dict[str, Any], next_call: Callable[[Any], Any], **fields: Any) -> Any:
        tool = self._sink.tracker.tool(fields["session_id"], fields["turn_id"], fields["tool_call_id"])
        shown = self._clean.value(args)

        def begin(session: SessionScope, call: Any, about: Fields, mode: str) -> Any:
            return self._relay.execute_tool(
                fields["tool_name"],
                shown,
                call,
                fields["tool_call_id"],
                handle=session.handle,
                metadata=about,
                data={"mode": mode},
            )

        return self._run_managed(tool, fields, begin, shown, args, next_call)

    def _run_managed(
        self,
        item: OpenAttempt | OpenTool | None,
        fields: Fields,
        begin: Any,
        shown: Any,
        payload: Any,
        next_call: Callable[[Any], Any],
    ) -> Any:
        """Run a call through the runtime, whose span then represents it; else it is run as it would be anyway."""
        session = self._sink.find(fields["session_id"])
        span: RelaySpan | None = item.span if item is not None else None
        mode = self._exporters.managed_mode
        if session is None or span is None or not mode:
            return next_call(payload)
        about = {**about_of(fields, fields["session_id"]), "mode": mode}
        call = HandBack(
            self._loop, session.context(), shown, payload, lambda result: self._clean.value(to_plain(result))
        )

        async def run(function: Any) -> Any:
            return self._relay.from_tool_result(await begin(session, function, about, mode))

        span.is_managed = True
        try:
            return call.run(run, next_call)
        finally:
            span.is_managed = call.took_over
