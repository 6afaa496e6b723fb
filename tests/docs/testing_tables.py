"""Tables of the test kit: rules of plugins, checks of hosts, faults of the fault server, fixtures of pytest."""

from __future__ import annotations

import inspect

from hermes.testing import FAULTS, pytest_plugin
from hermes.testing.conformance.rules import RULES
from hermes.testing.hosts.checks import CHECKS

from .markdown import code, table


def conformance_rules() -> str:
    """Every rule with how grave it is."""
    rows = [(code(name), rule.severity, rule.meaning.replace("**kwargs", "`**kwargs`")) for name, rule in RULES.items()]
    return table(("rule", "severity", "broken when"), rows)


def host_checks() -> str:
    """Every check of a host."""
    return table(("check", "holds when"), [(code(check.__name__), _first_line(check)) for check in CHECKS])


def faults() -> str:
    """Every fault with what Hermes makes of it."""
    rows = [(code(fault.name), fault.what, code(fault.reason or "") or "answered") for fault in FAULTS.values()]
    return table(("fault", "what the server does", "how the request ends"), rows)


def fixtures() -> str:
    """Every fixture with what it gives a test."""
    found = {name: value for name, value in vars(pytest_plugin).items() if type(value).__name__.startswith("Fixture")}
    rows = [(code(name), _first_line(value)) for name, value in found.items()]
    return table(("fixture", "what it does"), rows)


def _first_line(fixture: object) -> str:
    return (inspect.getdoc(fixture) or "").partition("\n\n")[0].replace("``", "`")
