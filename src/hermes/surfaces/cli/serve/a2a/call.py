"""``hermes a2a call``: send a message to another agent and show its answer as it streams."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from hermes.base.config import load_config
from hermes.base.errors import HermesError
from hermes.base.sanitize import Redactor
from hermes.surfaces.cli import home_with_variables
from hermes.surfaces.cli.failures import EXIT_INTERRUPTED
from hermes.surfaces.cli.terminal import can_prompt, one_line, plain, print_json

if TYPE_CHECKING:
    from hermes.tools.peers.addresses import Peer
    from hermes.tools.peers.client import PeerCallOptions, PeerClient
    from hermes.tools.peers.reply import PeerReply, PeerUpdate

#: Exit code: the agent waits for an answer, and there is no terminal to ask at.
UNANSWERED = 3
TERMINATED = 143


def run_call(args: argparse.Namespace) -> int:
    """Call the agent."""
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

    def run(self) -> int:
        import asyncio

        try:
            reply = asyncio.run(self._main())
        except asyncio.CancelledError:  # SIGTERM; for Ctrl-C it is a KeyboardInterrupt
            return TERMINATED
        except KeyboardInterrupt:
            print("\nInterrupted.", file=sys.stderr)
            return EXIT_INTERRUPTED
        return self._conclude(reply)

    async def _main(self) -> PeerReply:
        import asyncio
        import signal

        from hermes.tools.peers.client import connect_peer

        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with connect_peer(self._peer, self._options) as client:
            reply = await self._first(client)
            while reply.waits:
                answer = await self._answer_to(reply)
                if not answer:
                    break
                reply = await client.answer(reply.task_id, answer, self._show)
        return reply

    async def _first(self, client: PeerClient) -> PeerReply:
        args = self._args
        if args.task:
            return await client.answer(args.task, args.message, self._show)
        return await client.send(args.message, context_id=args.context, on_update=self._show)

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

    def _conclude(self, reply: PeerReply) -> int:
        code = 0 if reply.state == "completed" else UNANSWERED if reply.waits else 1
        if self._args.json:
            print_json(_document(reply, self._peer, self._redactor))
            return code
        if self._is_mid_line:
            print(flush=True)
        if reply.waits:
            print(self._clean(reply.status), file=sys.stderr)
            answer = "approve (or deny)" if reply.is_approval else "'your answer'"
            print(
                f"The agent waits for an answer. Send it with: "
                f"hermes a2a call {self._peer.name} --task {_word(reply.task_id)} {answer}",
                file=sys.stderr,
            )
        elif code:
            reason = f": {self._clean(reply.status)}" if reply.status else ""
            print(f"The agent's task is {reply.state}{reason}", file=sys.stderr)
        elif reply.context_id:
            print(f"(continue this conversation with --context {_word(reply.context_id)})", file=sys.stderr)
        return code


def _word(name: str) -> str:
    """An id from the agent as one shell word, so that the command can be copied."""
    import shlex

    return shlex.quote(one_line(name))


def _document(reply: PeerReply, peer: Peer, redactor: Redactor) -> dict[str, Any]:
    document: dict[str, Any] = {
        "agent": peer.url,
        "task_id": reply.task_id,
        "context_id": reply.context_id,
        "state": reply.state,
        "text": redactor.redact(reply.text),
    }
    extra = {"status": redactor.redact(reply.status), "question": reply.question, "metadata": reply.metadata}
    return document | {name: value for name, value in extra.items() if value}


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
