"""The pytest plugin, as the author of a plugin uses it: a real pytest in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from support import hermes_environment

PLUGIN = """
def register(ctx):
    ctx.register_hook("pre_tool_call", guard)


def guard(tool_name, **kwargs):
    if tool_name == "terminal":
        return {"action": "block", "message": "no shell"}
"""

AUTHOR_TESTS = """
import os
from pathlib import Path

HERE = Path(__file__).parent / "guard"


def test_home(hermes_home):
    assert os.environ["HERMES_HOME"] == str(hermes_home)
    assert hermes_home.is_dir()


def test_plugin(hermes_plugin):
    harness = hermes_plugin(HERE)
    assert harness.fire("pre_tool_call", tool_name="read_file", args={}) == []
    assert harness.fire("pre_tool_call", tool_name="terminal", args={})[0]["action"] == "block"


def test_recorder(hermes_plugin, event_recorder):
    hermes_plugin(event_recorder.register).fire("on_session_start", session_id="s")
    assert event_recorder.names() == ["on_session_start"]


def test_provider(scripted_provider):
    from urllib.request import urlopen

    provider = scripted_provider("hello")
    assert b"scripted" in urlopen(provider.base_url + "/models").read()


def test_names(hermes_names):
    from hermes_cli.plugins import VALID_HOOKS

    assert "pre_tool_call" in VALID_HOOKS


def test_names_are_gone_again():
    import sys

    assert "hermes_cli" not in sys.modules


def test_conforms(hermes_conformance):
    report = hermes_conformance(HERE, strict=True)
    assert report.ok and report.calls


def test_does_not_conform(hermes_conformance):
    def register(ctx):
        ctx.register_hook("pre_tool_call", lambda **kw: 7)

    hermes_conformance(register)


def test_does_not_conform_but_may(hermes_conformance):
    def register(ctx):
        ctx.register_hook("pre_tool_call", lambda **kw: 7)

    assert not hermes_conformance(register, allow=("answer-shape",)).ok


def test_unknown_rule(hermes_conformance):
    import pytest

    with pytest.raises(ValueError, match="there is no rule 'nope'; there are: load"):
        hermes_conformance(HERE, allow=("nope",))
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("author")
    (folder / "guard").mkdir()
    (folder / "guard" / "plugin.yaml").write_text("name: guard\n")
    (folder / "guard" / "__init__.py").write_text(PLUGIN)
    (folder / "test_guard.py").write_text(AUTHOR_TESTS)
    return run_pytest(folder, "-v", "-W", "error", "test_guard.py")


def run_pytest(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=hermes_environment(folder / "home"), capture_output=True, timeout=60, check=False
    )
    return done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize(
    "test",
    [
        "test_home",
        "test_plugin",
        "test_recorder",
        "test_provider",
        "test_names",
        "test_names_are_gone_again",
        "test_conforms",
        "test_does_not_conform_but_may",
        "test_unknown_rule",
    ],
)
def test_a_fixture_works(outcome: str, test: str) -> None:
    assert f"::{test} PASSED" in outcome, outcome


def test_a_plugin_that_breaks_the_contract_fails_its_test_with_file_and_line(outcome: str) -> None:
    assert "::test_does_not_conform FAILED" in outcome
    assert "plugin breaks the contract:" in outcome
    line = AUTHOR_TESTS.splitlines().index('        ctx.register_hook("pre_tool_call", lambda **kw: 7)') + 1
    assert f"test_guard.py:{line}: error [answer-shape]" in outcome
    assert "1 failed, 9 passed" in outcome


def test_pytest_imports_hermes_as_it_is() -> None:
    """Not with rewritten ``assert`` statements, as it imports packages that have a pytest plugin."""
    assert isinstance(sys.modules["hermes.host"].__loader__, SourceFileLoader)
    assert not isinstance(sys.modules[__name__].__loader__, SourceFileLoader), "tests are rewritten"


def test_it_costs_other_peoples_tests_nothing() -> None:
    """It is loaded wherever Hermes is installed, so it brings nothing along but pytest."""
    code = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import hermes.testing.pytest_plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=hermes_environment(Path("home")), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "['hermes', 'hermes.testing', 'hermes.testing.pytest_plugin']"
