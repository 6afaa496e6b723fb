"""``hermes a2a``: the agent as a server for other agents, and calls to them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hermes.base.config import load_config
from hermes.base.errors import HermesError
from hermes.base.sanitize import Redactor
from hermes.surfaces.cli import home_with_variables, open_home
from hermes.surfaces.cli.arguments import (
    HOST,
    MODEL,
    PLUGIN,
    VERBOSE,
    Action,
    Argument,
    CommandSpec,
    OneOf,
    flag,
    port_number,
    seconds,
)
from hermes.surfaces.cli.failures import EXIT_INTERRUPTED, EXIT_TERMINATED, serving_packages
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import can_prompt, one_line, plain, print_warnings

if TYPE_CHECKING:
    from hermes.tools.peers.addresses import Peer
    from hermes.tools.peers.client import PeerCallOptions
    from hermes.tools.peers.reply import PeerReply, PeerUpdate

_EXAMPLES = """
examples:
  hermes a2a serve                                   for programs on this machine
  hermes a2a serve --host 0.0.0.0 --port 8800 --public-url https://agent.example.org
  hermes a2a call http://127.0.0.1:8800 "What is in this folder?"
"""
#: Exit code: the agent waits for an answer, and there is no terminal to ask at.
UNANSWERED = 3
_CALL_EXAMPLES = """
The answer goes to stdout, everything else to stderr. When the agent asks something, answer at the terminal; without
one the exit code is 3, and the same command with --task and the answer continues. Ctrl-C cancels the remote task.

Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 waits for an answer, 130 interrupted, 143 terminated.

examples:
  hermes a2a call http://127.0.0.1:8800 'What is in this folder?'
  hermes a2a call https://agent.example.org 'Hello' --token-env AGENT_TOKEN
  hermes a2a call http://127.0.0.1:8800 --task 5f2c91d0 approve
"""


def _serve(args: argparse.Namespace) -> None:
    # The SDK's own spans would duplicate those of the turn.
    os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
    from hermes.base.http_server.listen_address import ListenAddress, check_listen_address
    from hermes.base.http_server.principals import read_principals

    home, redactor, loaded = open_home(verbose=args.verbose)
    principals = read_principals(loaded.config, os.environ, redactor)
    check_listen_address(ListenAddress(args.host, args.port, args.public_url), principals)
    with serving_packages("a2a"):
        # Large, and not needed to refuse an address.
        from hermes.surfaces.a2a.server.process import A2AListenAddress, log_libraries, serve
    from hermes.host import Host, HostOptions
    from hermes.service.dispatch.choose import check_provider, missing_workers, surface_config

    log_libraries()
    options = HostOptions(
        provider=args.provider, model=args.model, plugins=args.plugin, platform="a2a", unattended=True, hide_memory=True
    )
    with Host(home, surface_config(loaded.config), options, redactor=redactor) as host:
        check_provider(host)
        print_warnings((*loaded.warnings, *host.notices, *missing_workers(host)), redactor.redact)
        serve(host, A2AListenAddress(args.host, args.port, args.public_url, args.grpc_port), principals, _announce)


def _announce(url: str, grpc_address: str) -> None:
    print(url, flush=True)
    if grpc_address:
        print(f"gRPC at {grpc_address}", file=sys.stderr, flush=True)


def _call(args: argparse.Namespace) -> Report | int:
    from hermes.tools.peers.addresses import Peer, find_peer, read_token
    from hermes.tools.peers.failures import missing_sdk

    if not args.message.strip():
        raise HermesError("the message is empty; write what the agent should do")
    settings = load_config(home_with_variables()).config.a2a
    peer = find_peer(settings, os.environ, args.agent)
    token = read_token(os.environ, args.token_env, "--token-env") if args.token_env else peer.token
    # An address that the user typed may be in a private network.
    peer = Peer(peer.name, peer.url, token, is_trusted=True)
    try:
        from hermes.tools.peers.client import PeerCallOptions
    except ModuleNotFoundError as error:
        raise missing_sdk(error) from None
    options = PeerCallOptions(
        timeout=args.timeout or settings.call_timeout, max_hops=settings.max_hops, stream=not args.no_stream
    )
    return _AgentCall(args, peer, options).run()


class _AgentCall:
    """One call, with the questions of the agent and their answers, until it is done."""

    def __init__(self, args: argparse.Namespace, peer: Peer, options: PeerCallOptions) -> None:
        self._args = args
        self._peer = peer
        self._options = options
        self._choice = "approve" if args.approve else "deny" if args.deny else ""
        self._redactor = Redactor((peer.token,))
        self._is_mid_line = False

    def run(self) -> Report | int:
        import asyncio

        try:
            reply = asyncio.run(self._main())
        except asyncio.CancelledError:  # SIGTERM; for Ctrl-C it is a KeyboardInterrupt
            return EXIT_TERMINATED
        except KeyboardInterrupt:
            print("\nInterrupted.", file=sys.stderr)
            return EXIT_INTERRUPTED
        return self._concluded(reply)

    async def _main(self) -> PeerReply:
        import asyncio
        import signal

        from hermes.tools.peers.client import connect_peer

        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with connect_peer(self._peer, self._options) as client:
            if self._args.task:
                reply = await client.answer(self._args.task, self._args.message, self._show)
            else:
                reply = await client.send(self._args.message, context_id=self._args.context, on_update=self._show)
            while reply.waits:
                answer = await self._answer_to(reply)
                if not answer:
                    break
                reply = await client.answer(reply.task_id, answer, self._show)
        return reply

    async def _answer_to(self, reply: PeerReply) -> str:
        """The answer to a question; empty when there is none."""
        if reply.is_approval and self._choice:
            return self._choice
        if self._args.json or not can_prompt() or reply.state != "input-required":
            return ""
        self._end_line()
        print(self._clean(reply.status), file=sys.stderr)
        label = "approve or deny> " if reply.is_approval else "answer> "
        print(label, end="", file=sys.stderr, flush=True)
        return await _read_line()

    def _show(self, update: PeerUpdate) -> None:
        if self._args.json:
            return
        if update.status:
            self._end_line()
            print(f"· {one_line(self._redactor.redact(update.status))}", file=sys.stderr, flush=True)
        if update.text:
            print(self._clean(update.text), end="", flush=True)
            self._is_mid_line = not update.text.endswith("\n")

    def _end_line(self) -> None:
        """End the line on stdout before a line on stderr, where both are shown together."""
        if self._is_mid_line and sys.stdout.isatty():
            print(flush=True)
            self._is_mid_line = False

    def _clean(self, text: str) -> str:
        return plain(self._redactor.redact(text))

    def _concluded(self, reply: PeerReply) -> Report:
        redact = self._redactor.redact
        document: dict[str, Any] = {
            "agent": self._peer.url,
            "task_id": reply.task_id,
            "context_id": reply.context_id,
            "state": reply.state,
            "text": redact(reply.text),
        }
        extra = {"status": redact(reply.status), "question": reply.question, "metadata": reply.metadata}
        document |= {name: value for name, value in extra.items() if value}
        code = 0 if reply.state == "completed" else UNANSWERED if reply.waits else 1
        # The answer is printed already; its last line may have no end.
        return Report(document, [""] if self._is_mid_line else (), notes=self._notes(reply), code=code)

    def _notes(self, reply: PeerReply) -> Iterator[str]:
        if reply.waits:
            yield self._clean(reply.status)
            answer = "approve (or deny)" if reply.is_approval else "'your answer'"
            command = f"hermes a2a call {self._peer.name} --task {_word(reply.task_id)} {answer}"
            yield f"The agent waits for an answer. Send it with: {command}"
        elif reply.state != "completed":
            reason = f": {self._clean(reply.status)}" if reply.status else ""
            yield f"The agent's task is {reply.state}{reason}"
        elif reply.context_id:
            yield f"(continue this conversation with --context {_word(reply.context_id)})"


def _word(name: str) -> str:
    """An id from the agent as one shell word, so that the command can be copied."""
    import shlex

    return shlex.quote(one_line(name))


async def _read_line() -> str:
    """A line from the terminal; Ctrl-C ends the wait at once; empty at the end of input."""
    import asyncio

    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
    line: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not line.done():
            line.set_result(os.read(descriptor, 65_536))

    loop.add_reader(descriptor, read)
    try:
        return (await line).decode(errors="replace").strip()
    finally:
        loop.remove_reader(descriptor)


_AGENT = "URL of the agent, or its name under a2a.agents in config.yaml"
_MESSAGE = "message to send; with --task, the answer to its question, such as approve or deny"
_TIMEOUT = "how long the agent may be silent (a2a.call_timeout)"

COMMAND = CommandSpec(
    epilog=_EXAMPLES,
    actions=(
        Action("serve", _serve, "serve this agent until Ctrl-C; the first line on stdout is its address").takes(
            HOST,
            Argument("--port N", "port to listen on (default: any free one)", type=port_number, default=0),
            Argument("--grpc-port N", "serve gRPC too, on this port; 0 is any free one", type=port_number),
            Argument("--public-url URL", "URL of this server for others, on its card", default=""),
            *MODEL,
            PLUGIN,
            VERBOSE,
        ),
        Action("call", _call, "send a message to another agent and show its answer", epilog=_CALL_EXAMPLES).takes(
            Argument("agent URL", _AGENT),
            Argument("message", _MESSAGE),
            Argument("--token-env NAME", "environment variable that holds its token", default=""),
            Argument("--context ID", "continue that conversation", default=""),
            Argument("--task ID", "answer the question of that task", default=""),
            OneOf(
                flag("--approve", "approve everything the agent asks for during the call"),
                flag("--deny", "deny everything the agent asks for during the call"),
            ),
            flag("--json", "print one JSON document when done"),
            flag("--no-stream", "wait for the whole answer instead of streaming it"),
            Argument("--timeout SECONDS", _TIMEOUT, type=seconds),
        ),
    ),
)
