"""Registration of the platforms that ship with Hermes: their modules are imported when the platform is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.surfaces.gateway.adapter import PlatformConfig
    from hermes.surfaces.gateway.platforms.receiving import ReceivingAdapter
    from hermes.surfaces.gateway.platforms.settings import PlatformSettings


def platform_plugin(package: str, *, name: str, needs: Iterable[str] = (), **about: Any) -> Callable[[Any], None]:
    """The ``register`` of a package with a platform: ``NameAdapter`` of its module ``adapter``, ``NameSettings`` of its
    module ``settings``.

    ``needs`` are modules of the extra ``gateway``; ``about`` is what ``ctx.register_platform`` takes besides.
    """

    def read(config: PlatformConfig) -> PlatformSettings:
        kind: type[PlatformSettings] = getattr(import_module(f"{package}.settings"), f"{name.title()}Settings")
        return kind.read(config.extra, token=config.token or "")

    def is_valid(config: PlatformConfig) -> bool:
        return bool(read(config))

    def register(ctx: Any) -> None:
        def make(config: PlatformConfig) -> ReceivingAdapter[Any]:
            kind = getattr(import_module(f"{package}.adapter"), f"{name.title()}Adapter")
            return kind(config, read(config), ctx.http)

        ctx.register_platform(
            name=name,
            adapter_factory=make,
            check_fn=lambda: all(find_spec(module) is not None for module in needs),
            validate_config=is_valid,
            install_hint="hermes install gateway" if needs else "",
            **about,
        )

    return register
