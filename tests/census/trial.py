"""Trial: one distribution in a fresh home and a process of its own, with one turn of a scripted model on loopback."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import sys
import tempfile
import traceback
from importlib import import_module
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from hermes.base.config.schema.sections import AgentConfig, Config, ModelConfig, PluginsConfig
from hermes.host import Host, HostOptions
from hermes.plugins.compat import table
from hermes.plugins.compat.messages import PlatformConfig
from hermes.plugins.compat.names import CompatModule
from hermes.plugins.registry import LoadedPlugin, ProviderOffer
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text, tool_call

from .distributions import (
    Distribution,
    distributions,
    entry_points,
    folders,
    installers,
    is_a_host,
    manifest_of,
    unmet_python,
)

#: Tools of a plugin that are called, at most.
_MOST_TOOLS = 3


def main(file: Path, packages: Path | None) -> dict[str, Any]:
    """What became of a distribution, with the packages of a folder within its reach."""
    distribution = next(one for one in distributions(file.parent) if one.file == file)
    with tempfile.TemporaryDirectory(prefix="census") as scratch:
        root = Path(scratch)
        home = root / ".hermes"
        os.environ.update(HOME=str(root), HERMES_HOME=str(home), XDG_STATE_HOME=str(root / "state"))
        os.chdir(root)
        unpacked = distribution.unpack(root / "unpacked")
        sys.path.insert(0, str(unpacked))
        if packages is not None:
            sys.path.insert(1, str(packages))
        refused, missed = _stay_on_this_machine(), _watch_names()
        keys = [] if is_a_host(unpacked) else _install(distribution, unpacked, home)
        if not keys:
            return {"is_plugin": False}
        if wanted := unmet_python(unpacked):
            return {"is_plugin": True, "needs_python": wanted}
        try:
            found = _run(home, keys)
            return {"is_plugin": True, **found, "refused": sorted(refused), "missed": sorted(missed)}
        except Exception as error:  # what a plugin may do to its host is what the trial is to find out
            return {"is_plugin": True, "host_error": repr(error), "trace": traceback.format_exc()[-1500:]}


def _install(distribution: Distribution, unpacked: Path, home: Path) -> list[str]:
    """Put it where its kind of plugin is found. The keys to enable."""
    keys = entry_points(unpacked)
    if keys:
        return keys
    found = folders(unpacked)
    if found and not any("register" in (one / "__init__.py").read_text(encoding="utf-8") for one in found):
        # What the folder becomes is up to a program of the distribution.
        for program, word in product(installers(unpacked), ("install", "install-plugin")):
            _run_installer(program, word)
            if put := sorted(one.name for one in (home / "plugins").glob("*") if one.is_dir()):
                return put
    for folder in found:
        manifest = manifest_of(folder)
        name = str(manifest.get("name") or (folder.name if folder != unpacked else distribution.name))
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", name)
        shutil.copytree(folder, home / "plugins" / name, dirs_exist_ok=True)
        keys.append(name)
    return keys


def _run_installer(program: str, word: str) -> None:
    module, _, function = program.partition(":")
    sys.argv = [function, word]
    # The package of this host is hidden from them: some write into it.
    with patch.dict(sys.modules, {"hermes": cast("Any", None)}), contextlib.suppress(BaseException):
        getattr(import_module(module), function)()  # ends with SystemExit, and not all can install something


def _stay_on_this_machine() -> set[str]:
    """From here on connections to other machines are refused. The addresses that were tried."""
    tried: set[str] = set()
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def is_here(host: object) -> bool:
        name = host.decode() if isinstance(host, bytes) else str(host)
        return name in ("127.0.0.1", "::1", "localhost", "", "None")

    def connect_here(self: socket.socket, address: Any) -> None:
        server: object = cast("tuple[object, ...]", address)[0] if isinstance(address, tuple) else "localhost"
        if not is_here(server):
            tried.add(str(server))
            raise ConnectionRefusedError(111, "the census lets nothing leave this machine")
        connect(self, cast("Any", address))

    def look_up_here(host: Any, *rest: Any, **options: Any) -> Any:
        if not is_here(host):
            tried.add(host.decode() if isinstance(host, bytes) else str(host))
            raise socket.gaierror(-2, "the census lets nothing leave this machine")
        return look_up(host, *rest, **options)

    socket.socket.connect = connect_here  # pyright: ignore[reportAttributeAccessIssue]
    socket.getaddrinfo = look_up_here
    return tried


def _watch_names() -> set[str]:
    """The names of the host that plugins ask for from here on, and that it does not have."""
    missed: set[str] = set()
    reason, attribute = table.why_not, CompatModule.__getattr__

    def why_not(name: str) -> str:
        missed.add(name)
        return reason(name)

    def get(self: CompatModule, name: str) -> Any:
        try:
            return attribute(self, name)
        except AttributeError:
            if not name.startswith("_"):
                missed.add(f"{self.__name__}.{name}")
            raise

    table.why_not = why_not
    CompatModule.__getattr__ = get
    return missed


def _run(home: Path, keys: list[str]) -> dict[str, Any]:
    replies: list[ScriptedReply] = []

    def reply(_request: RecordedRequest) -> ScriptedReply:
        return replies.pop(0) if replies else text("Done.")

    with ScriptedProvider(reply) as provider:
        config = _config(provider, keys)
        with _host(home, config) as host:
            records = _records(host, keys)
            found: dict[str, Any] = {"plugins": [_described(record) for record in records]}
            found["is_loaded"] = any(record.status == "loaded" for record in records)
            waiting = [one for one in records if one.status not in ("loaded", "failed")]
            if not found["is_loaded"] and not waiting:
                return found
            offers = {offer.kind: offer for one in records for offer in (*one.waiting, *one.in_use)}
            found["offers"] = {kind: _probe(offer) for kind, offer in offers.items()}
            if not waiting and not offers.keys() & {"memory_provider", "context_engine"}:
                return {**found, **_turn(host, keys, replies)}
        # A memory and a context engine are used once they are selected.
        named = waiting[0].manifest.key.rpartition("/")[2] if waiting else ""
        config.memory.provider = offers["memory_provider"].name if "memory_provider" in offers else named
        if "context_engine" in offers:
            config.context.engine = offers["context_engine"].name
        with _host(home, config) as host:
            records = _records(host, keys)
            found["plugins"] = [_described(record) for record in records]
            found["is_loaded"] = any(record.status == "loaded" for record in records)
            return {**found, **_turn(host, keys, replies)}


def _probe(offer: ProviderOffer) -> str:
    """What an offer says of itself, or how it fails: empty when it could be used."""
    try:
        if offer.kind == "platform":
            if not offer.options["check_fn"]():
                return "not available"
            offer.value(PlatformConfig(enabled=True))
            return ""
        is_available = getattr(offer.value, "is_available", None)
        return "" if not callable(is_available) or is_available() else "not available"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _turn(host: Host, keys: list[str], replies: list[ScriptedReply]) -> dict[str, Any]:
    names = [name for record in _records(host, keys) for name in record.tools]
    tools = [tool for tool in map(host.tools.get, names) if tool is not None and host.tools.is_available(tool)]
    replies += [tool_call(tool.name, _arguments(tool.parameters)) for tool in tools[:_MOST_TOOLS]]
    result = host.new_session().run("Please say that you are done.")
    failures = [f"{one.site}: {one.last_error}" for one in host.hooks.stats() if one.failures]
    outcomes = [f"{one.tool_name}: {one.result[:300]}" for one in result.tool_calls]
    found = {"status": result.status, "error": result.error, "failures": failures, "outcomes": outcomes}
    return {**found, "tools": len(names), "ready": len(tools)}


def _host(home: Path, config: Config) -> Host:
    options = HostOptions(allow_everything=True)
    return Host(home, config, options, cwd=home.parent, env=dict(os.environ))


def _records(host: Host, keys: list[str]) -> list[LoadedPlugin]:
    return [record for key, record in host.plugins.plugins.items() if key in keys or key.rpartition("/")[2] in keys]


def _config(provider: ScriptedProvider, keys: list[str]) -> Config:
    model = ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key")
    # As someone who installs it to guard or replace tools would.
    plugins = PluginsConfig(enabled=keys, entries={key: {"allow_tool_override": True} for key in keys})
    return Config(model=model, agent=AgentConfig(api_max_retries=0), plugins=plugins)


def _described(record: LoadedPlugin) -> dict[str, Any]:
    failure = record.failure
    registered = [record.tools, record.hooks, record.middleware, record.commands, record.cli_commands]
    registered += [record.skills, record.waiting, record.in_use]
    return {
        "key": record.manifest.key,
        "status": record.status,
        "error": record.error,
        "failure": "" if failure is None else f"{type(failure).__name__}: {failure}",
        "missing_env": record.missing_env,
        "problems": record.problems,
        "registered": sum(map(len, registered)),
    }


def _arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Something for each argument that is required."""
    properties = cast("dict[str, dict[str, Any]]", schema.get("properties") or {})
    return {name: _example(properties.get(name) or {}) for name in schema.get("required") or ()}


def _example(field: dict[str, Any]) -> Any:
    if field.get("enum"):
        return field["enum"][0]
    kind = field.get("type")
    usual: dict[Any, Any] = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    return usual.get(kind if isinstance(kind, str) else None, "example")


def run(file: Path, packages: Path | None, answer: Connection) -> None:
    """Send what became of a distribution, from a process that ends with it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what plugins print is not ours
    try:
        answer.send(main(file, packages))
    except BaseException as error:  # a plugin may end the process that it is loaded in
        answer.send({"is_plugin": True, "host_error": repr(error)})
    os._exit(0)  # threads that a plugin left behind are not waited for
