"""``hermes install``: installs the packages of an extra into the environment that Hermes itself runs in."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from hermes.base.errors import HermesError, did_you_mean
from hermes.base.programs import find_program
from hermes.base.version import __version__
from hermes.surfaces.cli.arguments import Argument, CommandSpec, flag
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import plain

_DISTRIBUTION = "hermes-agent"
_EPILOG = """
An extra is what one part of Hermes needs beyond the core. Its requirements are read from the metadata of this very
installation, and pip (or uv) installs those packages beside it; Hermes itself is not installed again.

examples:
  hermes install            list the extras and what is missing of each
  hermes install otel       install what the OpenTelemetry exporter needs
  hermes install a2a --dry-run
"""
#: For those who work on Hermes itself, from its sources.
_HIDDEN = frozenset({"dev"})
_EXTRA = re.compile(r"""\s*(?:\band\s+)?\bextra\s*==\s*["']([A-Za-z0-9_.-]+)["']""")


def _install(args: argparse.Namespace) -> Report | None:
    known = extras()
    if not args.extras:
        found = {
            extra: {"requirements": wanted, "missing": _missing(wanted)} for extra, wanted in sorted(known.items())
        }
        states = {extra: ", ".join(row["missing"]) for extra, row in found.items()}
        rows = [(extra, f"missing: {missing}" if missing else "installed") for extra, missing in states.items()]
        return Report(found, rows=rows)
    for extra in args.extras:
        if extra not in known:
            raise HermesError(f"there is no extra {plain(extra)!r}{did_you_mean(extra, sorted(known))}")
    wanted = [requirement for extra in args.extras for requirement in known[extra]]
    command = [*_installer(), *wanted]
    if args.dry_run:
        import shlex

        print(shlex.join(command))
        return None
    print(f"Installing {', '.join(wanted)}", file=sys.stderr)
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        raise HermesError(f"the packages could not be installed: {command[0]} ended with code {code}")
    print(f"Installed: {', '.join(args.extras)}")
    return None


def extras() -> dict[str, list[str]]:
    """The requirements of every extra, from the metadata of the installation that runs."""
    found: dict[str, list[str]] = {}
    sources = Path(__file__).parents[5] / "pyproject.toml"
    if sources.is_file():
        import tomllib

        optional: dict[str, list[str]] = tomllib.loads(sources.read_text("utf-8"))["project"]["optional-dependencies"]
        return {extra: requirements for extra, requirements in optional.items() if extra not in _HIDDEN}
    for requirement in _requirements():
        plain_requirement, _, marker = requirement.partition(";")
        extra = _EXTRA.search(marker)
        if extra is None or extra[1] in _HIDDEN:
            continue
        marker = _EXTRA.sub("", marker).strip()
        text = f"{plain_requirement.strip()}; {marker}" if marker else plain_requirement.strip()
        found.setdefault(extra[1], []).append(text)
    return found


def _requirements() -> list[str]:
    from importlib import metadata

    try:
        distribution = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        distribution = None
    if distribution is None or distribution.version != __version__:
        raise HermesError(
            f"the metadata of Hermes {__version__} is not installed, so what an extra needs is not known; "
            "install Hermes with pip or uv from its sources"
        )
    return distribution.requires or []


def _installer() -> list[str]:
    """The command that installs into the environment of this Python: pip, or uv where there is no pip."""
    from importlib.util import find_spec

    uv = find_program("uv")
    if find_spec("pip") is None and uv is not None:
        return [uv, "pip", "install", "--python", sys.executable]
    from hermes.models.local.install.pip import command

    return [*command(), "install"]


def _missing(requirements: list[str]) -> list[str]:
    from importlib import metadata

    names = [re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0] for requirement in requirements]
    missing: list[str] = []
    for name in names:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    return missing


COMMAND = CommandSpec(
    run=_install,
    arguments=(
        Argument("extras EXTRA", "what to install; without one, list the extras", nargs="*"),
        flag("--dry-run", "print the command instead of running it"),
        flag("--json", "print the list as one JSON document"),
    ),
    epilog=_EPILOG,
)
