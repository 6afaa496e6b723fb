"""The conformance conversation on every surface, each a real process with the probes in its home."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from hermes.testing import ScriptedProvider
from hermes.testing.hosts.conversation import ANSWER, MESSAGE, PLUGINS, HostConversation
from support import hermes_command, hermes_environment, line_platform, run_hermes, start_hermes
from support.a2a_rig import UNUSED_TLS, VERSION, wire_message
from support.gateway_rig import LineClient
from support.repl_terminal import CTRL_D, ReplTerminal
from support.waiting import HANG, wait_until


class ConformanceHome:
    """A home with the probes, a model that has the script, and a working directory."""

    def __init__(self, folder: Path, conversation: HostConversation, provider: ScriptedProvider) -> None:
        self.path, self.cwd = folder / "home", folder / "work"
        self.conversation, self.provider = conversation, provider
        conversation.install(self.path / "plugins")
        self.cwd.mkdir(exist_ok=True)
        self.configure()

    def configure(self, plugins: Sequence[str] = (), **sections: Any) -> None:
        """Write the configuration, with more plugins and sections of a surface."""
        config = {
            "model": {
                "provider": "custom",
                "default": "scripted",
                "base_url": self.provider.base_url,
                "api_key": "test-key",
            },
            "agent": {"api_max_retries": 2},
            "approvals": {"reviewer": "model"},
            "plugins": {"enabled": [*PLUGINS, *plugins]},
            "principals": {"local": {"workspace": str(self.cwd)}},
            **sections,
        }
        # What is JSON is YAML too.
        (self.path / "config.yaml").write_text(json.dumps(config))

    @contextmanager
    def serving(self, *command: str, env: dict[str, str] | None = None) -> Generator[str]:
        """A server until the end of the block; the first line that it prints. It ends in order."""
        process = start_hermes(*command, home=self.path, cwd=self.cwd, env=env, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=HANG)


def one_shot(home: ConformanceHome) -> str:
    return run_hermes("chat", "-q", MESSAGE, "-Q", home=home.path, cwd=home.cwd).stdout


def prompt(home: ConformanceHome) -> str:
    with ReplTerminal(home.path, home.cwd, "chat") as terminal:
        terminal.send(MESSAGE)
        terminal.wait_for(ANSWER)
        terminal.wait_until_idle()
        terminal.type(CTRL_D)
        terminal.end()
        return terminal.raw.decode()


def embedding(home: ConformanceHome) -> str:
    program = f"import hermes\nwith hermes.Agent(cwd={str(home.cwd)!r}) as agent: print(agent.run({MESSAGE!r}).answer)"
    command = [sys.executable, "-c", program]
    environment = hermes_environment(home.path)
    done = subprocess.run(command, env=environment, cwd=home.cwd, capture_output=True, text=True, timeout=HANG)
    return done.stdout + done.stderr


def openai_api(home: ConformanceHome) -> str:
    with home.serving("api", "--port", "0") as line:
        return _chat(line)


def _chat(line: str) -> str:
    """The answer of the API whose address is in the line."""
    url = next(word for word in line.split() if word.startswith("http")).rstrip("/.,")
    document = {"messages": [{"role": "user", "content": MESSAGE}]}
    response = httpx.post(f"{url}/chat/completions", json=document, timeout=HANG, verify=UNUSED_TLS)
    return response.text


def a2a(home: ConformanceHome) -> str:
    with home.serving("a2a", "serve") as url:
        address, message = f"{url}/rest/message:send", wire_message(MESSAGE)
        return httpx.post(address, json=message, headers=VERSION, timeout=HANG, verify=UNUSED_TLS).text


def editor(home: ConformanceHome) -> str:
    process = subprocess.Popen(
        hermes_command("acp"),
        cwd=home.cwd,
        env=hermes_environment(home.path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    said: list[str] = []

    def call(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            document = json.loads(line)
            if document.get("id") == number:
                return document["result"]
            update = document["params"].get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                said.append(update["content"]["text"])
        raise AssertionError("the agent ended")

    call(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    session = call(2, "session/new", {"cwd": str(home.cwd), "mcpServers": []})["sessionId"]
    call(3, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": MESSAGE}]})
    process.communicate(timeout=HANG)
    return "".join(said)


def mcp_server(home: ConformanceHome) -> str:
    from mcp import Client, StdioServerParameters

    async def ask() -> str:
        command, *arguments = hermes_command("mcp", "serve")
        environment = hermes_environment(home.path)
        server = StdioServerParameters(command=command, args=arguments, env=environment, cwd=home.cwd)
        async with Client(server) as client:
            return str((await client.call_tool("run", {"prompt": MESSAGE})).structured_content)

    return asyncio.run(asyncio.wait_for(ask(), HANG))


def cron(home: ConformanceHome) -> str:
    run_hermes("cron", "add", "every 1d", MESSAGE, "--name", "conformance", home=home.path, cwd=home.cwd)
    return run_hermes("cron", "run", "conformance", home=home.path, cwd=home.cwd).stdout


def worker(home: ConformanceHome) -> str:
    """The turn runs in a worker on PostgreSQL, and the API hands it over."""
    home.configure(journal={"url": os.environ["CONFORMANCE_POSTGRES"]})
    with home.serving("worker"), home.serving("api", "--port", "0") as line:
        return _chat(line)


def chat(home: ConformanceHome) -> str:
    """A message from a chat platform; the answer there."""
    port_file = home.path / "port"
    folder = home.path / "plugins" / "line"
    folder.mkdir()
    (folder / "plugin.yaml").write_text("name: line\nkind: platform\n")
    (folder / "__init__.py").write_text(Path(line_platform.__file__).read_text())
    platform = {"owners": ["alice"], "allowed_users": ["*"], "extra": {"port_file": str(port_file)}}
    home.configure(["line"], gateway={"platforms": {"line": platform}})
    with home.serving("gateway", "run", "--no-api"):
        wait_until(lambda: port_file.exists() and port_file.read_text().endswith("\n"), "the platform")
        client = LineClient(int(port_file.read_text()))
        client.say(MESSAGE)
        client.wait(lambda _: any(ANSWER in text for text in client.texts()), "the answer")
        client.close()
        return "\n".join(client.texts())


_SECRET = base64.b64encode(b"a secret of thirty-two bytes, so").decode()


def webhook(home: ConformanceHome) -> str:
    """A signed request; the answer goes to the log."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    extra = {"port": port, "routes": {"build": {"prompt": "{say}"}}}
    home.configure(gateway={"platforms": {"webhook": {"extra": extra}}})
    body = json.dumps({"say": MESSAGE})
    moment = str(int(time.time()))
    signed = hmac.new(base64.b64decode(_SECRET), f"m1.{moment}.{body}".encode(), hashlib.sha256).digest()
    headers = {
        "webhook-id": "m1",
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }
    url = f"http://127.0.0.1:{port}"
    log = home.path / "logs" / "agent.log"
    with home.serving("gateway", "run", "--no-api", env={"WEBHOOK_SECRET_BUILD": f"whsec_{_SECRET}"}):
        wait_until(lambda: _answers(url), "the listener")
        accepted = httpx.post(f"{url}/webhooks/build", content=body, headers=headers, verify=UNUSED_TLS)
        assert accepted.status_code == 202, accepted.text
        wait_until(lambda: log.exists() and ANSWER in log.read_text(), "the answer")
    return log.read_text()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", verify=UNUSED_TLS).status_code == 200
    except httpx.TransportError:
        return False


#: Every surface: how it is used, what it is called, and who its user is.
SURFACES: dict[str, tuple[Callable[[ConformanceHome], str], str, str]] = {
    "one-shot": (one_shot, "cli", ""),
    "prompt": (prompt, "cli", ""),
    "embedding": (embedding, "embedding", ""),
    "OpenAI API": (openai_api, "api_server", "local"),
    "A2A": (a2a, "a2a", "local"),
    "editor": (editor, "acp", ""),
    "MCP server": (mcp_server, "mcp", ""),
    "cron": (cron, "cron", ""),
    "worker": (worker, "api_server", "local"),
    "gateway, chat": (chat, "line", "alice"),
    "gateway, webhook": (webhook, "webhook", "build"),
}
