"""Repositories and archives that a command line fetches or unpacks and then runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.policy.call import Call, after_options, read_options
from hermes.policy.places import is_within
from hermes.policy.rules.git import GLOBAL_VALUES
from hermes.policy.rules.targets import unpacked_into
from hermes.policy.shell.words import names

if TYPE_CHECKING:
    from hermes.policy.shell.state import ShellState

_ADDRESS = re.compile(r"\w+://|[\w.-]+@[\w.-]+:|[\w-]+(?:\.[\w-]+)+:\S", re.IGNORECASE)
_ARCHIVERS = names("tar gtar bsdtar unzip 7z 7za unrar cpio")
#: Programs that run what files of a project say.
_BUILDERS = names(
    "make gmake cmake ninja meson just task npm npx yarn pnpm bun pip pip3 pipx uv poetry pdm hatch cargo go gradle "
    "gradlew mvn mvnw rake bundle composer mix tox nox pytest scons ant bazel dotnet swift stack cabal zig deno "
    "vagrant foreman"
)
_LOOKS = names(
    "--version -V --help -h ls list view show outdated audit why fmt metadata tree info search help version -n "
    "--dry-run --just-print clean"
)


def note_fetched(state: ShellState, call: Call) -> None:
    """Remember the folders that a call fills with what comes from elsewhere."""
    if call.program in ("git", "gh", "hg", "svn", "degit"):
        if folder := _cloned_into(call):
            state.unread.add(state.paths.resolve(folder))
    elif call.program in _ARCHIVERS and (folders := unpacked_into(call)):
        named = [flow.origin for word in call.args if (flow := state.files.get(state.paths.resolve(word)))]
        remote = "remote" in (call.stdin.origin, *named)
        for folder in map(state.paths.resolve, folders):
            if folder != (state.paths.cwd or "") and folder != state.paths.workspace:
                state.unread.add(folder)
            elif remote:
                state.mixed.add(folder)


def _cloned_into(call: Call) -> str:
    words = after_options(call.args, GLOBAL_VALUES.__contains__)
    operands = read_options(words, "bcjou").operands
    match [call.program, *operands]:
        case ["gh", "repo", "clone", source, *rest]:
            return rest[0] if rest else source.rpartition("/")[2]
        case ["git" | "hg" | "svn", "clone" | "checkout" | "co", source, *rest] if _ADDRESS.match(source):
            return rest[0] if rest else source.rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
        case ["degit", _source, folder, *_]:
            return folder
        case _:
            return ""


def runs_fetched(state: ShellState, call: Call, *, runs_file: bool) -> bool:
    """Whether a call runs something in such a folder; ``runs_file``: its first operand is a script."""
    if not state.unread and not state.mixed:
        return False
    program, resolve = call.program, call.paths.resolve
    started = [resolve(call.words[0])] if "/" in call.words[0] else []
    if runs_file or program in ("source", "."):
        started += map(resolve, call.options.operands[:1])
    if any(is_within(path, folder) for path in started for folder in (*state.unread, *state.mixed)):
        return True
    if program not in _BUILDERS or not _LOOKS.isdisjoint(call.args):
        return False
    here = call.paths.cwd
    places = [here, *(resolve(word.partition("=")[2] or word) for word in call.args)]
    return any(is_within(place, folder) for place in places for folder in state.unread) or any(
        here != folder and is_within(here, folder) for folder in state.mixed
    )
