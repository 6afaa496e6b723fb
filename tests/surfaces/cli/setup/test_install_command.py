"""``hermes install``: the requirements of an extra from our own metadata, never the package by its name."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import hermes
from hermes.base.version import __version__
from hermes.surfaces.cli.main import main
from hermes.surfaces.cli.setup import install
from support import run_hermes
from support.programs import write_program


def test_an_extra_is_its_requirements_for_this_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "otel", "a2a", "--dry-run"]) == 0
    command = capsys.readouterr().out
    assert sys.executable in command
    assert "'opentelemetry-sdk>=1.40,<2'" in command
    assert "a2a-sdk" in command
    assert "hermes-agent" not in command


def test_without_an_extra_it_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"a2a", "otel", "langfuse", "nemo-relay", "local"} <= set(rows)
    assert "dev" not in rows
    assert main(["install"]) == 0
    assert "nemo-relay" in capsys.readouterr().out


def test_an_unknown_extra_is_refused_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "otell"]) == 1
    assert "there is no extra 'otell'; did you mean 'otel'?" in capsys.readouterr().err


def test_an_installed_package_reads_the_metadata_that_belongs_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "__file__", str(tmp_path / "a" / "b" / "c" / "d" / "install.py"))
    site = tmp_path / "site"
    info = site / "hermes_agent-9.dist-info"
    info.mkdir(parents=True)
    requires = ["h11", "one>=1; extra == 'x'", "two; (sys_platform == 'linux') and extra == 'x'", 'three; extra == "y"']
    lines = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    metadata = f"Metadata-Version: 2.1\nName: hermes-agent\nVersion: {__version__}\n{lines}"
    (info / "METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(str(site))  # pyright: ignore[reportUnknownMemberType]
    assert install.extras() == {"x": ["one>=1", "two; (sys_platform == 'linux')"], "y": ["three"]}
    (info / "METADATA").write_text(metadata.replace(f"Version: {__version__}", "Version: 0.19.0"))
    with pytest.raises(hermes.HermesError, match="metadata of Hermes"):
        install.extras()


def test_packages_are_installed_into_the_environment_of_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "_installer", lambda: [sys.executable, "-c", "import sys; print(sys.argv[1:])"])
    assert main(["install", "otel"]) == 0
    assert "'opentelemetry-sdk>=1.40,<2'" in capfd.readouterr().out
    monkeypatch.setattr(install, "_installer", lambda: [sys.executable, "-c", "raise SystemExit(7)"])
    assert main(["install", "otel"]) == 1
    assert "ended with code 7" in capfd.readouterr().err


def test_uv_is_used_where_there_is_no_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    write_program(tmp_path / "bin", "uv", "exit 0")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def find_spec(_name: str) -> None:
        return None

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    assert install._installer() == [f"{tmp_path}/bin/uv", "pip", "install", "--python", sys.executable]  # pyright: ignore[reportPrivateUsage]


def test_the_version_is_one_that_published_plugins_accept(home: Path, workdir: Path) -> None:
    assert run_hermes("--version", home=home, cwd=workdir).stdout == f"hermes {__version__}\n"
    assert tuple(map(int, __version__.split(".")[:2])) > (0, 19)
