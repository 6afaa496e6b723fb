"""Registration of the platforms that ship with Hermes: their modules are imported when the platform is used."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.surfaces.gateway.adapter import PlatformConfig
    from hermes.surfaces.gateway.platforms.receiving import ReceivingAdapter
    from hermes.surfaces.gateway.platforms.settings import PlatformSettings


def register_platform(
    ctx: Any, package: str, *, adapter: str, settings: str, needs: Iterable[str] = (), **about: Any
) -> None:
    """Register the platform of a package: a class of its module ``adapter``, with one of its module ``settings``.

    ``needs`` are modules of the extra ``gateway``; ``about`` is what ``ctx.register_platform`` takes besides.
    """

    def read(config: PlatformConfig) -> PlatformSettings:
        kind: type[PlatformSettings] = getattr(import_module(f"{package}.settings"), settings)
        return kind.read(config.extra, token=config.token or "")

    def is_valid(config: PlatformConfig) -> bool:
        return bool(read(config))

    def make(config: PlatformConfig) -> ReceivingAdapter[Any]:
        return getattr(import_module(f"{package}.adapter"), adapter)(config, read(config), ctx.http)

    ctx.register_platform(
        adapter_factory=make,
        check_fn=lambda: all(find_spec(name) is not None for name in needs),
        validate_config=is_valid,
        install_hint="hermes install gateway" if needs else "",
        **about,
    )
