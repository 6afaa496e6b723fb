"""One conversation in an editor: runs its prompts, one at a time, asks there, and reports what happens as updates."""

from __future__ import annotations

import base64
import binascii
import logging
import threading
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.agent.events import TurnResult
from hermes.agent.images.attachments import MAX_IMAGE_BYTES, image_type
from hermes.agent.session import Session
from hermes.base.errors import HermesError
from hermes.base.sanitize.hidden import escape_hidden
from hermes.base.scope import Interrupt
from hermes.contract.events import ReasoningDelta, TextDelta, ToolEnded, ToolStarted, TurnEvent
from hermes.host import Host
from hermes.journal.bodies import message_text
from hermes.surfaces.acp.updates import ToolUpdates, Update, text_chunk
from hermes.surfaces.acp.wire import (
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    EditorConnection,
    RpcError,
    RpcReply,
    fields_of,
)
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.dispatch import is_command, run_command
from hermes.surfaces.commands.surface import OneShotSurface

log = logging.getLogger("hermes.acp")

Message = str | list[dict[str, Any]]

#: How long a prompt that was stopped may take to end.
_END_SECONDS = 5.0
_STOP_REASONS = {"length": "max_tokens", "refusal": "refusal", "content_filter": "refusal", "budget": "max_tokens"}
#: The options of an approval: their kind, their text, and where one that lasts holds.
_OPTIONS: dict[Choice, tuple[str, str, str]] = {
    "once": ("allow_once", "Allow", ""),
    "session": ("allow_always", "Allow for longer", "in this session"),
    "always": ("allow_always", "Always allow", "in all sessions"),
    "deny": ("reject_once", "Reject", ""),
}


class EditorSession:
    """A session that an editor has open."""

    #: Where its questions are asked.
    surface = "acp"

    def __init__(self, host: Host, session: Session, connection: EditorConnection, *, can_fill_forms: bool) -> None:
        self.session = session
        self._host = host
        self._connection = connection
        self._updates = ToolUpdates(session.cwd, host.redactor, host.tools.declaration)
        self._prompts = 0
        self._announced: set[str] = set()
        self._streamed = False
        self._interrupt: Interrupt | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._can_fill_forms = can_fill_forms
        host.responders.attach(session.id, self)

    def update(self, update: Update) -> None:
        """Send one update."""
        self._connection.notify("session/update", {"sessionId": self.session.id, "update": update})

    # -- prompts ------------------------------------------------------------------------------------------------

    def prompt(self, blocks: object, reply: RpcReply) -> None:
        """Answer a prompt on a thread of its own."""
        message = _user_message(blocks)
        with self._lock:
            if self._interrupt is not None:
                raise RpcError(INVALID_REQUEST, "this session is answering another prompt; cancel it first")
            self._interrupt = Interrupt()
        self._thread = threading.Thread(target=self._run, args=(message, reply, self._interrupt), daemon=True)
        self._thread.start()

    def cancel(self, reason: str) -> None:
        """Stop the prompt that is being answered, if there is one."""
        interrupt = self._interrupt
        if interrupt is not None:
            interrupt.cancel(reason)

    def _run(self, message: Message, reply: RpcReply, interrupt: Interrupt) -> None:
        reason, problem = "end_turn", None
        try:
            to_run = self._run_command(message, interrupt)
            if to_run is not None:
                result = self._run_turn(to_run, interrupt)
                reason = _STOP_REASONS.get(result.finish_reason, "end_turn")
                if result.status == "interrupted":
                    reason = "cancelled"
                elif result.status == "failed":
                    problem = result.error or "the turn failed"
        except HermesError as error:
            problem = str(error)
        except BaseException as error:
            log.exception("a prompt failed")
            problem = f"{type(error).__name__}: {error}"
        with self._lock:
            self._interrupt = None
        # Only now: the editor may send the next prompt at once.
        if problem is None:
            reply.send({"stopReason": reason})
        else:
            reply.fail(INTERNAL, problem)

    def _run_command(self, message: Message, interrupt: Interrupt) -> Message | None:
        """Run a slash command. What is left for the model; None when that is nothing."""
        if not isinstance(message, str) or not message.startswith("/") or not is_command(self._host, message):
            return message
        surface = OneShotSurface(interrupt)
        answer = run_command(Conversation(self._host, self.session, surface), message)
        if answer.text or answer.error:
            self.update(text_chunk("agent_message_chunk", answer.text or f"Error: {answer.error}"))
        return surface.to_run

    def _run_turn(self, message: Message, interrupt: Interrupt) -> TurnResult:
        self._prompts += 1
        self._announced.clear()
        self._streamed = False
        result = self.session.run(message, listener=self._listen, interrupt=interrupt)
        if result.answer and not self._streamed:
            self.update(text_chunk("agent_message_chunk", result.answer))
        return result

    def _call_id(self, tool_call_id: str) -> str:
        """The id of a call for the editor: providers number the calls of each answer anew."""
        return f"{self._prompts}/{tool_call_id}"

    def _listen(self, event: TurnEvent) -> None:
        match event:
            case TextDelta():
                self._streamed = True
                self.update(text_chunk("agent_message_chunk", event.text))
            case ReasoningDelta():
                self.update(text_chunk("agent_thought_chunk", event.text))
            case ToolStarted():
                self._announce(event)
            case ToolEnded():
                self._end(event)
            case _:
                pass

    def _announce(self, event: ToolStarted | ToolEnded) -> None:
        self._streamed = False
        call_id = self._call_id(event.tool_call_id)
        if call_id not in self._announced:
            self._announced.add(call_id)
            self.update(self._updates.started(call_id, event.tool_name, event.args))

    def _end(self, event: ToolEnded) -> None:
        self._announce(event)  # a call that was refused was never started
        call_id, ok = self._call_id(event.tool_call_id), event.status == "ok"
        self.update(self._updates.ended(call_id, event.tool_name, event.result, ok=ok))
        plan = self._updates.plan(event.tool_name, event.result) if ok else None
        if plan is not None:
            self.update(plan)

    # -- questions: a ``Responder``. An editor that is closed, or a prompt that is cancelled, denies. ---------------

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """Ask about a call with ``session/request_permission``."""
        call = self._updates.call(self._call_id(request.tool_call_id), request.tool, request.args)
        why = f"Needs approval: it {request.description}."
        if (shown := escape_hidden(request.subject)) != request.subject:
            why += f" It has hidden characters: {shown}"
        reason = {"type": "content", "content": {"type": "text", "text": why}}
        call["content"] = [*call.get("content", ()), reason]
        call["status"] = "pending"
        lasting: tuple[Choice, ...] = ("session", "always") if request.can_be_kept else ()
        allowed: dict[str, Choice] = {choice: choice for choice in ("once", *lasting, "deny")}
        chosen = self._ask(call, [_worded(choice, request) for choice in allowed.values()], interrupt)
        return ApprovalAnswer(allowed.get(chosen, "deny"))

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """Ask a question of the model: as a form where the editor has them, else as a choice."""
        if self._can_fill_forms:
            return self._fill_form(question, choices, interrupt)
        if not choices:
            return None
        call = {"toolCallId": self._call_id("clarify"), "title": question, "kind": "think", "status": "pending"}
        options = [(f"choice-{at}", "allow_once", choice) for at, choice in enumerate(choices)]
        chosen = self._ask(call, [*options, ("skip", "reject_once", "Skip")], interrupt)
        return {option: text for option, _, text in options}.get(chosen)

    def _ask(self, call: dict[str, Any], options: list[tuple[str, str, str]], interrupt: Interrupt) -> str:
        """The id of the option that was chosen; empty when none was."""
        listed = [{"optionId": option, "kind": kind, "name": name} for option, kind, name in options]
        params = {"sessionId": self.session.id, "toolCall": call, "options": listed}
        answer = fields_of(self._connection.ask("session/request_permission", params, interrupt))
        outcome = fields_of(answer.get("outcome"))
        return str(outcome.get("optionId") or "") if outcome.get("outcome") == "selected" else ""

    def _fill_form(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        field: dict[str, Any] = {"type": "string", "title": "Answer"}
        if choices:
            field["description"] = "For example: " + "; ".join(choices)
        schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
        params = {"sessionId": self.session.id, "mode": "form", "message": question, "requestedSchema": schema}
        answer = fields_of(self._connection.ask("elicitation/create", params, interrupt))
        content = fields_of(answer.get("content")) if answer.get("action") == "accept" else {}
        return str(content.get("answer") or "") or None

    # -- history ------------------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Report the recorded conversation, as if it happened now."""
        names: dict[str, str] = {}
        for at, message in enumerate(self._host.sessions.messages(self.session.id)):
            role, text = message["role"], message_text(message)
            if role == "tool":
                call = str(message.get("tool_call_id"))
                call_id = names.pop(f"id:{call}", f"h{at}/{call}")
                self.update(self._updates.ended(call_id, names.pop(call, ""), text, ok='"error":"' not in text[:2_000]))
                continue
            if text:
                self.update(text_chunk("user_message_chunk" if role == "user" else "agent_message_chunk", text))
            for call in message.get("tool_calls") or ():
                name, call_id = call["function"]["name"], f"h{at}/{call['id']}"
                names[call["id"]], names[f"id:{call['id']}"] = name, call_id
                self.update(self._updates.started(call_id, name, _arguments(call["function"]["arguments"])))

    def close(self) -> None:
        """Stop what runs, and leave the session without a person to ask."""
        self.cancel("the session was closed")
        self._host.responders.detach(self.session.id)

    def join(self) -> None:
        """Wait for the prompt that was stopped, so that its end is recorded."""
        if self._thread is not None:
            self._thread.join(_END_SECONDS)


def _worded(choice: Choice, request: ApprovalRequest) -> tuple[str, str, str]:
    """The id, the kind and the text of an option. One that lasts allows every call under the rules, and says so."""
    kind, text, where = _OPTIONS[choice]
    return choice, kind, f"{text}: all calls under {request.named_rules()}, {where}" if where else text


def _arguments(text: str) -> dict[str, Any]:
    from hermes.tools.arguments import parse_arguments

    try:
        return parse_arguments(text)
    except ValueError:
        return {}


# -- content of prompts ------------------------------------------------------------------------------------------------


def _user_message(blocks: object) -> Message:
    """The text of the blocks, or text and images. ``RpcError`` for what cannot be sent."""
    if not isinstance(blocks, list) or not blocks:
        raise RpcError(INVALID_PARAMS, "prompt is not a list of content blocks")
    texts: list[str] = []
    images: list[dict[str, Any]] = []
    for block in cast("list[Any]", blocks):
        if not isinstance(block, dict):
            raise RpcError(INVALID_PARAMS, "a content block is not an object")
        fields = cast("dict[str, Any]", block)
        if fields.get("type") == "image":
            images.append(_image(fields))
        else:
            texts.append(_text(fields))
    text = "\n\n".join(filter(None, texts)).strip() if len(texts) > 1 else "".join(texts)
    if not text.strip() and not images:
        raise RpcError(INVALID_PARAMS, "the prompt is empty")
    return [{"type": "text", "text": text}, *images] if images else text


def _text(block: dict[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "resource_link":
        return f"[{block.get('name') or 'file'}]({_place(str(block.get('uri') or ''))})"
    if kind == "resource":
        resource = fields_of(block.get("resource"))
        place, text = _place(str(resource.get("uri") or "")), resource.get("text")
        if not isinstance(text, str):
            return f"[{place}] (a binary file)"
        return f'<file path="{place}">\n{text}\n</file>'
    raise RpcError(INVALID_PARAMS, f"content of type {kind!r} is not supported; text, images and files are")


def _place(uri: str) -> str:
    """A path for a file of this machine, so that tools can open it."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise RpcError(INVALID_PARAMS, f"the uri {uri[:200]!r} is not valid") from None
    return unquote(parts.path) if parts.scheme == "file" else uri


def _image(block: dict[str, Any]) -> dict[str, Any]:
    try:
        data = base64.b64decode(str(block.get("data") or ""), validate=True)
    except (binascii.Error, ValueError):
        raise RpcError(INVALID_PARAMS, "the data of an image is not base64") from None
    kind = image_type(data)
    if kind is None or len(data) > MAX_IMAGE_BYTES:
        raise RpcError(INVALID_PARAMS, f"an image must be PNG, JPEG, GIF or WebP of at most {MAX_IMAGE_BYTES:,} bytes")
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{base64.b64encode(data).decode()}"}}
