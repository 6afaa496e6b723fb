"""``hermes chat``: answers one message, or opens the interactive prompt."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator, Sequence
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
from hermes.surfaces.cli import open_home
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
from hermes.surfaces.cli.chat.signals import cancelled_by_signals
from hermes.surfaces.cli.failures import (
    EXIT_BUDGET,
    EXIT_FAILED,
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_OUTPUT_CLOSED,
    EXIT_TERMINATED,
    NO_MESSAGE,
    OUTPUT_LOST,
)
from hermes.surfaces.cli.terminal import (
    can_draw,
    can_prompt,
    is_interactive,
    one_line,
    plain,
    print_error,
    print_note,
    print_warnings,
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
            if args.on_workers:
                return _answer_on_workers(host, args, message, output)
            return _answer(host, args, message, output, output_format)
        except SystemExit as end:
            raise HermesError(f"a plugin ended the program (sys.exit({end.code!r}))") from end


def _check_one_shot(args: argparse.Namespace, message: UserMessage | None) -> None:
    """A run without a prompt needs a message, or a session to finish."""
    if args.resume == CHOOSE:
        raise HermesError(
            "--resume needs the id of a session here ('hermes sessions list' shows them); -c takes the last"
        )
    if message is None and not (args.resume or args.continue_last):
        raise HermesError(NO_MESSAGE)


def _host(home: Path, loaded: LoadedConfig, args: argparse.Namespace, redactor: Redactor) -> Host:
    """The host. Without a model, and at a terminal, the first-run setup offers some."""
    host = Host(home, _config(loaded, args), _options(args), redactor=redactor)
    if _is_for_programs(args) or args.ignore_user_config or not can_prompt():
        return host
    if host.models.is_set_up(args.provider, args.model):
        return host
    host.close()
    from hermes.surfaces.cli.chat.first_run import set_up

    if not set_up(home):
        sys.exit(EXIT_FAILED)
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
    agent = msgspec.structs.replace(loaded.config.agent, system_prompt=text)
    return msgspec.structs.replace(loaded.config, agent=agent)


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


def _answer(
    host: Host,
    args: argparse.Namespace,
    message: UserMessage | None,
    output: Output,
    output_format: OutputFormat | None,
) -> int:
    """Run a slash command, or send the message to the model; a command may also return a message for the model."""
    interrupt = Interrupt()
    session: Session | None = None
    with cancelled_by_signals(interrupt):
        if isinstance(message, str) and message.startswith("/"):
            from hermes.surfaces.cli.chat.slash_command import run_one_command

            outcome = run_one_command(host, message, lambda: _session(host, args), interrupt, output.stdout)
            if outcome is not None and outcome.message is None:
                return 0 if outcome.succeeded else _command_exit_code(interrupt)
            if outcome is not None:
                message, session = outcome.message, outcome.session
        session = session or _session(host, args)
        if session.messages() and host.approvals.modes.chosen(session.id) and not args.quiet:
            from hermes.surfaces.commands.handlers.settings import mode_notice

            print(mode_notice(host.approvals, session), file=sys.stderr)
        if isinstance(output, TextOutput):
            output.cwd, output.declaration = session.cwd, host.tools.declaration
        _attach_questions(host, session, output)
        host.confinements.notify = lambda line: print_note(f"Warning: {plain(line)}")
        notices = [] if args.verbose else list(host.notices)  # --verbose shows the log, which has them too
        instructions = session.instructions
        # Reading the files makes the notices; a file that is not read makes one, too.
        if instructions is not None and (instructions.files or instructions.notices):
            notices += instructions.notices
        return _converse(session, message, output, interrupt, host.redactor, notices, output_format)


#: What workers do not learn of a run: their configuration decides.
_NOT_FOR_WORKERS = (
    "system",
    "toolsets",
    "allowed_tools",
    "max_turns",
    "plugin",
    "mode",
    "yolo",
    "accept_hooks",
    "ignore_user_config",
    "output_schema",
)


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


def _answer_on_workers(host: Host, args: argparse.Namespace, message: UserMessage | None, output: Output) -> int:
    """Submit the message to workers and follow its turn."""
    from hermes.surfaces.cli.chat.on_workers import WorkerRun

    interrupt = Interrupt()
    listener = _listener(output, interrupt)
    session_id = host.sessions.to_continue(str(host.cwd)) if args.continue_last else args.resume or ""
    with cancelled_by_signals(interrupt), WorkerRun(host, _questions(host, output)) as run:
        if message is None:
            run.take_up(session_id, listener)
        else:
            run.submit(message, session_id, listener, can_withdraw=_can_withdraw(output))
        output.begin(run.session_id)
        result = run.result(interrupt)
    output.end(result)
    return _exit_code(result, interrupt, host.redactor)


def _questions(host: Host, output: Output) -> OneShotQuestions | None:
    """Shows questions on stderr and reads the answers from stdin, where there is someone to answer."""
    if not isinstance(output, TextOutput) or not can_prompt():
        return None
    from hermes.journal.questions import Questions
    from hermes.surfaces.cli.repl.questions import OneShotQuestions

    def is_answered(approval_id: str) -> bool:
        return bool(Questions(host.store).settled([approval_id]))

    questions = OneShotQuestions(output.pause, is_answered)
    output.is_asking = lambda: questions.current is not None
    return questions


def _attach_questions(host: Host, session: Session, output: Output) -> None:
    """Let the user answer questions, where there is one."""
    questions = _questions(host, output)
    if questions is not None:
        host.responders.attach(session.id, questions)
    if isinstance(output, TextOutput) and is_embedded(session.models.endpoints[0]):
        output.activity = "starting the embedded model"


def _command_exit_code(interrupt: Interrupt) -> int:
    """The exit code of a command that failed."""
    if not interrupt.cancelled:
        return EXIT_FAILED
    return EXIT_TERMINATED if interrupt.reason == "terminated" else EXIT_INTERRUPTED


def _session(host: Host, args: argparse.Namespace) -> Session:
    if args.resume and args.resume != CHOOSE:
        return host.resume_session(args.resume)
    return host.latest_session() if args.continue_last else host.new_session()


def _converse(
    session: Session,
    message: UserMessage | None,
    output: Output,
    interrupt: Interrupt,
    redactor: Redactor,
    notices: Sequence[str],
    output_format: OutputFormat | None = None,
) -> int:
    def begin() -> None:
        """Name the session, once its message is stored, and then say what is wrong with the setup."""
        session.when_accepted = None
        if begins:
            output.begin(session.id)
        for notice in notices:
            print_note(f"Warning: {plain(notice)}")

    listener, begins = _listener(output, interrupt), True
    session.when_accepted = begin
    session.can_withdraw_text = _can_withdraw(output)
    try:
        if message is not None and output_format is not None:
            from hermes.surfaces.embedding.output import run_structured

            result = run_structured(session, message, output_format, listener=listener, interrupt=interrupt)
            if result.status == "completed":  # the document alone, without the words or the fence around it
                result = replace(result, answer=msgspec.json.encode(result.output).decode())
        elif message is not None:
            result = session.run(message, listener=listener, interrupt=interrupt)
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
    output.end(result)
    return _exit_code(result, interrupt, redactor)


def _can_withdraw(output: Output) -> bool:
    """Whether the output can show that text which it has shown does not count."""
    return not isinstance(output, TextOutput) or output.can_withdraw


def _report_fallback(session: Session, result: TurnResult) -> None:
    """Report on stderr that a fallback answered, for outputs that show no events."""
    first = session.models.endpoints[0]
    reason = session.models.source.health.failure(first)
    if result.status in ("completed", "incomplete") and reason is not None:
        from hermes.models.failures import describe

        why = f"{first.model} ({first.provider}) failed: {describe(reason, first.model)}"
        print(one_line(f"{why}; {result.model} ({result.provider}) answered"), file=sys.stderr, flush=True)


def _listener(output: Output, interrupt: Interrupt) -> Listener:
    """Shows events, and stops the turn when the output is closed."""
    if isinstance(output, QuietOutput | JsonOutput):
        return ignore_events

    def listen(event: TurnEvent) -> None:
        try:
            output.event(event)
        except OSError as error:
            interrupt.cancel(f"{OUTPUT_LOST} ({error.strerror})")

    return listen


def _exit_code(result: TurnResult, interrupt: Interrupt, redactor: Redactor) -> int:
    if result.status == "completed":
        return 0
    if result.status == "incomplete":
        print_note(f"Incomplete: {one_line(redactor.redact(result.error or result.finish_reason))}")
        return EXIT_BUDGET if result.finish_reason == "budget" else EXIT_INCOMPLETE
    if result.status == "interrupted" and interrupt.reason.startswith(OUTPUT_LOST):
        return EXIT_OUTPUT_CLOSED
    if result.status == "interrupted" and (result.error or "").startswith(GIVEN_UP):
        print_note(f"The last turn was {one_line(result.error or '')}. Send a message with --query.")
        return EXIT_INTERRUPTED
    if result.status == "interrupted":
        print(f"Interrupted. Continue with: hermes chat --resume {result.session_id}", file=sys.stderr)
        return EXIT_TERMINATED if interrupt.reason == "terminated" else EXIT_INTERRUPTED
    print_error(one_line(redactor.redact(result.error or "the turn failed")))
    return EXIT_FAILED


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
    from hermes.surfaces.cli.extend.hooks.consent import ask_at_terminal  # rarely needed

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
