"""What tests of the local model share: model files, a made-up runtime, and questions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.base.scope import Interrupt
from hermes.models.endpoint import Endpoint
from hermes.models.local.endpoint import ADDRESS, EMBEDDED, LOCAL
from hermes.models.local.service import LocalService
from hermes.models.reply import Reply, normalise
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import ModelRequest
from support.waiting import wait_until_gone

ServiceFactory = Callable[..., LocalService]

ENDPOINT = Endpoint(ADDRESS, EMBEDDED, LOCAL)

#: Stands where the real package would. The file name of a model says how it behaves; what follows ``say:`` in a
#: message is its answer.
FAKE_RUNTIME = """
import json, os, pathlib, signal, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace


class CommonParams(SimpleNamespace):
    def __init__(self):
        super().__init__(model=SimpleNamespace(path=""), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())


class Server:
    def __init__(self, params):
        name = os.path.basename(params.model.path)
        print("loading", name)
        if "illegal" in name:
            os.kill(os.getpid(), signal.SIGILL)
        if "broken" in name:
            raise RuntimeError("Failed to init server")
        if "slow" in name:
            pathlib.Path(params.model.path + ".loading").write_text(str(os.getpid()))
            threading.Event().wait()
        handler = type("Handler", (_Handler,), {"params": params})
        self.server = ThreadingHTTPServer(("127.0.0.1", params.port), handler)
        self.listening_address = "http://127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        if self.headers["authorization"] != "Bearer " + self.params.api_keys[0]:
            return self.answer(401, {"error": {"message": "wrong key"}})
        facts = {name: str(getattr(self.params, name)) for name in ("n_ctx", "cors_origins", "ui", "offline")}
        facts.update(pid=os.getpid(), omp=os.environ.get("OMP_WAIT_POLICY"), env=sorted(os.environ))
        told = asked["messages"][-1]["content"].partition("say:")[2]
        message = {"role": "assistant", "content": told or json.dumps(facts)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.answer(200, {"model": sorted(self.params.model_alias)[0], "choices": [choice]})

    def answer(self, code, document):
        data = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass
"""


def write_gguf(path: Path, *, context_length: int = 4096, architecture: str = "llama") -> Path:
    """A file that begins like a model."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    entries = [
        text("general.architecture") + struct.pack("<I", 8) + text(architecture),
        text("general.languages") + struct.pack("<IIQ", 9, 8, 2) + text("en") + text("fr"),
        text("general.sizes") + struct.pack("<IIQ", 9, 4, 3) + struct.pack("<III", 1, 2, 3),
        text("general.weight") + struct.pack("<If", 6, 0.5),
        text(f"{architecture}.context_length") + struct.pack("<II", 4, context_length),
        text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("gpt2"),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
    return path


def ask(service: LocalService, text: str = "Hello!", interrupt: Interrupt | None = None) -> Reply:
    """One question in the plain chat format."""
    wire = ChatCompletions()
    kwargs: dict[str, Any] = wire.kwargs(ENDPOINT, ModelRequest([{"role": "user", "content": text}], stream=False))
    return normalise(service.send(ENDPOINT, wire, kwargs, interrupt=interrupt or Interrupt()))


def gone(pid: int) -> bool:
    """Wait for the end of a process. A dead child that its parent has yet to collect counts as gone."""
    wait_until_gone(pid)
    return True
