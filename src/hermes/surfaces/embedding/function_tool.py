"""Python functions as tools: the JSON schema comes from type hints, the descriptions from the docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ParamSpec, TypeVar, Unpack, cast, get_args, get_origin, get_type_hints, overload

import msgspec

from hermes.base.scope import Interrupt
from hermes.journal.bodies import prepare_struct
from hermes.plugins.tool_handler import TOOL_NAME
from hermes.surfaces.embedding.callbacks import settle
from hermes.surfaces.embedding.schemas import USABLE, convert, inlined, schema_hook, to_json, type_name
from hermes.tools.declarations.declaration import Declaration, DeclaredKeywords, declaration_from
from hermes.tools.registry import Args, Effect, Tool, ToolContext
from hermes.tools.results import tool_error

P = ParamSpec("P")
R = TypeVar("R")

#: The toolset that functions belong to when the decorator names none.
DEFAULT_TOOLSET = "program"

_EFFECTS = get_args(Effect)
_OPTIONS = "__hermes_tool__"
_RENAME = "hermes.tool(name=...)"
#: A parameter's description in a docstring: Google style (``name: text``, also ``name (type): text``) or reST.
_GOOGLE_PARAMETER = re.compile(r"^(\s+)\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s+(.*)$")
_REST_PARAMETER = re.compile(r"^\s*:param\s+(?:\S+\s+)?(\w+):\s*(.*)$")
_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?):\s*$")


class ToolOptions(msgspec.Struct, frozen=True):
    """What the ``tool`` decorator was given. Empty fields are taken from the function."""

    name: str = ""
    description: str = ""
    toolset: str = DEFAULT_TOOLSET
    effect: Effect = "unsafe"
    parallel: bool = False
    untrusted: bool = False
    declares: Declaration | None = None


@overload
def tool(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    toolset: str = DEFAULT_TOOLSET,
    effect: Effect = "unsafe",
    parallel: bool = False,
    untrusted: bool = False,
    **declares: Unpack[DeclaredKeywords],
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    toolset: str = DEFAULT_TOOLSET,
    effect: Effect = "unsafe",
    parallel: bool = False,
    untrusted: bool = False,
    **declares: Unpack[DeclaredKeywords],
) -> Any:
    """Set how a function is offered to the model. The function itself stays as it is.

    A plain function in ``Agent(tools=[...])`` works without the decorator. ``effect`` says what may happen when a call
    is cut off by a crash: ``pure`` and ``idempotent`` tools run again, ``unsafe`` ones (the default) never do, and the
    model learns that the outcome is unknown. ``parallel`` lets several calls of one reply run at the same time.
    ``untrusted`` marks results as text of strangers, such as a web page, for the model. ``reads``, ``writes``,
    ``runs``, ``workdir`` and ``sends`` name the parameters that are paths, code and addresses, so that calls are judged
    by them; ``kind``, ``subject`` and ``detail`` say how calls are shown.
    """
    if effect not in _EFFECTS:
        raise ValueError(f"tool: found the effect {effect!r}; allowed: {', '.join(_EFFECTS)}")
    options = ToolOptions(name, description, toolset, effect, parallel, untrusted, declaration_from(declares))

    def mark(marked: Callable[..., Any]) -> Callable[..., Any]:
        setattr(marked, _OPTIONS, options)
        return marked

    return mark if function is None else mark(function)


def function_tool(function: Callable[..., Any]) -> Tool:
    """The tool that calls ``function``. ``TypeError`` when its signature cannot be described as a JSON schema."""
    if not callable(function):
        raise TypeError(f"a tool must be a function, got {type(function).__name__}")
    options = cast("ToolOptions", getattr(function, _OPTIONS, None) or ToolOptions())
    name = options.name or str(getattr(function, "__name__", type(function).__name__))
    if not TOOL_NAME.fullmatch(name):
        raise TypeError(f"{name!r} is not a valid tool name; use 1 to 64 of A-Z, a-z, 0-9, _ and -, or tool(name=...)")
    summary, described = read_docstring(inspect.getdoc(function) or "")
    arguments, interrupts = _arguments_of(function, name)
    return Tool(
        name=name,
        toolset=options.toolset,
        description=options.description or summary,
        parameters=_schema(arguments, described, name),
        run=_runner(function, name, arguments, interrupts),
        effect=options.effect,
        declares=options.declares,
        parallel=options.parallel,
        untrusted=options.untrusted,
    )


def function_tools(functions: Iterable[Callable[..., Any]]) -> list[Tool]:
    """The tools that call these functions. ``TypeError`` when two have the same name."""
    tools: dict[str, Tool] = {}
    for function in functions:
        made = function_tool(function)
        if made.name in tools:
            raise TypeError(f"two functions in tools are called {made.name!r}; rename one, or use {_RENAME}")
        tools[made.name] = made
    return list(tools.values())


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text before the parameter section, and the description of each parameter."""
    summary: list[str] = []
    described: dict[str, str] = {}
    section, current, indent = "", "", 0
    for line in text.splitlines():
        if (found := _REST_PARAMETER.match(line)) is not None:
            section, current = "rest", found[1]
            described[current] = found[2].strip()
        elif (heading := _SECTION.match(line)) is not None:
            section, current = heading[1], ""
        elif section in ("Args", "Arguments", "Parameters"):
            found = _GOOGLE_PARAMETER.match(line)
            if found is not None and (not current or len(found[1]) <= indent):
                current, indent = found[2], len(found[1])
                described[current] = found[3].strip()
            elif current and line.strip():
                described[current] += " " + line.strip()
        elif not section:
            summary.append(line)
        elif section == "rest" and current and line.startswith(" "):
            described[current] += " " + line.strip()
    return "\n".join(summary).strip(), described


# -- signature and schema -------------------------------------------------------------------------------------------


def _arguments_of(function: Callable[..., Any], name: str) -> tuple[type[msgspec.Struct], list[str]]:
    """The parameters that the model fills in, as a struct, and the names of those that take the turn's interrupt."""
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = get_type_hints(target, include_extras=True)
    except NameError as error:
        raise TypeError(f"tool {name!r}: a type hint cannot be resolved: {error}") from None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    interrupts: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"tool {name!r}: parameter {parameter} cannot be described to a model")
        hint = hints.get(parameter.name, Any)
        if _is_interrupt(hint):
            interrupts.append(parameter.name)
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, _default(parameter.default)))
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True), interrupts


def _is_interrupt(hint: Any) -> bool:
    """Whether a parameter takes the interrupt of the turn: ``Interrupt`` or ``Interrupt | None``."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint is Interrupt or (Interrupt in get_args(hint) and set(get_args(hint)) <= {Interrupt, type(None)})


def _default(value: Any) -> Any:
    is_mutable = isinstance(value, list | dict | set | bytearray)
    if is_mutable:
        # A struct refuses mutable defaults that are not empty; a factory gives every call its own.
        return msgspec.field(default_factory=lambda: type(value)(value))
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError):
        return msgspec.field(default_factory=lambda: value)  # which the schema does not show
    return value


def _schema(arguments: type[msgspec.Struct], described: dict[str, str], name: str) -> dict[str, Any]:
    try:
        schema = _struct_schema(arguments)
    except TypeError as error:
        raise TypeError(f"tool {name!r}: {_misfit(arguments) or error}") from None
    schema.pop("title", None)
    for parameter, fields in schema.get("properties", {}).items():
        text = _annotated_text(arguments.__annotations__[parameter]) or described.get(parameter)
        if text:
            fields.setdefault("description", text)
    return schema


def _struct_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([struct], schema_hook=schema_hook, ref_template="{name}")
    return inlined(components.pop(struct.__name__), components)


def _misfit(arguments: type[msgspec.Struct]) -> str:
    """What is said about the first parameter whose type has no schema; empty when each of them has one."""
    for parameter, hint in arguments.__annotations__.items():
        try:
            _struct_schema(msgspec.defstruct("alone", [(parameter, hint)]))
        except TypeError as error:
            why = str(error).partition("\n")[0]
            return f"parameter {parameter!r} has the type {type_name(hint)}: {why}; usable are {USABLE}"
    return ""


def _annotated_text(hint: Any) -> str:
    """The text in ``Annotated[int, "text"]``; empty when there is none."""
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((extra for extra in extras if isinstance(extra, str)), "")


# -- calls ----------------------------------------------------------------------------------------------------------


def _runner(
    function: Callable[..., Any], name: str, arguments: type[msgspec.Struct], interrupts: list[str]
) -> Callable[[Args, ToolContext], str]:
    prepare_struct(arguments)

    def run(args: Args, context: ToolContext) -> str:
        try:
            given = convert(args, arguments, strict=False)
        except msgspec.ValidationError as error:
            return tool_error(f"{name}: {error}", error_type="invalid_arguments")
        keywords = {field: getattr(given, field) for field in given.__struct_fields__}
        interrupt = context.scope.interrupt
        value = function(**keywords, **dict.fromkeys(interrupts, interrupt))
        return _result_text(settle(value, interrupt), name)

    return run


def _result_text(value: Any, name: str) -> str:
    """Text goes to the model as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return to_json(value)
    except (TypeError, ValueError) as error:
        message = f"{name} returned {type(value).__name__}, which cannot be written as JSON: {error}"
        return tool_error(message, error_type="tool_result_contract")
