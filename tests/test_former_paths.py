"""Former import paths: what pages, programs and published plugins import is found where it is now."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ("hermes.a2a", "hermes.surfaces.a2a"),
        ("hermes.a2a.executor.executor", "hermes.surfaces.a2a.executor.executor"),
        ("hermes.cli.main", "hermes.surfaces.cli.main"),
        ("hermes.config.schema.sections", "hermes.base.config.schema.sections"),
        ("hermes.errors", "hermes.base.errors"),
        ("hermes.gateway.adapter", "hermes.surfaces.gateway.adapter"),
        ("hermes.sanitize", "hermes.base.sanitize"),
        ("hermes.scope", "hermes.base.scope"),
        ("hermes.version", "hermes.base.version"),
    ],
)
def test_a_former_path_gives_the_same_module(former: str, present: str) -> None:
    module = import_module(former)
    assert module is import_module(present)
    assert module.__name__ == present
    assert module.__spec__ is not None
    assert module.__spec__.name == present


def test_a_module_is_never_loaded_twice_whichever_path_is_first() -> None:
    code = (
        "import hermes.sanitize.known as former, sys\n"
        "from hermes.base.sanitize import known\n"
        "print(former is known, [n for n in sys.modules if n.startswith('hermes.sanitize')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True ['hermes.sanitize', 'hermes.sanitize.known']"


def test_a_name_that_never_was_is_still_unknown() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'hermes\.no_such_package'"):
        import_module("hermes.no_such_package")
    with pytest.raises(ModuleNotFoundError, match=r"hermes\.base\.sanitize\.no_such_module"):
        import_module("hermes.sanitize.no_such_module")


def test_the_names_of_the_executor_are_in_its_package() -> None:
    executor = import_module("hermes.a2a.executor")
    assert executor.HermesA2AExecutor is import_module("hermes.a2a").HermesA2AExecutor
    assert executor.ProviderConfig("hermes-4-70b").reasoning_supported is True
    assert executor._reasoning_supported("hermes-4-70b") is True
    assert executor._validate_response_format({"type": "text"}) is None
    assert executor._validate_response_format({"type": "xml"})
    code = "from hermes.a2a.executor import HermesA2AExecutor, ProviderConfig; print(HermesA2AExecutor.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "HermesA2AExecutor\n"
    with pytest.raises(AttributeError, match="Nobody"):
        _ = executor.Nobody
