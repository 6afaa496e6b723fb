"""Tool definition, call context and limits, and the registry of a host's tools."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec

from hermes.base.config.schema.sections import Config
from hermes.base.errors import PluginError
from hermes.base.scope import Interrupt, Scope
from hermes.tools.declarations.declaration import UNDECLARED, Declaration, declaration_problem
from hermes.tools.sandbox.confinement import Confinements

if TYPE_CHECKING:
    from hermes.tools.files.guard import FileGuard
    from hermes.tools.sandbox.workspace.undone import UndoneChange
    from hermes.tools.terminal.background import ProcessTable

#: Whether an interrupted tool may run again. Undeclared means ``unsafe``.
Effect = Literal["pure", "idempotent", "resumable", "unsafe"]

Args = dict[str, Any]

#: How long the result of a tool's availability check is cached, in seconds.
_AVAILABILITY_HOLDS = 30.0


class ToolLimits(msgspec.Struct, frozen=True):
    """Limits on the duration of a command and the size of a result."""

    terminal_timeout: int = 180
    max_foreground_timeout: int = 600
    max_output_chars: int = 50_000
    max_line_length: int = 2_000
    max_read_chars: int = 100_000
    max_read_lines: int = 2_000

    @classmethod
    def of(cls, config: Config) -> ToolLimits:
        """The limits of a configuration."""
        return cls(
            terminal_timeout=config.terminal.timeout,
            max_foreground_timeout=config.terminal.max_foreground_timeout,
            max_output_chars=config.tool_output.max_bytes,
            max_line_length=config.tool_output.max_line_length,
            max_read_chars=config.file_read_max_chars,
            max_read_lines=config.tool_output.max_lines,
        )


class CommandExchange(msgspec.Struct):
    """What the pipeline and a tool that runs commands tell each other."""

    #: The call was let through because it only reads: its command is held to that, where the machine can do it.
    only_reads: bool = False
    #: The working directory that a plugin gave the call; empty when the model chose it. The command may change it.
    plugins_folder: str = ""
    #: The ``transform_terminal_output`` hook, if it has subscribers: (command, output, returncode) -> output.
    transform: Callable[[str, str, int], str] | None = None
    #: Puts the claim of the call on disk. To be called before the effect begins, by a tool with ``claims_itself``; None
    #: when it is there already.
    claim: Callable[[], None] | None = None
    #: Decides about a host and a port that the command may not reach without asking; None: no one was asked. Without an
    #: interrupt, which is cancelled when the command ends, no one is.
    may_connect: Callable[[str, int, Interrupt | None], bool | None] | None = None
    #: What the command did that was undone; a user may be asked whether to keep it.
    undone: Sequence[UndoneChange] = ()


class ToolContext(msgspec.Struct):
    """The context of a tool call."""

    scope: Scope
    cwd: Path
    processes: ProcessTable
    guard: FileGuard
    limits: ToolLimits = msgspec.field(default_factory=ToolLimits)
    user_task: str = ""
    #: How the child processes of a tool are started.
    confinements: Confinements = msgspec.field(default_factory=Confinements)
    #: The call's key in the journal (``tool:n.i``); empty outside a turn.
    key: str = ""
    #: An earlier run of the call waited for an answer, in this process or another.
    is_continued: bool = False
    #: The real paths that the gate judged: files to write, and files to read that may hold credentials. ``open``
    #: refuses a path that leads elsewhere by now. None outside of the pipeline.
    checked: Collection[str] | None = None
    #: A call that this one made returned untrusted text.
    saw_untrusted: bool = False
    command: CommandExchange = msgspec.field(default_factory=CommandExchange)

    def open(self, path: object, mode: Literal["r", "rb", "w", "wb"] = "r") -> IO[Any]:
        """Open a file of the user for a tool: the only way that is checked. Text is UTF-8.

        Raises ``FileRefused``, a ValueError with a text for the model, or OSError.
        """
        from hermes.tools.files.opening import open_file

        return open_file(path, mode, self)


class Tool(msgspec.Struct, frozen=True):
    """A tool. ``run`` returns the result as a JSON string."""

    name: str
    toolset: str
    description: str
    parameters: dict[str, Any]
    run: Callable[[Args, ToolContext], str]
    effect: Effect = "unsafe"
    #: What it reads, writes, runs and sends, and how its calls are shown. A tool without one is taken for the worst.
    declares: Declaration | None = None
    #: Several calls in one message may run at the same time.
    parallel: bool = False
    #: Calls that write different files may run at the same time even when ``parallel`` is false.
    parallel_by_file: bool = False
    #: The change that a call would make, as a diff; a question about the call shows it.
    preview: Callable[[Args, ToolContext], str] | None = None
    #: Takes less than a millisecond, so a thread would cost more than it saves.
    quick: bool = False
    #: It calls ``CommandExchange.claim``, so that the start of a process takes place beside the commit.
    claims_itself: bool = False
    #: False when the tool is unavailable (a missing binary, say): it is then not offered to the model.
    available: Callable[[], bool] | None = None
    #: What it needs to be available, for people: what follows "needs".
    needs: str = ""
    #: Ends what a call left open that waited for an answer, when its turn is stopped instead of continued.
    stop: Callable[[Args, ToolContext], None] | None = None
    emoji: str = ""
    plugin: str = ""
    #: The result is untrusted text (a web page, another agent, the server of a tool). Its message to the model is
    #: put between ``<untrusted ID>`` and ``</untrusted ID>``, in one place for every tool: ``ToolCall.message``.
    #: A tool returns its plain result and adds no mark of its own. A function decides by the arguments of a call.
    untrusted: bool | Callable[[Args, ToolContext], bool] = False

    @property
    def may_run_commands(self) -> bool:
        """Whether it runs command lines, as far as it says."""
        return self.effect != "pure" if self.declares is None else self.declares.runs_commands

    def definition(self) -> dict[str, Any]:
        """The definition for the model."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


class ToolRegistry:
    """The tools of one host by name, and the toolsets that group them."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._checked: dict[str, tuple[Callable[[], bool], float, bool]] = {}
        #: Toolsets that exist even while they have no tools, with another name for each.
        self.declared: dict[str, str] = {}
        #: Called before the tools of a turn are fixed: tools that are still being looked up may join it.
        self.settle: Callable[[], None] | None = None
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool, *, override: bool = False) -> None:
        """Register a tool. Raises PluginError when the name is taken, unless it may be replaced."""
        existing = self._tools.get(tool.name)
        if existing is not None and not override:
            owner = f"plugin {existing.plugin!r}" if existing.plugin else "the runtime"
            way_out = "or register it with override=True" if tool.plugin else "(a function: hermes.tool(name=...))"
            raise PluginError(f"tool {tool.name!r} is already registered by {owner}; choose another name {way_out}")
        self._tools[tool.name] = tool

    def add_builtin(self, tools: Iterable[Tool]) -> None:
        """Register tools that ship with Hermes. Raises PluginError for one that does not say what it does."""
        for tool in tools:
            problem = declaration_problem(tool.declares, tool.parameters)
            if problem is not None:
                raise PluginError(f"the built-in tool {tool.name!r} cannot be registered: {problem}")
            self.add(tool)

    def remove(self, name: str) -> None:
        """Remove a tool, if it exists."""
        self._tools.pop(name, None)

    def declare_toolset(self, name: str, *, alias: str) -> None:
        """Make a toolset known before its tools are."""
        self.declared = {**self.declared, name: alias}

    def forget_toolset(self, name: str) -> None:
        """Undo ``declare_toolset``."""
        self.declared = {known: alias for known, alias in self.declared.items() if known != name}

    def replace_toolset(self, toolset: str, tools: Iterable[Tool]) -> list[str]:
        """Replace the tools of a toolset in one step, while other threads read. Returns the names that were taken."""
        kept = {name: tool for name, tool in self._tools.items() if tool.toolset != toolset}
        added = {tool.name: tool for tool in tools}
        self._tools = {**added, **kept}
        return sorted(added.keys() & kept.keys())

    def get(self, name: str) -> Tool | None:
        """The tool with that name, if there is one."""
        return self._tools.get(name)

    def declaration(self, name: str) -> Declaration:
        """What the tool with that name declares, to show its calls."""
        tool = self._tools.get(name)
        return UNDECLARED if tool is None or tool.declares is None else tool.declares

    def all(self) -> Mapping[str, Tool]:
        """Every tool by name."""
        return self._tools

    def is_available(self, tool: Tool) -> bool:
        """Whether the tool is available. Its own check is cached for half a minute; a failing check is a no."""
        if tool.available is None:
            return True
        now = time.monotonic()
        check, asked_at, answer = self._checked.get(tool.name, (None, 0.0, False))
        if check is tool.available and now - asked_at < _AVAILABILITY_HOLDS:
            return answer
        try:
            answer = bool(tool.available())
        except Exception:
            answer = False
        self._checked[tool.name] = (tool.available, now, answer)
        return answer
