"""Caches of package managers: the owner's own ones, which the owner's commands may fill, so that installs are fast."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from hermes.tools.sandbox.profile import is_inside


class _PackageCache(NamedTuple):
    """A cache of a program: a folder below the home, or below the folder that ``root_variable`` names."""

    program: str
    folder: str
    #: The variable that names the folder.
    variable: str = ""
    root_variable: str = ""
    #: The folder that ``root_variable`` stands for when it is not set.
    root: str = ""


# Nothing here holds a credential, or programs that the owner's shell finds.
_CACHES = (
    _PackageCache("pip", ".cache/pip", "PIP_CACHE_DIR"),
    _PackageCache("uv", ".cache/uv", "UV_CACHE_DIR"),
    _PackageCache("npm", ".npm", "npm_config_cache"),
    _PackageCache("yarn", ".cache/yarn", "YARN_CACHE_FOLDER"),
    _PackageCache("pnpm", ".local/share/pnpm/store", "npm_config_store_dir"),
    _PackageCache("bun", ".bun/install/cache", "BUN_INSTALL_CACHE_DIR"),
    _PackageCache("deno", ".cache/deno", "DENO_DIR"),
    _PackageCache("cargo", "registry", "", "CARGO_HOME", ".cargo"),
    _PackageCache("cargo", "git", "", "CARGO_HOME", ".cargo"),
    _PackageCache("go", "pkg/mod", "GOMODCACHE", "GOPATH", "go"),
    _PackageCache("go", "pkg/sumdb", "", "GOPATH", "go"),
    _PackageCache("go", ".cache/go-build", "GOCACHE"),
    _PackageCache("mvn", ".m2/repository"),
    _PackageCache("composer", ".cache/composer", "COMPOSER_CACHE_DIR"),
    _PackageCache("dotnet", ".nuget/packages", "NUGET_PACKAGES"),
)

#: Where programs put their caches when they get none of the owner's, relative to the private temporary folder.
_PRIVATE = {
    "XDG_CACHE_HOME": ".cache",
    "npm_config_cache": ".cache/npm",
    "CARGO_HOME": ".cache/cargo",
    "GOMODCACHE": ".cache/go-mod",
    "GRADLE_USER_HOME": ".cache/gradle",
}


class PackageCaches(NamedTuple):
    """The caches that a command may fill, and the variables that lead to them."""

    folders: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}

    def environment(self, temporary: str) -> dict[str, str]:
        """The variables of all caches; ``temporary`` is the private folder for those that are not the owner's."""
        return {**{name: f"{temporary}/{folder}" for name, folder in _PRIVATE.items()}, **self.variables}


def owners_caches(home: str, environ: Mapping[str, str]) -> PackageCaches:
    """The caches of the owner's programs. Those of an installed program are made when they are missing."""
    folders: list[str] = []
    variables: dict[str, str] = {}
    for cache in _CACHES:
        root = (environ.get(cache.root_variable) or os.path.join(home, cache.root)).partition(os.pathsep)[0]
        folder = environ.get(cache.variable) or _below(root, cache.folder, environ)
        if not os.path.isdir(folder) and shutil.which(cache.program) is not None:
            with suppress(OSError):
                os.makedirs(folder, mode=0o700)
        real = os.path.realpath(folder)
        is_named = cache.variable in environ or cache.root_variable in environ
        # A link that leads elsewhere may have been put there by a command whose workspace was the home folder.
        is_own = is_named or is_inside(real, os.path.realpath(home))
        if not is_own or not os.path.isdir(real) or is_inside(os.path.realpath(home), real):
            continue
        folders.append(real)
        if cache.variable:
            variables[cache.variable] = folder
        if cache.root_variable:
            variables[cache.root_variable] = environ.get(cache.root_variable) or root
    return PackageCaches(tuple(folders), variables)


def _below(root: str, folder: str, environ: Mapping[str, str]) -> str:
    caches = environ.get("XDG_CACHE_HOME")
    name = folder.removeprefix(".cache/")
    return os.path.join(caches, name) if caches and name != folder else os.path.join(root, folder)
