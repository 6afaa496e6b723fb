"""Packages that a plugin imports find the compatibility names too; nobody else does."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from hermes.plugins.loading.imports import loader_of
from support.plugin_rig import Rig

SHIM = "from acme_real import register"
#: A package as its author publishes it: the entry knows no host, the module that it imports does.
REAL = {
    "__init__": "from .entry import register",
    "entry": "def register(ctx):\n"
    "    from . import host\n"
    "    ctx.register_command('a', lambda raw: host.home())\n"
    "    ctx.register_command('later', lambda raw: later())\n"
    "def later():\n"
    "    import threading\n"
    "    found = []\n"
    "    def work():\n"
    "        from . import plain\n"
    "        found.append(plain.home())\n"
    "    thread = threading.Thread(target=work)\n"
    "    thread.start()\n"
    "    thread.join(60)\n"
    "    return found\n",
    "host": "from hermes_constants import get_hermes_home as home",
    "plain": "from .lazy import home",
    "lazy": "from hermes_constants import get_hermes_home as home",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("acme_"):
            del sys.modules[name]


def package(site: Path, name: str, files: dict[str, str]) -> None:
    (site / name).mkdir()
    for file, text in files.items():
        (site / name / f"{file}.py").write_text(text)


def test_a_folder_that_only_imports_a_package_works_host_by_host(rig: Rig, tmp_path: Path, site: Path) -> None:
    package(site, "acme_real", REAL)
    other = Rig(tmp_path / "other")
    other.cwd.mkdir(parents=True)
    try:
        for host in (rig, other):
            host.write("shim", SHIM)
            plugins = host.load(enabled=["shim"])
            assert plugins.plugins["shim"].error == ""
            assert plugins.commands["a"].handler("") == host.home
            assert plugins.commands["later"].handler("") == [host.home], "in a thread that the package starts"
    finally:
        other.hooks.close()
    assert loader_of(sys.modules["acme_real.entry"]) is None, "a module without such a name is left as it is"
    assert "hermes_constants" not in sys.modules


def test_a_package_of_the_package_is_followed(rig: Rig, site: Path) -> None:
    package(site, "acme_outer", {"__init__": "from acme_inner import home"})
    package(site, "acme_inner", {"__init__": REAL["host"]})
    rig.write("p", "from acme_outer import home\ndef register(ctx): ctx.register_command('a', lambda raw: home())")
    assert rig.load(enabled=["p"]).commands["a"].handler("") == rig.home


def test_a_module_by_its_file_is_the_plugins_own(rig: Rig) -> None:
    code = """
import importlib.util
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
def home_by(make):
    spec = make("acme_engine", Path(__file__).parent / "engine.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.home()
def register(ctx):
    ctx.register_command("a", lambda raw: [home_by(one) for one in (
        spec_from_file_location, importlib.util.spec_from_file_location)])
"""
    folder = rig.write("p", code)
    (folder / "engine.py").write_text(REAL["host"])
    assert rig.load(enabled=["p"]).commands["a"].handler("") == [rig.home, rig.home]


def test_what_is_imported_for_the_host_sees_none_of_the_names(rig: Rig, site: Path) -> None:
    package(site, "acme_alone", {"__init__": REAL["host"]})
    rig.write("p", "def register(ctx): pass")
    rig.load(enabled=["p"])
    with pytest.raises(ModuleNotFoundError, match="hermes_constants"):
        importlib.import_module("acme_alone")


def test_a_package_that_means_an_installed_module_gets_that_one(rig: Rig, site: Path) -> None:
    package(site, "acme_guest", {"__init__": "import utils\nfrom tools.registry import registry"})
    (site / "utils.py").write_text("mine = 'installed'")
    code = "import acme_guest\ndef register(ctx): ctx.register_command('a', lambda raw: vars(acme_guest))"
    rig.write("p", code)
    plugins = rig.load(enabled=["p"])
    assert plugins.plugins["p"].error == ""
    names: dict[str, Any] = plugins.commands["a"].handler("")
    try:
        assert names["utils"].mine == "installed"
        assert not hasattr(names["utils"], "is_truthy_value")
        assert callable(names["registry"].register), "there is no installed module of that name"
    finally:
        sys.modules.pop("utils", None)


def test_a_name_that_no_host_has_is_said_as_in_a_plugin(rig: Rig, site: Path) -> None:
    package(site, "acme_real", {"__init__": "from hermes_constants.nothing import register"})
    rig.write("shim", SHIM)
    error = rig.load(enabled=["shim"]).plugins["shim"].error
    assert "No module named 'hermes_constants.nothing'; this host offers hermes_constants" in error
