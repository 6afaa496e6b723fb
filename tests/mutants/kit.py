"""The conformance conversation in this process: prints what is wrong, and ends with 1 when something is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hermes.surfaces.embedding.agent import Agent
from hermes.testing import HostConversation, RecordedRequest, ScriptedProvider
from hermes.testing.hosts.conversation import MESSAGE, PLUGINS


def main() -> int:
    with TemporaryDirectory() as name:
        folder = Path(name)
        conversation = HostConversation(folder / "recording.jsonl")
        answer, requests = _run(folder, conversation)
        found = conversation.breaches(answer, requests, platform="embedding")
    print("\n".join(found) or "every check holds [100%]")
    return int(bool(found))


def _run(folder: Path, conversation: HostConversation) -> tuple[str, list[RecordedRequest]]:
    with ScriptedProvider(conversation.reply) as provider:
        conversation.install(folder / "home" / "plugins")
        model = {"provider": "custom", "default": "scripted", "base_url": provider.base_url, "api_key": "test-key"}
        config = {
            "model": model,
            "plugins": {"enabled": PLUGINS},
            "agent": {"api_max_retries": 2},
            "approvals": {"reviewer": "model"},
        }
        (folder / "home" / "config.yaml").write_text(json.dumps(config))
        with Agent(home=folder / "home", cwd=folder) as agent:
            answer = agent.run(MESSAGE).answer
        return answer, provider.requests


if __name__ == "__main__":
    sys.exit(main())
