"""The names that plugins for other hosts of the contract import: who sees them, and what is behind each."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from hermes.plugins.compat.names import ROOTS
from hermes.plugins.compat.table import ABSENT, NAMES, NARROWER, PACKAGES
from hermes.plugins.loading.imports import PluginLoader
from hermes.plugins.loading.modules import PluginFinder
from support.plugin_rig import Rig

SOURCES = Path(__file__).parents[3] / "src" / "hermes"


@pytest.fixture(autouse=True)
def clean_imports(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The folders of these tests are called plugins, tools and so on too; they are not to be found as modules."""
    tests = str(Path(__file__).parents[2])
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != tests])
    for name in [known for known in sys.modules if known.partition(".")[0] in ROOTS]:
        monkeypatch.delitem(sys.modules, name)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ROOTS:
            del sys.modules[name]


def run(rig: Rig, code: str, *, key: str = "p", **files: str) -> Any:
    """What ``answer(ctx, raw)``, in a plugin with this code, returns as a command."""
    return command(rig, code, key=key, **files)("")


def command(rig: Rig, code: str, *, key: str = "p", **files: str) -> Callable[[str], Any]:
    folder = rig.write(key, f"{code}\ndef register(ctx):\n    ctx.register_command('a', lambda raw: answer(ctx))\n")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    plugins = rig.load(enabled=[key])
    assert plugins.plugins[key].error == ""
    return plugins.commands["a"].handler


def seen_outside() -> list[str]:
    return sorted(name for name in sys.modules if name.partition(".")[0] in ROOTS)


def test_the_first_words_are_those_of_the_table() -> None:
    assert {name.partition(".")[0] for name in NAMES} == ROOTS


@pytest.mark.parametrize("name", [*NARROWER, *ABSENT])
def test_what_is_narrower_is_there_and_what_is_absent_is_not(rig: Rig, name: str) -> None:
    module, _, last = name.rpartition(".")
    code = "import importlib\ndef found(name):\n    try: return importlib.import_module(name)\n"
    code += "    except ImportError: return None\n"
    code += f"def answer(ctx): return bool(found({name!r})) or hasattr({module!r} and found({module!r}), {last!r})"
    assert run(rig, code) is (name in NARROWER)


def test_an_absent_module_says_why(rig: Rig) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"'hermes_cli\.kanban_db': there is no kanban board"):
        run(rig, "def answer(ctx):\n    import hermes_cli.kanban_db")


# -- who sees them ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, *sorted(PACKAGES)])
def test_every_name_can_be_imported_in_every_form(rig: Rig, name: str) -> None:
    parent, _, leaf = name.rpartition(".")
    form = f"from {parent} import {leaf} as third" if parent else f"import {name} as third"
    code = f"import {name}\nimport {name} as second\nfrom {name} import *\n{form}\n"
    code += f"def answer(ctx): return ({name} is second is third, second.__name__, hasattr(second, '__path__'))"
    assert run(rig, code) == (True, name, name in PACKAGES)
    assert seen_outside() == []


def test_submodules_functions_threads_and_generated_code_see_them(rig: Rig) -> None:
    code = """
from threading import Thread
from .part import top, late

def answer(ctx):
    from .lazy import found
    kept = []
    threads = [Thread(target=lambda: kept.append(late())) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    exec("from agent.plugin_llm import PluginLlm", space := {})
    return {top, found, space["PluginLlm"], type(ctx.llm), *kept}
"""
    part = """
from agent.plugin_llm import PluginLlm as top
def late():
    import agent.plugin_llm
    return agent.plugin_llm.PluginLlm
"""
    lazy = "from agent import plugin_llm\nfound = plugin_llm.PluginLlm"
    assert len(run(rig, code, part=part, lazy=lazy)) == 1
    assert seen_outside() == []


def test_a_folder_inside_a_folder_sees_them_too(rig: Rig) -> None:
    folder = rig.write(
        "cat/deep", "from .a.b import home\ndef register(ctx): ctx.register_command('a', lambda _: home())"
    )
    (folder / "a").mkdir()
    (folder / "a" / "b.py").write_text("from hermes_constants import get_hermes_home as home")
    plugins = rig.load(enabled=["cat/deep"])
    assert plugins.plugins["cat/deep"].error == ""
    assert plugins.commands["a"].handler("") == rig.home


def test_a_package_has_its_modules_as_attributes_at_once(rig: Rig) -> None:
    code = "import agent, hermes_cli\ndef answer(ctx): return type(ctx.llm) is agent.plugin_llm.PluginLlm, "
    code += "hermes_cli.plugins.PluginContext is type(ctx), agent.secret_sources.base.SecretSource.__name__"
    assert run(rig, code) == (True, True, "SecretSource")


def test_importlib_of_a_plugin_finds_them_and_that_of_others_does_not(rig: Rig) -> None:
    code = (
        "import importlib, agent.plugin_llm\n"
        "def answer(ctx): return importlib.import_module('agent.plugin_llm') is agent.plugin_llm"
    )
    assert run(rig, code) is True
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("hermes_constants")
    assert seen_outside() == []


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        (
            "import agent.nothing",
            ModuleNotFoundError,
            "No module named 'agent.nothing'; this host offers .*agent.plugin",
        ),
        (
            "from tools.web import x",
            ModuleNotFoundError,
            "No module named 'tools.web'; this host offers tools.approval, tools.approval_context",
        ),
        ("from agent.plugin_llm import Nothing", ImportError, "cannot import name 'Nothing' from 'agent.plugin_llm'"),
        ("from agent import nothing", ImportError, "cannot import name 'nothing' from 'agent'"),
        ("import utils; utils.nothing", AttributeError, "module 'utils' has no attribute 'nothing'"),
        ("import no_such_module_anywhere", ModuleNotFoundError, "No module named 'no_such_module_anywhere'"),
    ],
)
def test_what_is_not_offered_fails_as_usual(rig: Rig, statement: str, error: type[Exception], message: str) -> None:
    handler = command(rig, f"def answer(ctx):\n    {statement}")
    with pytest.raises(error, match=message) as caught:
        handler("")
    assert type(caught.value) is error


def test_modules_of_one_host_are_shared_and_those_of_two_are_not(tmp_path: Path, rig: Rig) -> None:
    code = "def answer(ctx):\n    from hermes_cli import plugins\n    from hermes_constants import get_hermes_home\n"
    code += "    return plugins, plugins.get_plugin_manager(), ctx._manager, get_hermes_home()"
    other = Rig(tmp_path / "other")
    other.cwd.mkdir(parents=True)
    try:
        first, second = command(rig, code), command(other, code)
        module, manager, by_context, home = first("")
        other_module, other_manager, _, other_home = second("")
        assert (manager is by_context, home, other_home) == (True, rig.home, other.home)
        assert module is not other_module
        assert manager is not other_manager
        assert first("")[0] is module, "the first host's plugin still reaches the first host"
    finally:
        other.hooks.close()
    source = "import hermes_cli.plugins as m\ndef register(ctx): ctx.register_command('{}', lambda raw: m)"
    rig.write("one", source.format("one"))
    rig.write("two", source.format("two"))
    commands = rig.load(enabled=["one", "two"]).commands
    assert commands["one"].handler("") is commands["two"].handler("")


# -- names that others have too --------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, with modules that are really called utils and tools."""
    folder = tmp_path / "site"
    (folder / "tools").mkdir(parents=True)
    (folder / "utils.py").write_text("mine = 'installed'\ndef env_int(name): return 'shadowed'\n")
    (folder / "tools" / "__init__.py").write_text("kind = 'installed tools'")
    (folder / "tools" / "hammer.py").write_text("weight = 3")
    (folder / "library.py").write_text("import utils\ndef what(): return utils.mine, hasattr(utils, 'is_truthy_value')")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, "library", raising=False)
    return folder


@pytest.mark.usefixtures("installed")
def test_code_outside_plugins_keeps_its_own(rig: Rig) -> None:
    code = "import library, utils\ndef answer(ctx): return library.what(), utils.is_truthy_value('yes')"
    assert run(rig, code) == (("installed", False), True), "a library that a plugin imports is no plugin"
    utils: Any = importlib.import_module("utils")
    assert utils.env_int("X") == "shadowed"
    assert not hasattr(utils, "is_truthy_value")


@pytest.mark.usefixtures("installed")
def test_the_contract_wins_and_the_installed_module_fills_the_gaps(rig: Rig) -> None:
    code = """
from utils import env_int, mine
from tools import kind, registry
import tools.hammer
from tools.hammer import weight
def answer(ctx): return env_int("NOT_SET", 7), mine, kind, registry.registry is not None, tools.hammer.weight, weight
"""
    assert run(rig, code) == (7, "installed", "installed tools", True, 3, 3)


def test_a_relative_module_of_the_same_name_is_the_plugins_own(rig: Rig) -> None:
    code = "from . import utils as own\nfrom .utils import mine\nimport utils\n"
    code += "def answer(ctx): return own is utils, mine, hasattr(own, 'env_int')"
    assert run(rig, code, utils="mine = 'own'") == (False, "own", False)


# -- entry points ----------------------------------------------------------------------------------------------------


def package(site: Path, name: str, points: str, **files: str) -> None:
    """Install a package with entry points, as an installer leaves it behind."""
    (site / name).mkdir(parents=True)
    for file, text in files.items():
        (site / name / f"{file}.py").write_text(text)
    info = site / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[hermes_agent.plugins]\n{points}\n")


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


ENTRY = """
from hermes_constants import get_hermes_home
from .tool import schema
def lazy():
    from .later import home
    return home(), get_hermes_home()
def register(ctx):
    from tools.registry import registry
    registry.register("acme", "acme", schema, lambda args, **kw: "{}")
    ctx.register_command("a", lambda raw: lazy())
"""


def test_an_entry_point_package_sees_them_host_by_host(rig: Rig, tmp_path: Path, site: Path) -> None:
    package(
        site,
        "acme_hermes",
        "acme = acme_hermes.entry",
        __init__="",
        entry=ENTRY,
        tool="from utils import is_truthy_value\nschema = {'description': str(is_truthy_value('on'))}",
        later="from hermes_constants import get_hermes_home as home",
    )
    other = Rig(tmp_path / "other")
    other.cwd.mkdir(parents=True)
    try:
        for host in (rig, other):
            plugins = host.load(enabled=["acme"])
            assert plugins.plugins["acme"].error == ""
            assert plugins.commands["a"].handler("") == (host.home, host.home)
            tool = host.tools.get("acme")
            assert tool is not None
            assert (tool.plugin, tool.description) == ("acme", "True")
    finally:
        other.hooks.close()
    assert seen_outside() == []


def test_what_the_program_has_imported_itself_is_taken_as_it_is(rig: Rig, site: Path) -> None:
    package(
        site,
        "acme_plain",
        "acme = acme_plain",
        __init__="state = []\ndef register(ctx):\n    from .part import home\n    state.append(home())",
        part="from hermes_constants import get_hermes_home as home",
    )
    before: Any = importlib.import_module("acme_plain")
    assert rig.load(enabled=["acme"]).plugins["acme"].error == ""
    assert sys.modules["acme_plain"] is before
    assert before.state == [rig.home]


def test_a_package_that_has_one_of_the_names_keeps_it(rig: Rig, site: Path) -> None:
    code = "import tools.other\nfrom hermes_constants import get_hermes_home as home\n"
    code += "def register(ctx): ctx.register_command('a', lambda raw: (tools.other.x, home()))"
    package(site, "tools", "own = tools.entry", __init__="", entry=code, other="x = 1")
    plugins = rig.load(enabled=["own"])
    assert plugins.plugins["own"].error == ""
    assert plugins.commands["a"].handler("") == (1, rig.home)


# -- the modules stay ordinary modules -------------------------------------------------------------------------------


def test_resources_source_and_reloading_still_work(rig: Rig) -> None:
    code = """
import importlib, inspect, pkgutil
from importlib import resources
from . import part
def answer(ctx):
    again = importlib.reload(part)
    text = resources.files(__package__).joinpath("part.py").read_text()
    data = pkgutil.get_data(__package__, "part.py").decode()
    return again.home(), text == data == inspect.getsource(part), importlib.import_module(".part", __package__) is part
"""
    part = "from hermes_constants import get_hermes_home as home\n"
    assert run(rig, code, part=part) == (rig.home, True, True)


def test_one_finder_serves_all_hosts(rig: Rig) -> None:
    run(rig, "def answer(ctx): pass")
    rig.load(enabled=["p"])
    assert sum(isinstance(finder, PluginFinder) for finder in sys.meta_path) == 1
    spec = sys.modules["hermes_plugins.p"].__spec__
    assert spec is not None
    assert isinstance(spec.loader, PluginLoader)


def test_a_plain_plugin_pays_for_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "plugin.yaml").write_text("name: plain")
    (tmp_path / "__init__.py").write_text("def register(ctx): ctx.register_hook('pre_tool_call', print)")
    code = (
        "import sys\nfrom hermes.testing.harness import PluginHarness\n"
        f"PluginHarness({str(tmp_path)!r}).close()\n"
        "print(sorted(m for m in sys.modules if m.startswith('hermes.plugins.compat.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['hermes.plugins.compat.names']"


# -- hostile plugins -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attack",
    [
        "__builtins__.clear()",
        "del __builtins__['__import__']",
        "__builtins__['__import__'] = None",
        "__builtins__['len'] = lambda _: 'stolen'",
        "import agent; agent.__dict__.clear()",
        "import utils; utils.__class__ = type(__builtins__['__import__'])",
    ],
)
def test_what_a_plugin_does_to_its_builtins_stays_with_it(rig: Rig, attack: str) -> None:
    rig.write("bad", f"def register(ctx):\n    {attack}\n    import json")
    rig.write(
        "good",
        "from agent.plugin_llm import PluginLlm\n"
        "def late():\n    from utils import is_truthy_value\n    return is_truthy_value('yes'), len('abc')\n"
        "def register(ctx): ctx.register_command('a', lambda raw: late())",
    )
    before = dict(vars(builtins))
    plugins = rig.load(enabled=["bad", "good"])
    assert plugins.plugins["good"].error == ""
    assert plugins.commands["a"].handler("") == (True, 3)
    assert vars(builtins) == before


def test_many_threads_find_one_module(rig: Rig) -> None:
    handler = command(rig, "def answer(ctx):\n    import hermes_cli.plugins as m\n    return m.get_plugin_manager()")
    start, found = threading.Barrier(8), list[Any]()

    def look() -> None:
        start.wait()
        found.append(handler(""))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


# -- ourselves -------------------------------------------------------------------------------------------------------


def test_our_own_code_uses_none_of_the_names() -> None:
    roots = "|".join(map(re.escape, ROOTS))
    looks_like_one = re.compile(rf"^\s*(?:from\s+|import\s+(?:.*,\s*)?)(?:{roots})\b", re.MULTILINE)
    found: list[str] = []
    for file in SOURCES.rglob("*.py"):
        text = file.read_text()
        if "bundled" in file.relative_to(SOURCES).parts or not looks_like_one.search(text):
            continue  # plugins we ship use them like anybody's
        for node in ast.walk(ast.parse(text)):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            found += [f"{file}: {name}" for name in names if name.partition(".")[0] in ROOTS]
    assert found == []


@pytest.mark.parametrize("key", ["web/mine", "mine"])
def test_a_plugin_finds_its_own_modules_by_their_place_among_the_plugins(rig: Rig, key: str) -> None:
    code = "from plugins.web.mine.client import NAME\nimport importlib\ndef answer(ctx):\n    return NAME\n"
    assert run(rig, code, key=key, client="NAME = 'found'") == "found"


def test_a_missing_module_of_a_plugin_is_still_an_import_error(rig: Rig) -> None:
    code = """
def answer(ctx):
    for name in ("plugins.web.mine.nothing", "plugins.web.other.client", "plugins.web"):
        try:
            exec(f"from {name} import x")
        except ImportError:
            continue
        return name
    return ""
"""
    assert run(rig, code, key="web/mine") == ""
