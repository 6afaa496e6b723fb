"""Placeholders in the input: a long pasted text, or an image, is shown as a few words and sent whole."""

from __future__ import annotations

import tempfile
from pathlib import Path

#: Pasted text with more lines or characters than this is folded.
MOST_LINES = 8
MOST_CHARACTERS = 1_000


class PastedBlocks:
    """The texts behind the placeholders of one prompt. A placeholder that is edited is ordinary text."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def fold(self, text: str) -> str:
        """What to insert for a pasted text: itself, or a placeholder when it is long."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.rstrip("\n").count("\n") + 1
        if lines > MOST_LINES:
            return self._placeholder(f"pasted {lines:,} lines", text)
        if len(text) > MOST_CHARACTERS:
            return self._placeholder(f"pasted {len(text):,} characters", text)
        return text

    def add_image(self, data: bytes) -> str:
        """Keep an image until the prompt ends; returns its placeholder, which is replaced by the path of a file."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="hermes-pasted-")
        number = sum(name.startswith("[image ") for name in self._texts) + 1
        path = Path(self._folder.name, f"image-{number}.png")
        path.write_bytes(data)
        self._texts[f"[image {number}]"] = f'@"{path}"'
        return f"[image {number}]"

    def expand(self, text: str) -> str:
        """The text with everything that its placeholders stand for."""
        for placeholder in self._texts:
            if placeholder in text:
                text = text.replace(placeholder, self._texts[placeholder])
        return text

    def placeholder_before(self, text: str) -> str:
        """The placeholder that the text ends with; empty when it ends with none."""
        return next((placeholder for placeholder in self._texts if text.endswith(placeholder)), "")

    def close(self) -> None:
        """Remove the images."""
        if self._folder is not None:
            self._folder.cleanup()

    def _placeholder(self, words: str, text: str) -> str:
        name = f"[{words}]"
        number = 2
        while self._texts.get(name, text) != text:
            name = f"[{words}, {number}]"
            number += 1
        self._texts[name] = text
        return name
