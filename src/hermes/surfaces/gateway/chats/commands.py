"""Slash commands by message: the runtime's and the plugins' commands in a chat, and answers to approvals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hermes.agent.session import Session
from hermes.base.errors import HermesError, SessionNotFound
from hermes.base.scope import Interrupt
from hermes.contract.commands import BEGIN_ANEW, OWN_PREFIX, TERMINAL_COMMANDS, SlashCommand
from hermes.host import Host
from hermes.journal.questions import OWNER, QuestionRow
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.dispatch import is_command, run_command
from hermes.surfaces.commands.surface import Surface, UserMessage
from hermes.surfaces.gateway.access import conversation_principal, workspace_of
from hermes.surfaces.gateway.adapter import MessageEvent
from hermes.surfaces.gateway.chats.questions import SURFACE, read_decision, short_id

if TYPE_CHECKING:
    from hermes.agent.approvals.responder import ApprovalAnswer
    from hermes.surfaces.gateway.chats.chat import GatewayChat
    from hermes.surfaces.gateway.chats.work import ChatServices, ChatWork
    from hermes.surfaces.gateway.store.inbox import ChatRow

#: Commands that every user has. All others are the owner's, unless ``services.user_commands`` names them.
USER_COMMANDS = frozenset(
    {"help", "new", "reset", "stop", "status", "usage", "budget", "history", "retry", "compress", "compact", "title"}
    | {"queue", "steer", "todo", "approve", "deny"}
)
_DECISIONS = frozenset({"approve", "deny"})
_MAX_LISTED, _MAX_ID_CHARS = 5, 40
_BY_COMMAND = "stopped by a command"


def is_for_commands(host: Host, event: MessageEvent) -> bool:
    """Whether a message is a slash command."""
    text = event.text or ""
    return text.lstrip().startswith("/") and event.get_command() is not None and is_command(host, _line(event))


def _line(event: MessageEvent) -> str:
    """The command without the name of the bot, which some platforms add: ``/new@bot``."""
    return f"/{event.get_command()} {event.get_command_args()}".strip()


async def run_chat_command(services: ChatServices, chat: GatewayChat, work: ChatWork) -> list[str]:
    """Run the command of a message; what is to be sent."""
    name = work.event.get_command() or ""
    plain = name.removeprefix(OWN_PREFIX)
    if not _may_use(services, work, name):
        return [f"/{name} is for the owner of this agent."]
    if plain in _DECISIONS:
        return [await services.blocking(_decide, services, chat, work, plain)]
    if plain == "stop":
        return ["Stopped." if await chat.stop(_BY_COMMAND) else "The agent is not working."]
    if plain in BEGIN_ANEW:
        await chat.clear(_BY_COMMAND)
    surface = ChatSurface(services, chat)
    text = await services.blocking(_run, services, chat, work, surface)
    for message in surface.to_run:
        text = message if isinstance(message, str) else _text_of(message)
        made = await services.blocking(services.accept_text, work, text)
        if made is not None:
            chat.put(made)
    return [text] if text else []


def _may_use(services: ChatServices, work: ChatWork, name: str) -> bool:
    opened = {one.lstrip("/").lower() for one in services.config.user_commands}
    return work.sender.role == "owner" or name in USER_COMMANDS | opened


def _run(services: ChatServices, chat: GatewayChat, work: ChatWork, surface: ChatSurface) -> str:
    row = chat.row
    conversation = ChatConversation(services.host, surface, row, lambda name: _may_use(services, work, name))
    answer = run_command(conversation, _line(work.event))
    if conversation.session_id and conversation.session_id != row.session_id:
        services.change_session(row, conversation.session_id)
    return answer.text or (f"Error: {answer.error}" if answer.error else "")


# -- approvals -------------------------------------------------------------------------------------------------------


def _decide(services: ChatServices, chat: GatewayChat, work: ChatWork, command: str) -> str:
    """Answer the approval that waits here, or the one that is named."""
    if not work.sender.may_approve:
        return "Only the owner of this agent, or someone whom the owner gave that right, may answer approvals."
    arguments = work.event.get_command_args()
    named, choice, reason = read_decision(command, arguments)
    if not choice:
        waiting = _waiting_text(_waiting(services, chat, work))
        return (
            f"No approval {arguments.split()[0][:_MAX_ID_CHARS]} waits. {waiting}\n"
            "Answer /approve, /approve session, /approve always or /deny, with the id behind the command where it is "
            "about another chat."
        )
    is_owner = work.sender.role == "owner"
    if choice == "always" and not is_owner:
        return "Only the owner of this agent may approve for good. Answer /approve or /approve session."
    if choice == "session" and not is_owner and _is_shared(services, work):
        # It would count for the messages of everyone in the chat.
        return "Only the owner of this agent may approve for the session of a chat that others share. Answer /approve."
    question = _question_for(services, chat, work, named)
    if isinstance(question, str):
        return question
    why = f"{reason} (by {work.sender.name} on {work.sender.platform})".strip()
    answered = services.turns.questions.stored.answer(question.id, choice, why, by=work.sender.principal or OWNER)
    if answered.answer != choice:
        return f"It was answered already: {answered.answer}."
    return "Denied." if choice == "deny" else "Approved."


def _is_shared(services: ChatServices, work: ChatWork) -> bool:
    return conversation_principal(services.config, work.source, work.sender) != work.sender.principal


def _question_for(services: ChatServices, chat: GatewayChat, work: ChatWork, named: str) -> QuestionRow | str:
    """The approval that is meant: that of this chat unless another is named. An approver has only the own messages."""
    is_owner, waiting = work.sender.role == "owner", _waiting(services, chat, work)
    asking = chat.current.sender if chat.current is not None else None
    if waiting and not is_owner and (asking is None or asking.principal != work.sender.principal):
        return "Only the owner of this agent may answer this approval: it is about a message of another user."
    if named:
        found = [one for one in waiting if short_id(one.id).startswith(named)]
        return found[0] if len(found) == 1 else f"No approval {named} waits. {_waiting_text(waiting)}"
    here = chat.question
    if here is not None and here.kind == "approval" and here.surface in _surfaces(is_owner):
        return here
    if waiting:
        # An answer without an id could be meant for a question that has just been answered, or timed out.
        return f"No approval of this chat waits. {_waiting_text(waiting)}\nName one: /approve ID or /deny ID."
    return "No approval waits."


def _waiting(services: ChatServices, chat: GatewayChat, work: ChatWork) -> list[QuestionRow]:
    """The approvals that the sender may know of: for the owner all, for an approver those of this chat."""
    is_owner = work.sender.role == "owner"
    return [
        one
        for one in services.turns.questions.stored.pending(kind="approval")
        if one.surface in _surfaces(is_owner) and (is_owner or one.session_id == chat.row.session_id)
    ]


def _surfaces(is_owner: bool) -> tuple[str, ...]:
    return (SURFACE, OWNER) if is_owner else (SURFACE,)


def _waiting_text(waiting: list[QuestionRow]) -> str:
    if not waiting:
        return "None waits."
    listed = [f"{short_id(one.id)} ({one.tool})" for one in waiting]
    return f"Waiting: {', '.join(listed[:_MAX_LISTED])}{', …' if len(listed) > _MAX_LISTED else ''}"


def _text_of(content: list[dict[str, Any]]) -> str:
    return "\n".join(str(part["text"]) for part in content if part.get("type") == "text")


# -- the surface -----------------------------------------------------------------------------------------------------


class ChatConversation(Conversation):
    """The session of a chat, as commands see it. It is opened when a command needs it."""

    def __init__(self, host: Host, surface: ChatSurface, row: ChatRow, may_use: Callable[[str], bool]) -> None:
        super().__init__(host, None, surface, opened=self._open)
        self._row = row
        self._may_use = may_use

    @property
    def session_id(self) -> str:
        """The id of the chat's session, which a command need not open."""
        return super().session_id or self._row.session_id

    @property
    def platform(self) -> str:
        """The platform that the chat is on."""
        return self._row.platform

    @property
    def surface_name(self) -> str:
        """Where commands are typed, in hooks."""
        return SURFACE

    def lists(self, command: SlashCommand) -> bool:
        """Whether the sender may use it, and it means something in a chat."""
        return command.name.removeprefix(OWN_PREFIX) not in TERMINAL_COMMANDS and self._may_use(command.name)

    def _open(self) -> Session:
        row = self._row
        try:
            return self.host.resume_session(row.session_id, platform=row.platform)
        except SessionNotFound:
            return self._new()  # no message was answered yet

    def _new(self) -> Session:
        row = self._row
        cwd = workspace_of(self.host, row.principal)
        return self.host.new_session(principal=row.principal, cwd=cwd, platform=row.platform)

    def switch_to(self, session: Session, reason: str = "session_boundary") -> None:
        """Go to another session of the same principal: everyone in the chat would have the rights of another one."""
        if session.principal != self._row.principal:
            raise HermesError(f"session {session.id} belongs to another principal and cannot be continued in this chat")
        super().switch_to(session, reason)

    def start_new(self) -> None:
        """Leave the session for a new one of the same chat, with the same models."""
        session = self._new()
        session.models = self.session.models
        self.switch_to(session, "new_session")


class ChatSurface(Surface):
    """A chat as commands see it: nothing can be drawn, and no one is asked while a command runs."""

    is_live = True

    def __init__(self, services: ChatServices, chat: GatewayChat) -> None:
        self._services = services
        self._chat = chat
        self._interrupt = Interrupt()
        #: Messages that the command wants answered.
        self.to_run: list[UserMessage] = []

    @property
    def is_working(self) -> bool:
        return self._chat.current is not None

    @property
    def queued(self) -> int:
        return max(len(self._chat) - 1, 0)

    def run(self, message: UserMessage) -> None:
        self.to_run.append(message)

    def queue(self, text: str) -> None:
        self.to_run.append(text)

    def steer(self, text: str) -> bool:
        session = self._services.host.open_sessions.get(self._chat.row.session_id)
        return session is not None and session.steer(text)

    def stop(self, reason: str) -> None:
        self._services.call_soon(lambda: self._services.spawn(self._chat.stop(reason)))

    def interrupt(self) -> Interrupt:
        return self._interrupt

    def answer_approval(self, answer: ApprovalAnswer) -> None:
        raise HermesError("approvals of a chat are answered with /approve and /deny")

    def quit(self) -> None:
        raise HermesError("a chat has no end; /new starts a new session")
