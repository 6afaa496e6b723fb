"""A hook site that nobody uses allocates nothing and builds nothing."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.table import Hooks


def payload() -> Any:
    raise AssertionError("the payload was built although nobody listens")


def site(name: str) -> Callable[[Hooks], None]:
    """The code at a site, as the runtime writes it. Compiled, so that it is the plain attribute access."""
    source = f"def use(hooks):\n    emit = hooks.{name}\n    if emit is not None:\n        emit(payload())\n"
    namespace: dict[str, Any] = {"payload": payload}
    exec(source, namespace)
    return namespace["use"]


@pytest.mark.parametrize("name", [*HOOKS, *MIDDLEWARE])
def test_a_site_without_subscriber_allocates_nothing(hooks: Hooks, name: str) -> None:
    use = site(name)
    rounds = range(1000)
    for _ in rounds:
        use(hooks)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in rounds:
            use(hooks)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 500, "a thousand passes leave nothing behind"
    assert peak - before < 1000, "and need nothing while they run"


def test_hooks_hold_no_dictionary_and_start_no_thread() -> None:
    hooks = Hooks()
    assert not hasattr(hooks, "__dict__")
    assert sys.getsizeof(hooks) < 400


def test_importing_the_hooks_costs_no_asyncio() -> None:
    code = (
        "import sys, hermes.hooks.table; hermes.hooks.table.Hooks(); "
        "print([name for name in ('asyncio', 'difflib', 'importlib.metadata', 'yaml', 'concurrent.futures') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
