"""Images in a message: named on the command line, typed, quoted or pasted."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.images.attachments import MAX_IMAGES, image_part, image_type, split_images, with_images
from hermes.base.errors import HermesError

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
KINDS = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0rest",
    "image/gif": b"GIF89arest",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPrest",
}


@pytest.fixture
def folder(workdir: Path) -> Path:
    for name in ("dot.png", "my dot.png", "it's.PNG", "sub/deep.png", "ünïcode.png"):
        (workdir / name).parent.mkdir(exist_ok=True)
        (workdir / name).write_bytes(PNG)
    (workdir / "fake.png").write_text("not an image")
    (workdir / "notes.txt").write_text("dot.png")
    return workdir


@pytest.mark.parametrize("kind", KINDS)
def test_the_content_decides_what_it_is(workdir: Path, kind: str) -> None:
    (workdir / "picture.bin").write_bytes(KINDS[kind])
    assert image_part(workdir / "picture.bin")["image_url"]["url"].startswith(f"data:{kind};base64,")


@pytest.mark.parametrize(
    ("typed", "text", "count"),
    [
        ("look at dot.png", "look at dot.png", 1),
        ("look at @dot.png please", "look at dot.png please", 1),
        ("what is in dot.png?", "what is in dot.png?", 1),
        ("(dot.png, sub/deep.png)", "(dot.png, sub/deep.png)", 2),
        ("./dot.png", "./dot.png", 1),
        ("'my dot.png' and \"it's.PNG\"", "'my dot.png' and \"it's.PNG\"", 2),
        ("@'my dot.png' now", "'my dot.png' now", 1),
        (r"my\ dot.png", r"my\ dot.png", 1),
        (r"compare my\ dot.png, dot.png!", r"compare my\ dot.png, dot.png!", 2),
        ("dot.png and dot.png", "dot.png and dot.png", 1),
        ("ünïcode.png", "ünïcode.png", 1),
        ("line one\nsub/deep.png\nline three", "line one\nsub/deep.png\nline three", 1),
        # No images, or none that can be meant.
        ("missing.png", "missing.png", 0),
        ("fake.png is broken", "fake.png is broken", 0),
        ("mail me@dot.png", "mail me@dot.png", 0),
        ("http://example.com/dot.png", "http://example.com/dot.png", 0),
        ("notes.txt", "notes.txt", 0),
        ("@notes.txt", "@notes.txt", 0),
        ("don't look", "don't look", 0),
        ("", "", 0),
    ],
)
def test_paths_in_a_message(folder: Path, typed: str, text: str, count: int) -> None:
    found, parts = split_images(typed, folder)
    assert (found, len(parts)) == (text, count)
    assert all(part["image_url"]["url"].startswith("data:image/png;base64,iVBOR") for part in parts)


def test_absolute_paths_and_addresses_of_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    elsewhere = folder / "sub"
    spaced = str(folder / "my dot.png").replace(" ", "%20")
    for typed in (f"{folder}/dot.png", "~/dot.png", "@~/dot.png", f"file://{spaced}", "../dot.png"):
        assert len(split_images(typed, elsewhere)[1]) == 1, typed


def test_a_marked_image_that_cannot_be_sent_is_an_error(folder: Path) -> None:
    with pytest.raises(HermesError, match=r"@ .*fake\.png: not a PNG"):
        split_images("@fake.png", folder)


def test_a_large_image_is_not_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.agent.images.attachments.MAX_IMAGE_BYTES", 10)
    assert split_images("dot.png", folder) == ("dot.png", [])
    with pytest.raises(HermesError, match="at most 10 are sent"):
        split_images("@dot.png", folder)
    with pytest.raises(HermesError, match="--image"):
        image_part(folder / "dot.png")


def test_there_is_an_end_to_images(folder: Path) -> None:
    names = [f"{number}.png" for number in range(MAX_IMAGES + 3)]
    for name in names:
        (folder / name).write_bytes(PNG)
    assert len(split_images(" ".join(names), folder)[1]) == MAX_IMAGES


@pytest.mark.parametrize("name", ["missing.png", "sub", "fake.png", "nul\0.png"])
def test_a_wrong_path_is_a_clear_error(folder: Path, name: str) -> None:
    with pytest.raises(HermesError, match="--image"):
        image_part(folder / name)


def test_a_message_with_images_is_a_list(folder: Path) -> None:
    text, parts = split_images("dot.png", folder)
    assert with_images(text, parts) == [{"type": "text", "text": "dot.png"}, *parts]
    assert with_images("hello", []) == "hello"


@given(st.text(), st.binary(max_size=20))
def test_anything_can_be_typed(typed: str, data: bytes) -> None:
    text, parts = split_images(f"{typed} x.png", Path("/nonexistent"))
    assert (text, parts) == (f"{typed} x.png", [])
    image_type(data)
