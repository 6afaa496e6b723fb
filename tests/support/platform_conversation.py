"""A whole conversation with a gateway on one platform: answers, a file, approvals by message, and restarts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol

from hermes.base.config.schema.gateway import GatewayPlatformConfig
from hermes.testing import RecordedRequest, by_step, text, tool_call
from support.gateway_rig import GatewayRig, RunningGateway, SwitchedProvider
from support.waiting import wait_until

NOTES = b"Water the basil.\n"


class PlatformPeer(Protocol):
    """The owner on a platform."""

    #: Its name, and its settings.
    platform: str
    settings: GatewayPlatformConfig

    def say(self, text: str) -> None:
        """Send a message to the agent."""
        ...

    def send_file(self, text: str, name: str, data: bytes) -> None:
        """Send a message with a file."""
        ...

    def heard(self) -> list[str]:
        """The messages of the agent, in order."""
        ...


def answer(request: RecordedRequest) -> Any:
    """A model that removes a folder when it is asked to clean, and otherwise repeats what was said."""
    said = request.last_user_text
    if "clean" in said:
        folder = re.search(r"clean (\w+)", said)
        assert folder is not None
        return by_step(tool_call("terminal", {"command": f"rm -r {folder[1]}"}), text("Cleaned."))(request)
    return text(f"Answer to {next(line for line in said.splitlines() if line and not line.startswith('Subject:'))}")


class PlatformConversation:
    """What the owner says and hears."""

    def __init__(self, home: Path, workdir: Path, provider: SwitchedProvider, peer: PlatformPeer) -> None:
        provider.script = answer
        self.peer, self.workdir, self.provider = peer, workdir, provider
        self._rig = GatewayRig(home, workdir, provider)
        self._count = 0

    def start(self) -> RunningGateway:
        """Start a gateway with the platform, and wait until it is connected."""
        peer = self.peer
        found = self._rig.start(platforms=[peer.platform], others={peer.platform: peer.settings})
        wait_until(lambda: peer.platform in found.gateway.adapters, f"a connection to {peer.platform}")
        return found

    def close(self) -> None:
        self._rig.close()

    def hear(self) -> str:
        """The next message of the agent."""
        self._count += 1
        wait_until(lambda: len(self.peer.heard()) >= self._count, f"message {self._count} of the agent")
        return self.peer.heard()[self._count - 1]

    def assert_nothing_else(self) -> None:
        heard = self.peer.heard()
        assert len(heard) == self._count, heard[self._count :]


def hold_conversation(home: Path, workdir: Path, provider: SwitchedProvider, peer: PlatformPeer) -> None:
    """The owner talks to the agent across two restarts; every message is answered, and none twice."""
    for folder in ("one", "two"):
        (workdir / folder).mkdir()
    talk = PlatformConversation(home, workdir, provider, peer)
    try:
        gateway = talk.start()
        peer.say("hello")
        assert talk.hear() == "Answer to hello"

        peer.send_file("what is in it?", "../my notes.txt", NOTES)
        talk.hear()
        said = provider.requests[-1].last_user_text
        named = re.search(r"\[attached file: (attachments/\S+/.*my notes\.txt)\]", said)
        assert named is not None, said
        assert (workdir / named[1]).read_bytes() == NOTES

        peer.say("clean one")
        assert "rm -r one" in talk.hear()
        assert (workdir / "one").exists()
        peer.say("/approve")
        assert {talk.hear(), talk.hear()} >= {"Cleaned."}
        assert not (workdir / "one").exists()

        peer.say("clean two")
        assert "rm -r two" in talk.hear()
        gateway.stop()
        peer.say("are you back?")
        gateway = talk.start()
        assert (workdir / "two").exists(), "an approval outlives its process"
        peer.say("/approve")
        after = [talk.hear(), talk.hear(), talk.hear()]
        assert "Cleaned." in after and any("Answer to are you back?" in one for one in after), after
        assert not (workdir / "two").exists()

        gateway.stop()
        talk.start()
        peer.say("still there?")
        assert "Answer to still there?" in talk.hear()
        talk.assert_nothing_else()
    finally:
        talk.close()
