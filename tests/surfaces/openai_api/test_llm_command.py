"""The command ``llm`` with this agent as one of its models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider
from support.api_rig import served_api

_MODEL = """\
- model_id: hermes
  model_name: hermes-agent
  api_base: {url}
"""


@pytest.mark.slow
def test_it_asks_streams_and_continues_a_conversation(home: Path, workdir: Path, tmp_path: Path) -> None:

    def llm(*arguments: str) -> str:
        environment = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "unused"}
        command = [sys.executable, "-m", "llm", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    with (
        ScriptedProvider(["Good morning.", "Good evening.", "Good night."]) as provider,
        served_api(home, workdir, provider) as api,
    ):
        (tmp_path / "extra-openai-models.yaml").write_text(_MODEL.format(url=api.url))
        assert llm("-m", "hermes", "Say good morning.") == "Good morning."
        assert llm("-m", "hermes", "--no-stream", "-c", "And in the evening?") == "Good evening."
        assert llm("-m", "hermes", "-c", "And at night?") == "Good night."
        (session,) = api.host.sessions.list()
        assert session.turns == 3
