"""Plugins that come as Python packages, installed with pip into the environment hermes runs in."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.base.errors import PluginError
from hermes.plugins.install.source import InstallSource
from hermes.plugins.loading.entry_points import GROUP, PluginEntryPoint, installed_entry_points

_PIP_SECONDS = 900


def install_package(
    home: Path, source: InstallSource, env: Mapping[str, str], *, upgrade: bool = False
) -> list[PluginEntryPoint]:
    """Install a package and return the plugins it offers. One that offers none is not kept."""
    was_installed = _is_installed(source.location)
    requirement = f"{source.location}=={source.ref}" if source.ref else source.location
    _run_pip(env, "install", *(["--upgrade"] if upgrade else []), "--", requirement)
    points = plugins_of(home, source.location)
    if not points:
        if not was_installed:
            remove_package(source.location, env)
        raise PluginError(
            f"package {source.location!r} offers no plugin (it has no entry point in the group {GROUP!r})"
            + ("" if was_installed else "; it was removed again")
        )
    return points


def install_requirements(requirements: Sequence[str], env: Mapping[str, str]) -> None:
    """Install packages that a plugin in a folder needs."""
    from importlib import invalidate_caches

    _run_pip(env, "install", "--", *requirements)
    invalidate_caches()


def remove_package(package: str, env: Mapping[str, str]) -> None:
    """Uninstall a package; what it depends on stays."""
    _run_pip(env, "uninstall", "--yes", "--", _bare(package))


def plugins_of(home: Path, package: str) -> list[PluginEntryPoint]:
    """The plugins that an installed package offers."""
    from importlib import invalidate_caches

    invalidate_caches()
    wanted = _normal(package)
    return [point for point in installed_entry_points(home) if _normal(point.package) == wanted]


def package_of(home: Path, plugin: str) -> str:
    """The package that offers a plugin."""
    for point in installed_entry_points(home):
        if point.name == plugin and point.package:
            return point.package
    raise PluginError(f"it is not known which package offers plugin {plugin!r}; use pip")


def _is_installed(package: str) -> bool:
    from importlib import metadata

    try:
        metadata.version(_bare(package))
    except metadata.PackageNotFoundError:
        return False
    return True


def _bare(package: str) -> str:
    return package.partition("[")[0].strip()


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", _bare(package)).lower()


def _run_pip(env: Mapping[str, str], command: str, *arguments: str) -> None:
    import subprocess

    line = [sys.executable, "-m", "pip", command, "--disable-pip-version-check", "--no-input", "--quiet", *arguments]
    try:
        done = subprocess.run(
            line, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise PluginError(f"pip {command} took longer than {_PIP_SECONDS} s; is the package index reachable?") from None
    if done.returncode == 0:
        return
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    if any("No module named pip" in line for line in lines):
        raise PluginError(
            f"pip is not part of the environment of {sys.executable}; add it with "
            f"'{sys.executable} -m ensurepip', or install the package with the tool that made the environment"
        )
    reason = [line for line in lines if line.lower().startswith("error")] or lines[-1:] or ["no reason given"]
    raise PluginError(f"pip {command} failed: {' '.join(reason)[:300]}")
