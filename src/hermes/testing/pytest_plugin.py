"""Fixtures for the tests of plugin authors: a harness, a scripted model, a recorder and the conformance kit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

# pytest loads this in every run of an environment that has Hermes installed: the fixtures import what they need.
if TYPE_CHECKING:
    from hermes.testing.conformance.rules import ConformanceReport
    from hermes.testing.harness import PluginHarness
    from hermes.testing.recorder import EventRecorder
    from hermes.testing.scripted.script import Script
    from hermes.testing.scripted.server import ScriptedProvider


def _switch_off_assertion_rewriting() -> None:
    """Take Hermes off the packages whose ``assert`` statements pytest rewrites when their modules are imported.

    pytest does it to every package that has a pytest plugin. Hermes does not need it, it costs seconds, and in CPython
    3.11 it fails in two threads at once ("AST constructor recursion depth mismatch"); turns import on threads.
    A pytest that keeps its list in another way keeps Hermes on it.
    """
    for finder in sys.meta_path:
        if isinstance(finder, AssertionRewritingHook) and isinstance(getattr(finder, "_must_rewrite", None), set):
            finder._must_rewrite.discard("hermes")  # pyright: ignore[reportPrivateUsage]
            finder.mark_rewrite()  # it forgets what it has looked up


_switch_off_assertion_rewriting()

#: The first bytes of a test that ``hermes test add`` wrote.
_CASE = b"# hermes test"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the tests that were made from recorded runs."""
    if file_path.suffix != ".yaml":
        return None
    with file_path.open("rb") as file:
        if file.read(len(_CASE)) != _CASE:
            return None
    # By name: the recorded runs are a floor above the test kit.
    return import_module("hermes.record.checks.pytest_items").CaseCollector.from_parent(parent, path=file_path)


@pytest.fixture
def hermes_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, which ``HERMES_HOME`` names while the test runs."""
    home = tmp_path / "hermes-home"
    home.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(home))
    return home


@pytest.fixture
def hermes_plugin() -> Generator[Callable[..., PluginHarness]]:
    """Loads plugins: ``hermes_plugin(folder_or_register, settings=..., cwd=...)`` gives a ``PluginHarness``."""
    from hermes.testing.harness import PluginHarness

    with ExitStack() as stack:

        def load(plugin: str | Path | Callable[[Any], Any], **options: Any) -> PluginHarness:
            return stack.enter_context(PluginHarness(plugin, **options))

        yield load


@pytest.fixture
def scripted_provider() -> Generator[Callable[..., ScriptedProvider]]:
    """Starts scripted models: ``scripted_provider(script)`` gives a ``ScriptedProvider`` that listens."""
    from hermes.testing.scripted.server import ScriptedProvider

    with ExitStack() as stack:

        def start(script: Script = (), **options: Any) -> ScriptedProvider:
            return stack.enter_context(ScriptedProvider(script, **options))

        yield start


@pytest.fixture
def event_recorder() -> EventRecorder:
    """Records every event: give ``event_recorder.register`` to a harness, or attach it to a host's hooks."""
    from hermes.testing.recorder import EventRecorder

    return EventRecorder()


@pytest.fixture
def hermes_names(
    hermes_plugin: Callable[..., PluginHarness], monkeypatch: pytest.MonkeyPatch
) -> Generator[PluginHarness]:
    """Lets the test itself import the compatibility names that plugin code can (``hermes_cli.plugins`` and so on).

    Gives the ``PluginHarness`` whose hooks, tools and plugins those modules work on.
    """
    from hermes.plugins.compat.names import find_module
    from hermes.plugins.compat.table import NAMES, PACKAGES
    from hermes.plugins.services import PluginHost

    def register_nothing(_ctx: Any) -> None: ...

    harness = hermes_plugin(register_nothing)
    host = PluginHost(harness.tools, harness.hooks, harness, harness.plugins, {})
    for name in (*sorted(PACKAGES), *NAMES):
        module = find_module(host, name)
        if module is not None:
            monkeypatch.setitem(sys.modules, name, module)
    yield harness


@pytest.fixture
def hermes_conformance() -> Callable[..., ConformanceReport]:
    """Asserts that a plugin keeps the contract.

    ``hermes_conformance(folder_or_register, allow=("narrow-signature",), strict=True)`` fails the test with every
    violation, its file and line. Warnings count only when ``strict``; rules in ``allow`` never do. Other keywords
    go to ``hermes.testing.conformance.check.check_plugin``.
    """
    from hermes.base.errors import did_you_mean
    from hermes.testing.conformance.check import RULES, check_plugin

    def assert_conforms(
        plugin: str | Path | Callable[[Any], Any], *, allow: tuple[str, ...] = (), strict: bool = False, **options: Any
    ) -> ConformanceReport:
        __tracebackhide__ = True
        unknown = [rule for rule in allow if rule not in RULES]
        if unknown:
            raise ValueError(f"there is no rule {unknown[0]!r}{did_you_mean(unknown[0], RULES)}")
        report = check_plugin(plugin, **options)
        counted = report.findings if strict else report.errors
        broken = [str(finding) for finding in counted if finding.rule not in allow]
        if broken:
            pytest.fail(f"{report.plugin} breaks the contract:\n" + "\n".join(broken), pytrace=False)
        return report

    return assert_conforms
