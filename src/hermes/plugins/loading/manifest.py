"""Plugin manifest: ``plugin.yaml``, read without importing the plugin's code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

Kind = Literal["standalone", "backend", "exclusive", "platform", "model-provider"]
Source = Literal["bundled", "user", "project", "entrypoint", "program"]

KINDS: tuple[str, ...] = get_args(Kind)
#: A portable package, see ``portable.py``, and a gateway hook, see ``gateway_hook.py``.
PORTABLE_FILE, HOOK_FILE = "plugin.json", "HOOK.yaml"
FILE_NAMES = ("plugin.yaml", "plugin.yml", PORTABLE_FILE, HOOK_FILE)

_MAX_BYTES = 256 * 1024
#: How much of ``__init__.py`` is read when the manifest does not say what kind of plugin it is.
_PEEK_BYTES = 8 * 1024


class PluginManifest(Struct, frozen=True):
    """A plugin as it describes itself, and where it was found."""

    name: str
    #: The plugin's id in the configuration: its name, or ``category/folder`` for a nested one.
    key: str
    version: str = ""
    description: str = ""
    author: str = ""
    kind: Kind = "standalone"
    #: Environment variables it needs, each a name or ``{"name": ..., "description": ..., "url": ..., "secret": ...}``.
    requires_env: tuple[str | dict[str, Any], ...] = ()
    provides_tools: tuple[str, ...] = ()
    provides_hooks: tuple[str, ...] = ()
    #: Requirements of Python packages, as pip takes them.
    python_dependencies: tuple[str, ...] = ()
    #: The versions of the plugin contract it is for; see ``contract/plugin.py``.
    requires_hermes: str = ""
    #: What it asks for beyond the usual.
    capabilities: tuple[str, ...] = ()
    #: Its settings; see ``settings_schema.py``.
    config_schema: dict[str, Any] = {}
    #: Whether it is a package of skills and MCP servers without code.
    is_portable: bool = False
    #: Of a gateway hook: the events that its handler is told.
    events: tuple[str, ...] = ()
    source: Source = "user"
    #: The plugin's folder; ``None`` for an entry point.
    path: Path | None = None
    #: ``package.module`` or ``package.module:object``, for an entry point.
    entry_point: str = ""
    #: Why the manifest cannot be used, empty when it can.
    problem: str = ""
    #: What is odd about it without being in the way.
    remarks: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The file of its folder that is imported."""
        return "handler.py" if self.events else "__init__.py"

    def answers_to(self, name: str) -> bool:
        """Whether ``name`` is the plugin's key or its name."""
        return name in (self.key, self.name)

    def env_names(self) -> list[str]:
        """The environment variables it needs, by name."""
        return env_names(self.requires_env)

    def missing_env(self, env: Mapping[str, str]) -> list[str]:
        """Those of them that are not set."""
        return [name for name in self.env_names() if not env.get(name)]


def env_names(requirements: Sequence[Any]) -> list[str]:
    """The variables in a ``requires_env`` list, whose entries are names or mappings with a ``name``."""
    found: list[str] = []
    for entry in requirements:
        name: object = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else entry
        if isinstance(name, str) and name:
            found.append(name)
    return found


def read_manifest(file: Path, source: Source, category: str = "") -> PluginManifest:
    """The manifest in ``file``. One that cannot be read comes back with its ``problem`` filled in."""
    folder = file.parent
    nested_key = f"{category}/{folder.name}" if category else ""
    try:
        fields = read_fields(file)
    except (OSError, ValueError) as error:
        problem = f"{file}: {error}"
        unread = PluginManifest(folder.name, nested_key or folder.name, source=source, path=folder, problem=problem)
        # Upstream finds memories by their code, so that some are published with a manifest that was never read.
        is_memory = _guessed_kind(folder) == "exclusive" or _MEMORY_IMPORT.search(_start_of_code(folder))
        return replace(unread, kind="exclusive", problem="", remarks=(problem,)) if is_memory else unread
    if file.name == PORTABLE_FILE:
        return _portable(fields, file, source, nested_key)
    if file.name == HOOK_FILE:
        return _gateway_hook(fields, file, source, nested_key)
    remarks: list[str] = []
    name = _text_field(fields, "name", remarks) or folder.name
    return PluginManifest(
        name=name,
        key=nested_key or name,
        version=_text_field(fields, "version", remarks),
        description=_text_field(fields, "description", remarks),
        author=_text_field(fields, "author", remarks),
        kind=_kind(fields, folder, remarks),
        requires_env=tuple(_items(fields, "requires_env", remarks)),
        provides_tools=tuple(str(item) for item in _items(fields, "provides_tools", remarks)),
        provides_hooks=tuple(str(item) for item in _items(fields, "provides_hooks", remarks)),
        python_dependencies=tuple(
            str(item) for name in ("python_dependencies", "pip_dependencies") for item in _items(fields, name, remarks)
        ),
        requires_hermes=_text_field(fields, "requires_hermes", remarks),
        capabilities=tuple(str(item) for item in _items(fields, "capabilities", remarks)),
        config_schema=_mapping(fields, "config_schema", remarks),
        source=source,
        path=folder,
        remarks=tuple(remarks),
    )


def _portable(fields: dict[str, Any], file: Path, source: Source, nested_key: str) -> PluginManifest:
    from hermes.plugins.loading.portable import format_problem

    folder, remarks, author = file.parent, list[str](), fields.get("author")
    name = _text_field(fields, "name", remarks) or folder.name
    problem = format_problem(fields)
    return PluginManifest(
        name=name,
        key=nested_key or name,
        version=_text_field(fields, "version", remarks),
        description=_text_field(fields, "description", remarks),
        author=str(cast("dict[str, Any]", author).get("name", "")) if isinstance(author, dict) else "",
        is_portable=True,
        source=source,
        path=folder,
        problem=problem and f"{file}: {problem}",
        remarks=tuple(remarks),
    )


def _gateway_hook(fields: dict[str, Any], file: Path, source: Source, nested_key: str) -> PluginManifest:
    from hermes.contract.gateway_events import gateway_event

    folder, remarks = file.parent, list[str]()
    name = _text_field(fields, "name", remarks) or folder.name
    events = tuple(str(item) for item in _items(fields, "events", remarks))
    known = [event for event in map(gateway_event, events) if event is not None]
    return PluginManifest(
        name=name,
        key=nested_key or name,
        version=_text_field(fields, "version", remarks),
        description=_text_field(fields, "description", remarks),
        author=_text_field(fields, "author", remarks),
        provides_hooks=tuple(dict.fromkeys(hook for event in known for hook in event.hooks)),
        events=events,
        source=source,
        path=folder,
        problem="" if events else f"{file}: it has no events; a list such as [agent:start, agent:end] is expected",
        remarks=tuple(remarks),
    )


def read_fields(file: Path) -> dict[str, Any]:
    """The manifest as it is written. ``OSError`` or ``ValueError`` when it is no mapping that can be read."""
    import yaml  # only a run that looks at plugins needs it

    if file.stat().st_size > _MAX_BYTES:
        raise ValueError(f"is larger than {_MAX_BYTES // 1024} kB; a manifest is a short YAML file")
    loader = cast("Any", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    try:
        document: object = yaml.load(file.read_bytes(), Loader=loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError("is not valid YAML: " + " ".join(str(error).split())[:300]) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValueError(f"holds a {type(document).__name__}; a mapping such as 'name: my-plugin' is expected")
    return cast("dict[str, Any]", document)


def _text_field(fields: dict[str, Any], name: str, remarks: list[str]) -> str:
    value = fields.get(name)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value).strip()
    if value is not None:
        remarks.append(f"{name} is a {type(value).__name__}; text is expected")
    return ""


def _items(fields: dict[str, Any], name: str, remarks: list[str]) -> list[Any]:
    value = fields.get(name)
    if value is not None and not isinstance(value, list):
        remarks.append(f"{name} is a {type(value).__name__}; a list is expected")
    return cast("list[Any]", value) if isinstance(value, list) else []


def _mapping(fields: dict[str, Any], name: str, remarks: list[str]) -> dict[str, Any]:
    value = fields.get(name)
    if value is not None and not isinstance(value, dict):
        remarks.append(f"{name} is a {type(value).__name__}; a mapping is expected")
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _kind(fields: dict[str, Any], folder: Path, remarks: list[str]) -> Kind:
    kind = fields.get("kind")
    if kind is None:
        guessed = _guessed_kind(folder)
        if guessed != "standalone":
            remarks.append(f"its manifest has no kind; by its code it is taken for one of kind {guessed}")
        return guessed
    if kind in KINDS:
        return cast("Kind", kind)
    remarks.append(f"kind is {kind!r}, which is none of {', '.join(KINDS)}; it is treated as standalone")
    return "standalone"


#: Code that merely mentions the class is none.
_MEMORY_CLASS = re.compile(rb"^class\s+\w+\([^)]*\bMemoryProvider\b", re.MULTILINE)
#: With an unreadable manifest there is nothing else to go by, and the class may come far down.
_MEMORY_IMPORT = re.compile(rb"^\s*from agent\.memory_provider import .*\bMemoryProvider\b", re.MULTILINE)


def _guessed_kind(folder: Path) -> Kind:
    """Older plugins do not say that they are a memory or a model provider; their code mentions it."""
    start = _start_of_code(folder)
    if b"register_memory_provider" in start or _MEMORY_CLASS.search(start):
        return "exclusive"
    if b"register_provider" in start and b"ProviderProfile" in start:
        return "model-provider"
    return "standalone"


def _start_of_code(folder: Path) -> bytes:
    try:
        with (folder / "__init__.py").open("rb") as file:
            return file.read(_PEEK_BYTES)
    except OSError:
        return b""
