"""Real git repositories for tests, and plugins to put into them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MANIFEST = "name: {name}\nversion: 1.0.0\ndescription: A plugin.\n"
CODE = "def register(ctx):\n    pass\n"


def write_plugin(folder: Path, manifest: str = "", code: str = CODE, **files: str) -> Path:
    """A plugin in a folder; ``files`` are named with ``__`` for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plugin.yaml").write_text(manifest or MANIFEST.format(name=folder.name))
    (folder / "__init__.py").write_text(code)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


class Repository:
    """A repository on disk, fetched through its file:// URL."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch", "main")

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def commit(self, tag: str = "") -> str:
        """Commit everything in the folder; returns the commit's id."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "work")
        if tag:
            self.git("tag", tag)
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str) -> str:
        identity = {f"GIT_{who}_{what}": "x@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()
