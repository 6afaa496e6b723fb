"""A redaction mark stands for a secret: it is never written in the place of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes.tools.files.patch import run_patch
from hermes.tools.files.write_file import run_write_file
from hermes.tools.registry import ToolContext

MARK = "<redacted:LAB_KEY>"


@pytest.mark.parametrize(
    "args",
    [
        {"mode": "replace", "path": "settings", "old_string": f"key={MARK}", "new_string": "key=x"},
        {"mode": "replace", "path": "settings", "old_string": "port=1", "new_string": f"port=2\nkey={MARK}"},
        {
            "mode": "patch",
            "patch": f"*** Begin Patch\n*** Update File: settings\n@@\n key={MARK}\n-port=1\n+port=2\n*** End Patch",
        },
    ],
)
def test_a_patch_with_a_mark_is_refused(args: dict[str, Any], context: ToolContext, workdir: Path) -> None:
    (workdir / "settings").write_text("key=hidden-value\nport=1\n")
    answer = json.loads(run_patch(args, context))
    assert answer["success"] is False and "stands for a secret" in answer["error"]
    assert (workdir / "settings").read_text() == "key=hidden-value\nport=1\n"


def test_a_file_with_a_mark_is_not_written(context: ToolContext, workdir: Path) -> None:
    answer = json.loads(run_write_file({"path": "settings", "content": f"key={MARK}"}, context))
    assert "stands for a secret" in answer["error"]
    assert not (workdir / "settings").exists()
    assert "error" not in json.loads(run_write_file({"path": "settings", "content": "key=<redacted>"}, context))
