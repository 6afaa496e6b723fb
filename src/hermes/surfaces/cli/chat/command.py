"""``hermes chat``: answers one message, or opens the interactive prompt."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from hermes.agent.events import Listener, TurnResult, ignore_events
from hermes.base.config import Config, LoadedConfig, apply_env, load_config, load_env_file
from hermes.base.config.schema.modes import MODES
from hermes.base.errors import HermesError
from hermes.base.sanitize import Redactor
from hermes.base.scope import Interrupt
from hermes.base.version import __version__
from hermes.contract.events import TurnEvent
from hermes.host import Host, HostOptions
from hermes.journal.turns.recovery import GIVEN_UP
from hermes.models.local.endpoint import is_embedded
from hermes.surfaces.cli import failures, open_home
from hermes.surfaces.cli.arguments import (
    MODEL,
    VERBOSE,
    Argument,
    CommandSpec,
    OneOf,
    flag,
    positive_number,
    repeatable,
)
from hermes.surfaces.cli.chat.message import read_message
from hermes.surfaces.cli.chat.output import JsonOutput, Output, QuietOutput, StreamJsonOutput, TextOutput, reserved
from hermes.surfaces.cli.terminal import (
    can_draw,
    can_prompt,
    is_interactive,
    one_line,
    plain,
    print_error,
    print_note,
    print_warnings,
    say_about_sandbox,
)

if TYPE_CHECKING:
    from hermes.agent.session import Session
    from hermes.base.config.schema.sections import DisplayConfig
    from hermes.plugins.shell_hooks.consent import ConsentAnswer, ConsentQuestion
    from hermes.surfaces.cli.repl.questions import OneShotQuestions
    from hermes.surfaces.commands.surface import UserMessage
    from hermes.surfaces.embedding.output import OutputFormat


#: The value of ``--resume`` without an id.
CHOOSE = "?"


def run_chat(args: argparse.Namespace) -> int:
    home, redactor, loaded = open_home(verbose=args.verbose, ignore_user=args.ignore_user_config)
    message = read_message(args)
    output_format = _output_format(args, message)
    follows_turn = args.on_workers and (args.continue_last or args.resume not in (None, CHOOSE))
    at_prompt = message is None and not follows_turn and _wants_prompt(args)
    if not at_prompt:
        _check_one_shot(args, message)
    if args.on_workers:
        _check_remote(args, message, loaded.config, at_prompt=at_prompt)
    if not _is_for_programs(args):
        print_warnings(loaded.warnings, redactor.redact)
    display = None if at_prompt else loaded.config.display
    with _own_stdout(args, redactor, display) as output, _host(home, loaded, args, redactor) as host:
        try:
            if at_prompt:
                return _talk(host, args)
            run = _OneShotRun(host, args, message, output)
            return run.answer_on_workers() if args.on_workers else run.answer(output_format)
        except SystemExit as end:
            raise HermesError(f"a plugin ended the program (sys.exit({end.code!r}))") from end


def _check_one_shot(args: argparse.Namespace, message: UserMessage | None) -> None:
    """A run without a prompt needs a message, or a session to finish."""
    if args.resume == CHOOSE:
        raise HermesError(
            "--resume needs the id of a session here ('hermes sessions list' shows them); -c takes the last"
        )
    if message is None and not (args.resume or args.continue_last):
        raise HermesError(failures.NO_MESSAGE)


def _host(home: Path, loaded: LoadedConfig, args: argparse.Namespace, redactor: Redactor) -> Host:
    """The host. Without a model, and at a terminal, the first-run setup offers some."""
    host = Host(home, _config(loaded, args), _options(args), redactor=redactor)
    if _is_for_programs(args) or args.ignore_user_config or not can_prompt():
        return host
    if host.models.is_set_up(args.provider, args.model):
        return host
    host.close()
    from hermes.surfaces.cli.setup.model.show import set_up

    if not set_up(home):
        sys.exit(failures.EXIT_FAILED)
    apply_env(load_env_file(home))
    loaded = load_config(home)
    return Host(home, _config(loaded, args), _options(args), redactor=redactor)


def _config(loaded: LoadedConfig, args: argparse.Namespace) -> Config:
    """The configuration, with the instructions of this run."""
    if args.system is None:
        return loaded.config
    text: str = args.system
    if text.startswith("@"):
        try:
            text = Path(text[1:]).expanduser().read_text("utf-8")
        except (OSError, ValueError) as error:
            raise HermesError(f"--system {text}: {getattr(error, 'strerror', None) or 'not a text file'}") from None
    agent = replace(loaded.config.agent, system_prompt=text)
    return replace(loaded.config, agent=agent)


def _output_format(args: argparse.Namespace, message: UserMessage | None) -> OutputFormat | None:
    """The format of ``--output-schema``, if given."""
    if args.output_schema is None:
        return None
    from hermes.surfaces.embedding.output import OutputFormat

    where = f"--output-schema {args.output_schema}"
    if message is None:
        raise HermesError(f"{where}: needs a message; it is not for the prompt")
    try:
        schema = msgspec.json.decode(Path(args.output_schema).read_bytes(), type=dict[str, Any])
        return OutputFormat(schema)
    except OSError as error:
        raise HermesError(f"{where}: {error.strerror}") from None
    except (ValueError, TypeError) as error:  # not JSON, or not a schema
        raise HermesError(f"{where}: not a JSON schema: {error}") from None


def _is_for_programs(args: argparse.Namespace) -> bool:
    return args.quiet or args.json or args.stream_json or args.output_schema is not None


def _wants_prompt(args: argparse.Namespace) -> bool:
    """Whether a run without a message is interactive, rather than finishing one turn."""
    if _is_for_programs(args):
        return False
    return is_interactive() or not (args.resume or args.continue_last)


def _talk(host: Host, args: argparse.Namespace) -> int:
    """Run the interactive prompt."""
    from hermes.surfaces.cli.repl.app import run_repl

    notices = () if args.verbose else host.notices
    return run_repl(host, lambda: _session(host, args), notices=notices, chooses_session=args.resume == CHOOSE)


#: What workers do not learn of a run: their configuration decides.
_NOT_FOR_WORKERS = (
    "system toolsets allowed_tools max_turns plugin mode yolo accept_hooks ignore_user_config output_schema"
).split()


def _check_remote(args: argparse.Namespace, message: UserMessage | None, config: Config, *, at_prompt: bool) -> None:
    """Refuse a run on workers that would not be what was asked for."""
    if not config.journal.url:
        raise HermesError("--on-workers: there are none, because journal.url is not set (docs/cluster.md)")
    if at_prompt:
        raise HermesError(
            "--on-workers: needs a message, or the id of a session whose turn is still open (--resume ID); "
            "at the prompt, turns run in this process"
        )
    if isinstance(message, str) and message.startswith("/"):
        raise HermesError("--on-workers: slash commands run in this process; leave the option out")
    given = [f"--{name.replace('_', '-')}" for name in _NOT_FOR_WORKERS if getattr(args, name)]
    if given:
        raise HermesError(f"--on-workers: the configuration of the workers decides, not {', '.join(given)}")


def _session(host: Host, args: argparse.Namespace) -> Session:
    if args.resume and args.resume != CHOOSE:
        return host.resume_session(args.resume)
    return host.latest_session() if args.continue_last else host.new_session()


class _OneShotRun:
    """One message for a model, or one command, and the exit code that follows from it."""

    def __init__(self, host: Host, args: argparse.Namespace, message: UserMessage | None, output: Output) -> None:
        self._host = host
        self._args = args
        self._message = message
        self._output = output
        self._interrupt = Interrupt()
        self._session: Session | None = None

    def answer(self, output_format: OutputFormat | None) -> int:
        """Run a slash command, or send the message to the model; a command may also return a message for the model."""
        host, output = self._host, self._output
        with failures.cancelled_by_signals(self._interrupt):
            if isinstance(self._message, str) and self._message.startswith("/"):
                code = self._run_command(self._message)
                if code is not None:
                    return code
            session = self._session or _session(host, self._args)
            if session.messages() and host.approvals.modes.chosen(session.id) and not self._args.quiet:
                from hermes.surfaces.commands.handlers.settings import mode_notice

                print(mode_notice(host.approvals, session), file=sys.stderr)
            questions = _questions(host, output)
            if questions is not None:
                host.responders.attach(session.id, questions)
            if isinstance(output, TextOutput):
                output.cwd, output.declaration = session.cwd, host.tools.declaration
                if is_embedded(session.models.endpoints[0]):
                    output.activity = "starting the embedded model"
            result = self._run_turn(session, output_format)
        return self._end(result)

    def answer_on_workers(self) -> int:
        """Submit the message to workers and follow its turn."""
        from hermes.surfaces.cli.chat.on_workers import WorkerRun

        host, args, output = self._host, self._args, self._output
        wanted = host.sessions.to_continue(str(host.cwd)) if args.continue_last else args.resume or ""
        with failures.cancelled_by_signals(self._interrupt), WorkerRun(host, _questions(host, output)) as run:
            if self._message is None:
                run.take_up(wanted, self._listener())
            else:
                run.submit(self._message, wanted, self._listener(), can_withdraw=_can_withdraw(output))
            output.begin(run.session_id)
            result = run.result(self._interrupt)
        return self._end(result)

    def _run_command(self, line: str) -> int | None:
        """The exit code of the command; None when the command, or a line that is none, is a message for the model."""
        from hermes.surfaces.commands.conversation import Conversation
        from hermes.surfaces.commands.dispatch import is_command, run_command
        from hermes.surfaces.commands.surface import OneShotSurface

        host = self._host
        if not is_command(host, line):
            return None
        surface = OneShotSurface(self._interrupt)
        conversation = Conversation(host, None, surface, opened=lambda: _session(host, self._args))
        host.services.take_message = surface.take
        try:
            answer = run_command(conversation, line)
        finally:
            host.services.take_message = None
        if answer.text:
            print(plain(answer.text), file=self._output.stdout, flush=True)
        if answer.error:
            print_error(one_line(host.redactor.redact(answer.error)))
        if surface.to_run is not None:
            self._message, self._session = surface.to_run, conversation.session
            return None
        if not answer.error:
            return 0
        return self._interrupted_code() if self._interrupt.cancelled else failures.EXIT_FAILED

    def _run_turn(self, session: Session, output_format: OutputFormat | None) -> TurnResult:
        def begin() -> None:
            """Name the session, once its message is stored, and then say what is wrong with the setup."""
            session.when_accepted = None
            if begins:
                self._output.begin(session.id)
            print_warnings(notices, str)
            if not _is_for_programs(self._args):
                say_about_sandbox(self._host.confinements, print_note)

        notices = [] if self._args.verbose else list(self._host.notices)  # --verbose shows the log, which has them too
        instructions = session.instructions
        # Reading the files makes the notices; a file that is not read makes one, too.
        if instructions is not None and (instructions.files or instructions.notices):
            notices += instructions.notices
        listener, interrupt, begins = self._listener(), self._interrupt, True
        session.when_accepted = begin
        session.can_withdraw_text = _can_withdraw(self._output)
        try:
            if self._message is not None and output_format is not None:
                from hermes.surfaces.embedding.output import run_structured

                result = run_structured(session, self._message, output_format, listener=listener, interrupt=interrupt)
                if result.status == "completed":  # the document alone, without the words or the fence around it
                    result = replace(result, answer=msgspec.json.encode(result.output).decode())
            elif self._message is not None:
                result = session.run(self._message, listener=listener, interrupt=interrupt)
            else:
                result = session.finish_open_turn(listener=listener, interrupt=interrupt) or session.last_result()
        except BaseException:
            begins = False
            raise
        finally:
            if session.when_accepted is not None:
                begin()
        if listener is ignore_events:
            _report_fallback(session, result)
        return result

    def _listener(self) -> Listener:
        """Shows events, and stops the turn when the output is closed."""
        if isinstance(self._output, QuietOutput | JsonOutput):
            return ignore_events

        def listen(event: TurnEvent) -> None:
            try:
                self._output.event(event)
            except OSError as error:
                self._interrupt.cancel(f"{failures.OUTPUT_LOST} ({error.strerror})")

        return listen

    def _end(self, result: TurnResult) -> int:
        """Show the end of the turn; the exit code."""
        self._output.end(result)
        error, interrupt = one_line(self._host.redactor.redact(result.error or "")), self._interrupt
        match result.status:
            case "completed":
                return 0
            case "incomplete":
                print_note(f"Incomplete: {error or result.finish_reason}")
                return failures.EXIT_BUDGET if result.finish_reason == "budget" else failures.EXIT_INCOMPLETE
            case "interrupted" if interrupt.reason.startswith(failures.OUTPUT_LOST):
                return failures.EXIT_OUTPUT_CLOSED
            case "interrupted" if error.startswith(GIVEN_UP):
                print_note(f"The last turn was {error}. Send a message with --query.")
                return failures.EXIT_INTERRUPTED
            case "interrupted":
                print(f"Interrupted. Continue with: hermes chat --resume {result.session_id}", file=sys.stderr)
                return self._interrupted_code()
            case _:
                print_error(error or "the turn failed")
                return failures.EXIT_FAILED

    def _interrupted_code(self) -> int:
        return failures.EXIT_TERMINATED if self._interrupt.reason == "terminated" else failures.EXIT_INTERRUPTED


def _questions(host: Host, output: Output) -> OneShotQuestions | None:
    """Shows questions on stderr and reads the answers from stdin, where there is someone to answer."""
    if not isinstance(output, TextOutput) or not can_prompt():
        return None
    from hermes.journal.questions import Questions
    from hermes.surfaces.cli.repl.questions import OneShotQuestions

    stored = Questions(host.store)
    questions = OneShotQuestions(output.pause, lambda approval_id: bool(stored.settled([approval_id])))
    output.is_asking = lambda: questions.current is not None
    return questions


def _can_withdraw(output: Output) -> bool:
    """Whether the output can show that text which it has shown does not count."""
    return not isinstance(output, TextOutput) or output.can_withdraw


def _report_fallback(session: Session, result: TurnResult) -> None:
    """Report on stderr that a fallback answered, for outputs that show no events."""
    first = session.models.endpoints[0]
    health = session.models.source.health
    reason = health.failure(first) if health is not None else None
    if result.status in ("completed", "incomplete") and reason is not None:
        from hermes.models.failures import describe

        why = f"{first.model} ({first.provider}) failed: {describe(reason, first.model)}"
        print(one_line(f"{why}; {result.model} ({result.provider}) answered"), file=sys.stderr, flush=True)


def _options(args: argparse.Namespace) -> HostOptions:
    return HostOptions(
        provider=args.provider,
        model=args.model,
        toolsets=args.toolsets or None,
        allowed_tools=args.allowed_tools or None,
        max_turns=args.max_turns,
        plugins=args.plugin,
        use_enabled_plugins=not args.ignore_user_config,
        allow_everything=args.yolo,
        permission_mode=args.mode,
        accept_hooks=args.accept_hooks,
        ask_consent=_ask_consent,
        unattended=_is_for_programs(args) or not can_prompt(),
        hide_memory=True,
    )


def _ask_consent(question: ConsentQuestion) -> ConsentAnswer | None:
    from hermes.surfaces.cli.extend.hooks import ask_at_terminal  # rarely needed

    return ask_at_terminal(question)


@contextlib.contextmanager
def _own_stdout(args: argparse.Namespace, redactor: Redactor, display: DisplayConfig | None) -> Generator[Output]:
    """The output in the chosen style. When stdout is for programs, output of plugins goes to stderr.

    Without ``display`` nothing is drawn: the prompt does that itself.
    """
    stdout = sys.stdout
    if not _is_for_programs(args):
        if display is None or args.verbose or not can_draw("stdout", "stderr"):
            yield TextOutput(stdout, redactor, raw=args.raw)
            return
        from hermes.surfaces.cli.chat.terminal_output import TerminalOutput

        drawn = TerminalOutput(stdout, redactor, display)
        try:
            yield drawn
        finally:
            drawn.close()
        return
    sys.stdout = sys.stderr
    try:
        with reserved(stdout) as stream:
            if args.json or args.stream_json:
                yield JsonOutput(stream, redactor) if args.json else StreamJsonOutput(stream, redactor)
            else:
                yield QuietOutput(stream, raw=args.raw)
    finally:
        sys.stdout = stdout


def _not_empty(text: str) -> str:
    # An unset variable in a script must not silently mean something else.
    if not text.strip():
        raise argparse.ArgumentTypeError("empty value")
    return text


def _names(text: str) -> list[str]:
    return [name.strip() for name in _not_empty(text).split(",") if name.strip()]


_QUERY = "the message as an option; '-' reads it from stdin, otherwise piped text is added to it"
_RESUME = "continue that session, or choose one at a prompt; without a message and a terminal, finish its last turn"
_MODE = "what runs without asking; docs/approvals.md explains the modes (default: approvals.permission_mode)"
_SYSTEM = "instructions for this run instead of agent.system_prompt; @FILE reads a file"
_TOOLSETS = "toolsets to enable, separated by commas"
_TOOLS = "offer only these tools; 'read_*' is a pattern"
_ISOLATED = "use only built-in settings, and only plugins given with --plugin"

COMMAND = CommandSpec(
    run=run_chat,
    arguments=(
        Argument("message TEXT", "the message; without one, an interactive prompt", nargs="*"),
        Argument("-q, --query, -p, --prompt TEXT", _QUERY),
        Argument("--system TEXT", _SYSTEM),
        repeatable("--image PATH", "attach an image (repeatable)"),
        *MODEL,
        Argument("-t, --toolsets A,B", _TOOLSETS, type=_names, default=[]),
        Argument("--allowed-tools A,B", _TOOLS, type=_names, default=[]),
        Argument("--max-turns N", "maximum number of model calls for this message", type=positive_number),
        OneOf(
            Argument("--resume ID", _RESUME, nargs="?", const=CHOOSE, type=_not_empty),
            flag("-c, --continue", "continue the last session", dest="continue_last"),
        ),
        repeatable("--plugin KEY", "also load this plugin (repeatable)"),
        flag("--on-workers", "have a worker of the cluster run it, in this folder on its machine"),
        OneOf(
            Argument("--mode", _MODE, choices=tuple(MODES)),
            flag("--yolo", "skip all approval questions; the same as --mode yolo"),
        ),
        flag("--accept-hooks", "run the configured hook commands without asking"),
        flag("--ignore-user-config, --ignore_user_config", _ISOLATED),
        OneOf(
            flag("-Q, --quiet", "print only the answer"),
            flag("--json", "print one JSON document when done"),
            flag("--stream-json", "print events as JSON lines as they happen"),
        ),
        flag("--raw", "keep escape sequences in the answer when it goes to a pipe or a file"),
        Argument("--output-schema FILE", "the answer is JSON that fits the JSON schema in FILE"),
        VERBOSE,
        Argument("-V, --version", "print the version and exit", action="version", version=f"hermes {__version__}"),
    ),
    epilog=(
        "Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 budget used up, 4 answer incomplete, 130 interrupted, "
        "141 output closed, 143 terminated. "
        "Example: hermes 'What is in this folder?' --toolsets file"
    ),
)
