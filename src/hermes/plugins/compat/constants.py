"""``hermes_constants``: where the host keeps things."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hermes.models.profiles import PROFILES
from hermes.plugins.compat.host import Names, home_of

if TYPE_CHECKING:
    from hermes.plugins.context import Parts


def names(parts: Parts) -> Names:
    """The home and the places in it."""

    def get_hermes_home() -> Path:
        return home_of(parts)

    def display_hermes_home() -> str:
        home = home_of(parts)
        try:
            return f"~/{home.relative_to(Path.home())}"
        except (ValueError, RuntimeError):
            return str(home)

    def get_hermes_dir(new_subpath: str, old_name: str) -> Path:
        old = home_of(parts) / old_name
        return old if old.is_dir() and any(old.iterdir()) else home_of(parts) / new_subpath

    return {
        "OPENROUTER_BASE_URL": PROFILES["openrouter"].base_url,
        "display_hermes_home": display_hermes_home,
        "get_config_path": lambda: home_of(parts) / "config.yaml",
        "get_default_hermes_root": get_hermes_home,
        "get_env_path": lambda: home_of(parts) / ".env",
        "get_hermes_dir": get_hermes_dir,
        "get_hermes_home": get_hermes_home,
        "get_skills_dir": lambda: home_of(parts) / "skills",
    }
