"""Fetches the files of a plugin into an empty folder, from a git repository or from another folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from hermes.base.errors import PluginError
from hermes.base.programs import find_program, trusted_folders
from hermes.plugins.install.source import IGNORED, InstallSource
from hermes.plugins.loading.discovery import manifest_files, manifest_in
from hermes.plugins.loading.manifest import FILE_NAMES

_GIT_SECONDS = 120
_SHORT_COMMIT = re.compile(r"[0-9a-fA-F]{4,39}")
#: Variables that would make git work on another repository.
_REPOSITORY = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"})


def fetch_files(source: InstallSource, work: Path, env: Mapping[str, str]) -> tuple[Path, str]:
    """The plugin's folder below ``work``, and the commit that is in it (empty for a folder that was copied)."""
    origin, revision = fetch_origin(source, work, env)
    _refuse_without_manifest(origin, source)
    # The folder's name is the plugin's when the manifest gives none.
    target = work / "files" / (source.fallback_name or "plugin")
    copy_tree(origin, target)
    return target, revision


def fetch_origin(source: InstallSource, work: Path, env: Mapping[str, str]) -> tuple[Path, str]:
    """The folder that a source names, of a repository a copy below ``work``; and its commit, empty for a folder."""
    if source.kind == "path":
        origin, revision = Path(source.location), ""
    else:
        clone = work / "clone"
        clone.mkdir()
        revision = _clone(source, clone, env)
        origin = clone / source.subfolder
        if not origin.resolve().is_relative_to(clone.resolve()):
            raise PluginError(f"{source.shown}: the folder is a link out of the repository")
    if not origin.is_dir():
        what = f"folder {source.subfolder!r}" if source.subfolder else "such folder"
        raise PluginError(f"{source.shown}: there is no {what}")
    return origin, revision


def copy_tree(origin: Path, target: Path) -> None:
    """Copy the files of a plugin or a skill. What leads out of the folder, or is no plain file, is refused."""
    import shutil

    root = origin.resolve()
    for root_name, folders, names in os.walk(origin):
        folders[:] = [name for name in folders if name not in IGNORED]
        for name in (*folders, *names):
            if name not in IGNORED:
                _refuse_escape(Path(root_name, name), root)
    try:
        shutil.copytree(origin, target, symlinks=True, ignore=lambda _place, names: IGNORED.intersection(names))
    except (OSError, shutil.Error) as error:
        raise PluginError(f"{origin}: cannot be copied: {error}") from None


def _refuse_escape(path: Path, root: Path) -> None:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        link = path.readlink()
        if link.is_absolute() or not (path.parent.resolve() / link).resolve().is_relative_to(root):
            raise PluginError(f"{path.name} is a link that leads out of its folder (to {link}); it is not installed")
    elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise PluginError(f"{path.name} is not a regular file; only files and folders are installed")


def _refuse_without_manifest(folder: Path, source: InstallSource) -> None:
    if manifest_in(folder) is not None:
        return
    inside = [file.path.parent.relative_to(folder).as_posix() for file in manifest_files(folder)]
    hint = f"; it has plugins in {', '.join(inside[:8])}: name one of these" if inside else ""
    raise PluginError(f"{source.shown} is not a plugin: it has no {FILE_NAMES[0]}{hint}")


def _clone(source: InstallSource, folder: Path, env: Mapping[str, str]) -> str:
    """Fetch one revision, with as little history as the server allows, and return its commit."""
    run_git(folder, env, "init", "--quiet")
    ref = source.ref or "HEAD"
    fetch = ("fetch", "--quiet", "--no-tags", "--depth", "1", "--", source.location)
    try:
        run_git(folder, env, *fetch, ref)
    except PluginError:
        if not _SHORT_COMMIT.fullmatch(ref):
            raise
        # Only whole ids can be asked for, so the beginning of one is looked up in the history.
        run_git(folder, env, "fetch", "--quiet", "--", source.location, "+refs/heads/*:refs/remotes/origin/*")
        commit = run_git(folder, env, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    else:
        commit = run_git(folder, env, "rev-parse", "FETCH_HEAD^{commit}")
    run_git(folder, env, "-c", "advice.detachedHead=false", "checkout", "--quiet", commit, "--")
    return commit


def run_git(folder: Path, env: Mapping[str, str], *arguments: str) -> str:
    """What a git command prints; ``PluginError`` with git's message when it fails."""
    import subprocess

    program = find_program("git", env.get("PATH"), system_first=True)
    if program is None:
        raise PluginError("git is not installed; install it, or give a folder")
    clean = {name: value for name, value in env.items() if name not in _REPOSITORY}
    clean["PATH"] = os.pathsep.join(trusted_folders(env.get("PATH")))  # git starts ssh and others by their names
    if not os.isatty(0):
        clean["GIT_TERMINAL_PROMPT"] = "0"
    try:
        done = subprocess.run(
            [program, *arguments], cwd=folder, env=clean, capture_output=True, timeout=_GIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise PluginError(f"git {arguments[0]} took longer than {_GIT_SECONDS} s; is the server reachable?") from None
    if done.returncode != 0:
        message = " ".join(done.stderr.decode("utf-8", "replace").split()) or f"exit code {done.returncode}"
        raise PluginError(f"git {arguments[0]} failed: {message[:300]}")
    return done.stdout.decode("utf-8", "replace").strip()
