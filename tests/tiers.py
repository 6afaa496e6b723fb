"""Which tests are quick: all but the folders and modules below, chosen by measured CPU time.

``pytest -m quick`` is for the edit loop and takes less than a minute on two idle cores. A module belongs into the list
when it starts Python processes or takes more than about two seconds of CPU. A test marked ``slow`` or ``soak`` is never
quick: ``-m`` on the command line replaces the expression of ``addopts``, which leaves these out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

NOT_QUICK = (
    # They run real ``hermes`` processes, servers or exporters in every other test.
    *(
        "surfaces/a2a",
        "surfaces/embedding",
        "bundled",
        "surfaces/cli",
        "docs",
        "downstream",
        "models/local",
        "models/conformance",
        "tools/peers",
    ),
    # Each of these takes seconds: processes, whole conversations or many generated examples.
    "agent/children/test_delegation_resume.py",
    "agent/context/test_context_engine.py",
    "agent/images/test_image_generate.py",
    "agent/llm/test_plugin_llm_accounts.py",
    "agent/test_crash_and_resume.py",
    "agent/test_fallback.py",
    "contract/test_host_conformance.py",
    "hooks/test_execution_chain_random.py",
    "base/http/test_provider_faults.py",
    "journal/history/test_search_index.py",
    "journal/test_bodies.py",
    "journal/test_journal_faults.py",
    "journal/test_several_processes.py",
    "models/credentials/test_credential_faults.py",
    "mutants",
    "models/costs/test_prices.py",
    "plugins/compat/test_compat_names.py",
    "plugins/install",
    "plugins/shell_hooks",
    "policy/test_judge_properties.py",
    "testing/test_conformance.py",
    "testing/test_conformance_clock.py",
    "testing/test_pytest_plugin.py",
    "test_tiers.py",
    "tools/search/test_search_files.py",
    "tools/test_arguments.py",
    "trace/formats",
)


#: Markers of tests that are never quick, wherever they are.
_LONG = ("slow", "soak")


def is_quick(path: Path) -> bool:
    """Whether the tests of a module are quick."""
    relative = path.relative_to(TESTS).as_posix()
    return not any(relative == name or relative.startswith(f"{name}/") for name in NOT_QUICK)


def mark_quick(items: Iterable[pytest.Item]) -> None:
    """Mark the quick tests."""
    for item in items:
        if is_quick(item.path) and not any(item.get_closest_marker(name) for name in _LONG):
            item.add_marker("quick")
