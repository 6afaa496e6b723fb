"""Which model file is run: the one that a person names, else the one that was installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.config.schema.sections import LocalConfig
from hermes.base.errors import ConfigError
from hermes.models.endpoint import Endpoint
from hermes.models.local.endpoint import is_embedded, is_local
from hermes.models.local.install.parts import WEIGHTS_FILE, InstalledRuntime, find_runtime, site_folder
from hermes.models.local.install.weights import find_model
from support.local_rig import ENDPOINT, ServiceFactory, write_gguf


def test_the_embedded_model(installed: Path) -> None:
    weights = find_model(LocalConfig(), {}, installed)
    assert weights == (site_folder(installed) / WEIGHTS_FILE, "smollm2-135m", 2048)
    assert weights.is_embedded


def test_a_variable_wins_over_the_configuration(installed: Path, tmp_path: Path) -> None:
    one, other = write_gguf(tmp_path / "one.gguf"), write_gguf(tmp_path / "other.gguf")
    settings = LocalConfig(model_path=str(one))
    assert find_model(settings, {}, installed).path == one
    assert find_model(settings, {"HERMES_LOCAL_MODEL": str(other)}, installed).path == other


@pytest.mark.parametrize(
    ("trained_for", "wanted", "window"), [(4096, None, 4096), (131_072, None, 8192), (131_072, 32_768, 32_768)]
)
def test_the_window_of_a_file(
    installed: Path, tmp_path: Path, trained_for: int, wanted: int | None, window: int
) -> None:
    path = write_gguf(tmp_path / "m.gguf", context_length=trained_for)
    weights = find_model(LocalConfig(model_path=str(path), context_length=wanted), {}, installed)
    assert (weights.name, weights.context_length) == ("m.gguf", window)
    assert not weights.is_embedded


def test_what_is_missing_is_named(home: Path, installed: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.gguf cannot be read: No such file"):
        find_model(LocalConfig(model_path=str(tmp_path / "nowhere.gguf")), {}, installed)
    (site_folder(home) / "xllamacpp" / "__init__.py").unlink()
    with pytest.raises(ConfigError, match="the embedded model is not installed; run: hermes local install"):
        find_model(LocalConfig(), {}, home)
    with pytest.raises(ConfigError, match=r"own\.gguf needs a runtime; run: hermes local install"):
        find_model(LocalConfig(model_path=str(write_gguf(tmp_path / "own.gguf"))), {}, home)


def test_versions_of_the_runtime(installed: Path) -> None:
    assert find_runtime(installed) == InstalledRuntime(site_folder(installed), "2026.10.1")
    known = [
        InstalledRuntime(Path(), version).is_known
        for version in ("2026.9.1", "2026.10.0", "2026.12.5", "2027.1", "0", "x")
    ]
    assert known == [False, True, True, False, False, False]


# -- endpoints ------------------------------------------------------------------------------------------------------


def test_endpoints_are_told_what_the_model_is_like(make_service: ServiceFactory, tmp_path: Path) -> None:
    other = Endpoint("http://127.0.0.1:9/v1", "m", "local")
    [embedded, untouched] = make_service().settled([ENDPOINT, other])
    assert untouched is other
    assert not is_local(other)
    assert is_embedded(embedded)
    assert embedded.sees_images is False
    path = write_gguf(tmp_path / "m.gguf")
    service = make_service(LocalConfig(model_path=str(path)))
    [mine] = service.settled([ENDPOINT])
    assert (mine.model, mine.context_length, mine.sees_images) == ("m.gguf", 4096, None)
    assert (is_embedded(mine), is_embedded(embedded)) == (False, True)


def test_it_stands_in_only_where_it_may(make_service: ServiceFactory) -> None:
    assert make_service().is_usable()
    assert not make_service(LocalConfig(enabled=False)).is_usable()
