"""Caches of package managers: commands never fill those of the owner, but one of their own for each workspace.

No program checks all that it takes from its cache: npx and uvx run what is installed there, uv and pnpm link its files
into environments, and what tells npm and cargo the checksums of packages lies in the cache, too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress

#: Where programs put what they fetch, relative to the folder of all caches.
_FOLDERS = {
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "npm_config_cache": "npm",
    "YARN_GLOBAL_FOLDER": "yarn",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "DENO_DIR": "deno",
    "CARGO_HOME": "cargo",
    # Not only modules: what go knows of their checksums is in it, beside them.
    "GOPATH": "go",
    "GOMODCACHE": "go/pkg/mod",
    "GOCACHE": "go-build",
    "GRADLE_USER_HOME": "gradle",
    "COMPOSER_CACHE_DIR": "composer",
    "NUGET_PACKAGES": "nuget",
}
#: In the folder of one workspace: its path. A folder whose workspace is gone is removed.
_WORKSPACE = "workspace"


def cache_variables(folder: str, temporary: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that lead programs to the caches in ``folder``, and to ``temporary`` with all other caches."""
    # npm warns of this variable, so only who has pnpm gets it.
    has_pnpm = shutil.which("pnpm", path=environ.get("PATH")) is not None
    pnpm = {"npm_config_store_dir": f"{folder}/pnpm"} if has_pnpm else {}
    maven = f"{environ.get('MAVEN_OPTS', '')} -Dmaven.repo.local={folder}/maven".strip()
    found = {name: f"{folder}/{part}" for name, part in _FOLDERS.items()}
    return {"XDG_CACHE_HOME": f"{temporary}/.cache", **found, **pnpm, "MAVEN_OPTS": maven}


def workspace_caches(hermes_home: str, workspace: str, use: str, home: str) -> str:
    """The folder of the caches for one workspace, which lasts; empty when there can be none.

    ``use`` is what fills it: programs of the owner do not run what a command of the model put there.
    """
    above = os.path.join(os.path.realpath(hermes_home), "cache", "packages")
    digest = hashlib.sha256(os.fsencode(f"{use}:{workspace}")).hexdigest()[:16]
    folder = os.path.join(above, digest)
    # A link may have been put there by a command whose workspace was above: it would open what it leads to.
    if os.path.realpath(above) != above or os.path.islink(folder):
        return ""
    try:
        if not os.path.isdir(folder):
            os.makedirs(above, mode=0o700, exist_ok=True)
            _remove_unused(above)
            _fill(folder, workspace, home)
    except OSError:
        return ""
    return folder


def _fill(folder: str, workspace: str, home: str) -> None:
    """Make a folder. The settings of cargo are where its cache is; those of the owner are read there."""
    os.mkdir(folder, mode=0o700)
    with open(os.path.join(folder, _WORKSPACE), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(workspace)
    cargo = os.path.join(folder, "cargo")
    os.mkdir(cargo)
    os.symlink(os.path.join(home, ".cargo", "config.toml"), os.path.join(cargo, "config.toml"))


def _remove_unused(above: str) -> None:
    from hermes.tools.sandbox.sandbox import remove_folder

    for name in os.listdir(above):
        folder = os.path.join(above, name)
        with suppress(OSError):
            # A command may have put anything there: what is no short file names no workspace.
            mark = os.open(os.path.join(folder, _WORKSPACE), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                workspace = os.fsdecode(os.read(mark, 4096))
            finally:
                os.close(mark)
            if workspace and not os.path.isdir(workspace):
                remove_folder(folder)
