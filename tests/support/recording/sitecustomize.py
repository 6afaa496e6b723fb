"""Makes every interpreter of a recording run record the settings that it reads, see ``support.setting_reads``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
try:
    import setting_reads  # pyright: ignore[reportMissingImports, reportUnusedImport]  # noqa: F401
finally:
    sys.path.pop()
