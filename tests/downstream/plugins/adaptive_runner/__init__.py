# pyright: basic
import json
import threading
from collections import defaultdict


class AdaptiveRunner:
    def __init__(self):
        self.failures = defaultdict(int)
        self.reads = {}
        self.lock = threading.Lock()

    def run_model(self, **kwargs):
        request = dict(kwargs["request"])
        session = kwargs.get("session_id")
        if self.failures.get(session):
            request["temperature"] = 0.0
        try:
            response = kwargs["next_call"](request)
        except Exception as error:
            # Some hosts wrap what went wrong below.
            cause = getattr(error, "original", error)
            with self.lock:
                self.failures[session] += 1
            if cause is not error:
                raise cause from error
            raise
        return response

    def run_tool(self, **kwargs):
        args = kwargs["args"]
        if kwargs["tool_name"] != "read_file":
            if kwargs["tool_name"] in ("write_file", "patch", "terminal"):
                with self.lock:
                    self.reads.clear()
            return kwargs["next_call"](args)
        key = (kwargs.get("session_id"), json.dumps(args, sort_keys=True, default=str))
        with self.lock:
            if key in self.reads:
                return self.reads[key]
        result = kwargs["next_call"](args)
        if '"error"' not in result[:2000]:
            with self.lock:
                self.reads[key] = result
        return result

    def forget(self, session_id=None, **kwargs):
        with self.lock:
            self.failures.pop(session_id, None)
            for key in [key for key in self.reads if key[0] == session_id]:
                del self.reads[key]


def register(ctx):
    runner = AdaptiveRunner()
    ctx.register_middleware("llm_execution", runner.run_model)
    ctx.register_middleware("tool_execution", runner.run_tool)
    ctx.register_hook("on_session_finalize", runner.forget)
