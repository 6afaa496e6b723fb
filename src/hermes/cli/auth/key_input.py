"""A key from a person or a pipe. It is never shown."""

from __future__ import annotations

import sys

from hermes.cli.terminal import plain
from hermes.errors import CredentialError

#: No key is this long.
_LONGEST_KEY = 65_536


def key_from_stdin() -> str:
    """The key that a script gives on standard input."""
    return sys.stdin.read(_LONGEST_KEY).strip()


def key_from_terminal(provider: str) -> str:
    """The key that a person types; empty when they give none."""
    if not sys.stdin.isatty():
        raise CredentialError("there is no terminal to ask for the key at; give it on standard input with --key-stdin")
    import warnings
    from getpass import GetPassWarning, getpass

    with warnings.catch_warnings():
        warnings.simplefilter("error", GetPassWarning)
        try:
            return getpass(f"Key for {plain(provider)} (it is not shown): ").strip()
        except GetPassWarning:
            raise CredentialError("this terminal would show the key; use --key-stdin") from None
        except EOFError:
            return ""
