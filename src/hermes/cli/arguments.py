"""The argument parser that every command is given."""

from __future__ import annotations

import argparse
from typing import Any


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that takes options by their full names only, in sub-commands too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        # An abbreviation that works today would mean something else once an option is added.
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)
