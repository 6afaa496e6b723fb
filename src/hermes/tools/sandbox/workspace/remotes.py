"""Remotes of git repositories: the hosts that they name, as far as no command added them.

Commands may add remotes. A host that came in that way would be one that the model chose, or whoever talks to it. So the
hosts are those of the first look in a run, and what is new at its end is left out in later runs.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hermes.base.config.files import write_private_document
from hermes.base.errors import ConfigError
from hermes.tools.sandbox.network import pattern_of
from hermes.tools.sandbox.profile import is_inside
from hermes.tools.sandbox.workspace.repositories import git_folders, read_regular, working_trees
from hermes.tools.sandbox.workspace.tree import WorkspaceTree

_SSH_PORT = 22
#: Ports of the ways in which git reaches a remote, where they are not the usual ones.
_PORTS = {"ssh": _SSH_PORT, "git+ssh": _SSH_PORT, "ssh+git": _SSH_PORT, "git": 9418}
_LONGEST_CONFIGURATION = 262_144

_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]\s*(.*)')
_KEY = re.compile(r"\s*([A-Za-z][\w-]*)\s*=\s*(.*?)\s*$")
#: ``git@example.org:path``; a path of one letter before the colon would be a drive.
_SHORT = re.compile(r"(?:[^/@:\s]+@)?(\[[^\]\s]+\]|[^/:@\s\[\]]{2,}):(?!//)")


class RemoteHosts:
    """The hosts of remotes in the workspaces of one run. Thread-safe; close it when the last command has ended."""

    def __init__(self, file: Path | None = None) -> None:
        """``file`` keeps, for each repository, the hosts that commands added: a later run may begin in any folder."""
        self._file = file
        self._lock = threading.Lock()
        self._first: dict[str, tuple[WorkspaceTree, list[str]]] = {}

    def of(self, tree: WorkspaceTree) -> list[str]:
        """The hosts of the remotes in and around a workspace, as patterns, without those that commands added."""
        workspace = tree.root
        with self._lock:
            if workspace not in self._first:
                added = self._added()
                found = _distinct(
                    host
                    for repository, hosts in remote_hosts(tree).items()
                    for host in hosts
                    if host not in added.get(repository, ())
                )
                seen = [
                    hosts
                    for other, (_, hosts) in self._first.items()
                    if is_inside(workspace, other) or is_inside(other, workspace)
                ]
                if seen:  # commands have run there
                    found = [host for host in found if any(host in hosts for hosts in seen)]
                self._first[workspace] = tree, found
            return self._first[workspace][1]

    def _added(self) -> dict[str, list[str]]:
        with suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
            if self._file is not None:
                return msgspec.json.decode(self._file.read_bytes(), type=dict[str, list[str]])
        return {}

    def close(self) -> None:
        """Remember the hosts that came in since the first look."""
        with self._lock:
            first, self._first = self._first, {}
        added = self._added()
        is_new = False
        for tree, known in first.values():
            for repository, hosts in remote_hosts(tree).items():
                before = added.get(repository, [])
                if new := set(hosts).difference(known, before):
                    added[repository], is_new = sorted({*before, *new}), True
        if self._file is None or not is_new:
            return
        with suppress(OSError, ConfigError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private_document(self._file, added)


def remote_hosts(tree: WorkspaceTree) -> dict[str, list[str]]:
    """The hosts of the remotes of every repository in and around a workspace, by the folder of its data."""
    folders = _distinct(folder for repository in working_trees(tree) for folder in git_folders(repository))
    settings = {folder: list(_settings(os.path.join(folder, "config"))) for folder in folders}
    values = [*chain.from_iterable(settings.values()), *_settings(os.path.expanduser("~/.gitconfig"))]
    shorthands = {value: name for section, name, value in values if section == "url" and value}
    return {
        folder: _distinct(host_of(_written_out(url, shorthands)) for section, _, url in own if section == "remote")
        for folder, own in settings.items()
    }


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


def _settings(file: str) -> Iterator[tuple[str, str, str]]:
    """The addresses and shorthands that a configuration of git has: section, its name, value."""
    section, name = "", ""
    for line in os.fsdecode(read_regular(file, _LONGEST_CONFIGURATION) or b"").splitlines():
        rest = line
        if started := _SECTION.match(line):
            section, name, rest = started[1].lower(), started[2] or "", started[3]
        key = _KEY.match(rest)
        wanted = {"remote": ("url", "pushurl"), "url": ("insteadof", "pushinsteadof")}.get(section, ())
        if key and key[1].lower() in wanted:
            yield section, name, key[2].strip('"')


def _written_out(url: str, shorthands: Mapping[str, str]) -> str:
    fitting = [short for short in shorthands if url.startswith(short)]
    longest = max(fitting, key=len, default="")
    return shorthands[longest] + url.removeprefix(longest) if longest else url


def host_of(url: str) -> str:
    """The host of a remote, as a pattern; empty for one on this machine's disk."""
    if "://" not in url:
        short = _SHORT.match(url)
        return pattern_of(short[1].strip("[]"), _SSH_PORT) if short else ""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if not host or parts.scheme == "file":
        return ""
    with suppress(ValueError):
        if ip_address(host).is_link_local:  # where clouds serve the credentials of a machine
            return ""
    return pattern_of(host, port or _PORTS.get(parts.scheme, 443))
