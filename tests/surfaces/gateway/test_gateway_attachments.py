"""Files of messages: stored in the workspaces of users who are let in, within limits; images are shown."""

from __future__ import annotations

import asyncio
import base64
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.principals import default_workspace
from hermes.base.config.schema.gateway import GatewayConfig
from hermes.surfaces.gateway.adapter import MessageEvent, MessageFile, Platform, SessionSource
from hermes.surfaces.gateway.chats.answers import turn_message
from hermes.surfaces.gateway.store.attachments import FOLDER, NOT_STORED, safe_name, store_files
from hermes.testing import RecordedRequest
from support.gateway_rig import GatewayRig, SwitchedProvider, answer_itself
from support.waiting import wait_for, wait_until

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def file(name: str, data: bytes, media_type: str = "text/plain", size: int | None = None) -> MessageFile:
    async def read(limit: int) -> bytes:
        return data[: limit + 1]

    return MessageFile(name, media_type, len(data) if size is None else size, read)


def event(*files: MessageFile, user: str = "alice", text: str = "look") -> MessageEvent:
    source = SessionSource(Platform("line"), user, user_id=user)
    return MessageEvent(text, source=source, message_id=f"file-{len(files)}", files=list(files))


def store(found: MessageEvent, workspace: Path, **limits: Any) -> str | list[dict[str, Any]]:
    """Store the files of a message; what the model is told."""

    async def blocking(work: Any, *args: Any) -> Any:
        return work(*args)

    asyncio.run(store_files(found, workspace.resolve(), GatewayConfig(**limits), blocking))
    return turn_message(found, workspace.resolve())


def test_files_are_stored_under_harmless_names(tmp_path: Path) -> None:
    names = ["../../.ssh/authorized_keys", "a.txt", "a.txt", ".bashrc", "x\u202etxt.exe\n", "ü" * 400 + ".pdf", ".."]
    found = event(*(file(name, name.encode()) for name in names))
    store(found, tmp_path)
    assert NOT_STORED not in found.metadata
    assert [Path(path).read_bytes() for path in found.media_urls] == [name.encode() for name in names]
    for path in map(Path, found.media_urls):
        assert path.parent.parent == tmp_path / FOLDER
        assert not path.name.startswith(".") and len(path.name.encode()) <= 150
        assert path.name.isprintable() and path.stat().st_mode & 0o777 == 0o600
    assert safe_name("") == "file" and safe_name("ü" * 400 + ".pdf").endswith("ü.pdf")


def test_a_second_delivery_has_the_same_paths(tmp_path: Path) -> None:
    first, second = event(file("a.txt", b"1")), event(file("a.txt", b"1"))
    store(first, tmp_path)
    store(second, tmp_path)
    assert first.media_urls == second.media_urls
    assert len(list((tmp_path / FOLDER).rglob("*.txt"))) == 1


def test_limits(tmp_path: Path) -> None:
    async def fails(limit: int) -> bytes:
        raise OSError("a secret address")

    message = store(
        event(
            file("said.bin", b"", size=1_001),
            file("unsaid.bin", b"x" * 1_001, size=0),
            MessageFile("gone.bin", "", 5, fails),
            file("fits.bin", b"x" * 1_000),
            file("no_room.bin", b"x" * 600),
        ),
        tmp_path,
        max_attachment_bytes=1_000,
        max_attachments_bytes=1_500,
    )
    assert isinstance(message, str)
    assert [path.name for path in tmp_path.rglob("*.bin")] == ["fits.bin"]
    told = message.splitlines()[2:]
    assert told[0].startswith(f"[attached file: {FOLDER}/") and told[0].endswith("/fits.bin]")
    assert [line.partition("stored: ")[2].partition(":")[0] for line in told[1:]] == [
        "said.bin",
        "unsaid.bin",
        "gone.bin",
        "no_room.bin",
    ]
    assert "1,000 bytes are allowed" in told[1] and "is full" in told[4] and "secret" not in message
    many = event(*(file(f"{number}.txt", b"x") for number in range(12)))
    store(many, tmp_path)
    assert len(many.media_urls) == 10 and len(many.metadata[NOT_STORED]) == 2
    off = store(event(file("a.txt", b"")), tmp_path, max_attachment_bytes=0)
    assert "files are not accepted here" in off


def test_links_in_the_workspace_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / FOLDER).symlink_to(outside)
    message = store(event(file("a.txt", b"x")), workspace)
    assert "could not be fetched or written" in message and list(outside.iterdir()) == []
    # An image that a tool of the user has replaced by a link to a picture of another one.
    (workspace / FOLDER).unlink()
    found = event(file("a.png", PNG, "image/png"))
    assert isinstance(store(found, workspace), list)
    (outside / "private.png").write_bytes(PNG)
    path = Path(found.media_urls[0])
    path.unlink()
    path.symlink_to(outside / "private.png")
    assert isinstance(turn_message(found, workspace.resolve()), str)


def test_images_are_shown_by_what_they_are(tmp_path: Path) -> None:
    message = store(event(file("a.png", PNG, "image/svg+xml"), file("b.png", b"<svg>", "image/png")), tmp_path)
    assert isinstance(message, list)
    told, image = message
    assert "[attached image: " in told["text"] and "[attached file: " in told["text"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


def test_files_that_an_adapter_stored_are_copied(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    cached = tmp_path / "cache" / "voice.ogg"
    cached.write_bytes(b"Ogg")
    found = event()
    found.media_urls, found.media_types = [str(cached), "https://x.test/a"], ["audio/ogg"]
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    message = store(found, workspace)
    assert f"[attached file: {FOLDER}/" in message and "[attached file: a]" in message
    assert [path.read_bytes() for path in workspace.rglob("voice.ogg")] == [b"Ogg"]


def test_only_who_was_let_in_stores_files(rig: GatewayRig) -> None:
    running = rig.start(line={"allowed_users": ["bob"], "owners": []}, pairing=False)
    client = rig.client()
    running.on_loop(running.gateway.receive(event(file("a.txt", b"x"), user="eve")))
    running.on_loop(running.gateway.receive(event(file("a.txt", b"for bob"), user="bob", text="")))
    told = client.hear(1, "bob")[0]
    named = told.removeprefix("Answer to [attached file: ").removesuffix("]")
    workspace = default_workspace(rig.home, "line:bob")
    assert (workspace / named).read_bytes() == b"for bob"
    wait_until(lambda: len(rig.provider.requests) == 1, "one turn")
    assert len(list(rig.home.rglob("a.txt"))) == 1, "nothing of a stranger is stored"


@pytest.mark.parametrize("mode", ["steer", "queue"])
def test_a_message_with_files_gets_a_turn_of_its_own(rig: GatewayRig, provider: SwitchedProvider, mode: str) -> None:
    go = threading.Event()

    def waits(request: RecordedRequest) -> Any:
        wait_for(go)
        return answer_itself(request)

    provider.script = waits
    running = rig.start(when_busy=mode)
    client = rig.client()
    client.say("first")
    wait_until(lambda: provider.requests, "the first turn")
    running.on_loop(running.gateway.receive(event(file("a.txt", b"x"), text="second")))
    go.set()
    heard = client.hear(2)
    assert heard[0] == "Answer to first" and heard[1].startswith("Answer to second\n\n[attached file: ")
