# pyright: basic
"""Spans for model and tool calls, appended to $HERMES_HOME/spans.jsonl."""

import json
import os
import threading
import time
from functools import partial
from pathlib import Path

from .writer import SpanWriter

STARTS = {"pre_api_request": "api_request_id", "pre_tool_call": "tool_call_id"}
ENDS = {
    "post_api_request": "api_request_id",
    "api_request_error": "api_request_id",
    "post_tool_call": "tool_call_id",
}


class SpanTracer:
    def __init__(self, writer):
        self.writer = writer
        self.open = {}
        self.lock = threading.Lock()

    def start(self, hook, /, **kwargs):
        key = kwargs.get(STARTS[hook])
        with self.lock:
            self.open[key] = {
                "kind": "llm" if hook == "pre_api_request" else "tool",
                "name": kwargs.get("model") if hook == "pre_api_request" else kwargs.get("tool_name"),
                "session": kwargs.get("session_id"),
                "turn": kwargs.get("turn_id"),
                "schema": kwargs.get("telemetry_schema_version"),
                "begun": time.monotonic(),
            }

    def end(self, hook, /, **kwargs):
        with self.lock:
            span = self.open.pop(kwargs.get(ENDS[hook]), None)
        if span is None:
            return
        span["seconds"] = round(time.monotonic() - span.pop("begun"), 6)
        span["status"] = kwargs.get("status") or ("error" if hook == "api_request_error" else "ok")
        if kwargs.get("usage"):
            span["tokens"] = kwargs["usage"].get("total_tokens")
        self.writer.add(span)

    def flush(self, **kwargs):
        self.writer.flush(interrupted=bool(kwargs.get("interrupted")))


def register(ctx):
    home = Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()
    tracer = SpanTracer(SpanWriter(home / "spans.jsonl", json.dumps))
    for hook in STARTS:
        ctx.register_hook(hook, partial(tracer.start, hook))
    for hook in ENDS:
        ctx.register_hook(hook, partial(tracer.end, hook))
    ctx.register_hook("on_session_end", tracer.flush)
