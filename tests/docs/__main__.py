"""``python -m tests.docs`` makes the generated parts of the pages anew, ``--examples`` what the examples print too.

``--pictures`` draws the terminal and the page. ``--settings`` first records anew which settings the runtime reads.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .console import rewrite_examples
from .contract_pages import write_missing_pages
from .generated import rewrite
from .man_page import MAN_PAGE, man_page
from .pages import ROOT, all_pages
from .setting_exercise import RECORD, run_exercise


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument("--examples", action="store_true", help="run the console examples and show what they print now")
    parser.add_argument("--pictures", action="store_true", help="draw the pictures, and nothing else")
    parser.add_argument("--settings", action="store_true", help="run the tests that use every setting (half a minute)")
    parser.add_argument("pages", metavar="PAGE", nargs="*", type=Path, help="only these pages")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))  # as the tests have it: some tables are made from what they check
    if options.pictures:
        from .pictures import write_pictures
        from .web_picture import write_web_picture

        for path in (*write_pictures(), write_web_picture()):
            print(f"{path.relative_to(ROOT)} is brought up to date")
        return 0
    if options.settings:
        RECORD.write_text(run_exercise())
    for path in write_missing_pages():
        print(f"{path.relative_to(ROOT)} is new: write an example into it")
    if not options.pages and MAN_PAGE.read_text() != man_page():
        MAN_PAGE.write_text(man_page())
        print(f"{MAN_PAGE.relative_to(ROOT)} is brought up to date")
    for path in map(Path.resolve, options.pages or all_pages()):
        changed = rewrite(path)
        if options.examples:
            changed = rewrite_examples(path) or changed
        if changed:
            print(f"{path.relative_to(ROOT)} is brought up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
