"""A surface that records what commands ask of it."""

from __future__ import annotations

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.agent.session import Session
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.dispatch import run_command
from hermes.surfaces.commands.surface import TerminalScreen, UserMessage


class RecordingSurface:
    """A prompt without a terminal. Turns run at once, in the session that the conversation is in."""

    def __init__(self) -> None:
        self.is_live = True
        self.is_working = False
        self.screen: TerminalScreen | None = None
        self.show_reasoning = False
        #: What the person says when asked for a yes.
        self.says_yes = True
        #: Whether they answer at all, and do not type something else.
        self.answers_questions = True
        self.questions: list[str] = []
        self.asked: list[UserMessage] = []
        self.waiting: list[str] = []
        self.steered: list[str] = []
        self.stopped: list[str] = []
        self.approval: ApprovalRequest | None = None
        self.answers: list[ApprovalAnswer] = []
        self.cleared = self.left = 0
        self.ctrl_c = Interrupt()
        self.conversation: Conversation | None = None

    @property
    def queued(self) -> int:
        return len(self.waiting)

    def run(self, message: UserMessage) -> None:
        self.asked.append(message)
        if self.conversation is not None:
            self.conversation.session.run(message)

    def queue(self, text: str) -> None:
        self.waiting.append(text)

    def steer(self, text: str) -> bool:
        if self.is_working:
            self.steered.append(text)
        return self.is_working

    def stop(self, reason: str) -> None:
        self.stopped.append(reason)

    def interrupt(self) -> Interrupt:
        return self.ctrl_c

    def pending_approval(self) -> ApprovalRequest | None:
        return self.approval

    def answer_approval(self, answer: ApprovalAnswer) -> None:
        self.answers.append(answer)

    def confirm(self, question: str) -> bool:
        self.questions.append(question)
        return self.says_yes

    def decide(self, question: str) -> bool | None:
        self.questions.append(question)
        return self.says_yes if self.answers_questions else None

    def clear_screen(self) -> None:
        self.cleared += 1

    def quit(self) -> None:
        self.left += 1


class Prompt:
    """A person at a recording surface."""

    def __init__(self, host: Host, session: Session | None = None) -> None:
        self.host = host
        self.surface = RecordingSurface()
        self.conversation = Conversation(host, session or host.new_session(), self.surface)
        self.surface.conversation = self.conversation

    @property
    def session(self) -> Session:
        return self.conversation.session

    def type(self, line: str) -> str:
        """Run a command that is expected to work."""
        answer = run_command(self.conversation, line)
        assert answer.error == "", answer.error
        return answer.text

    def refused(self, line: str) -> str:
        """Run a command that is expected to be refused."""
        answer = run_command(self.conversation, line)
        assert answer.text == "", answer.text
        return answer.error
