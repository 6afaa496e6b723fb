"""The process of ``hermes gateway run``: one per home, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from hermes.base.config.schema.sections import Config
from hermes.base.errors import HermesError, did_you_mean
from hermes.base.http_server.home_lock import single_instance
from hermes.base.http_server.listen_address import ListenAddress
from hermes.base.http_server.principals import API_KEY_VARIABLE, read_principals
from hermes.base.http_server.stopping import StopEvent, fastest_loop, stop_on_signals
from hermes.host import Host, HostOptions
from hermes.service.dispatch.choose import check_provider, missing_workers, surface_config
from hermes.surfaces.cli import open_home
from hermes.surfaces.cli.failures import serving_packages
from hermes.surfaces.cli.terminal import plain, print_note, print_warnings, warn
from hermes.surfaces.gateway.gateway import Gateway
from hermes.surfaces.gateway.schedules import ScheduleService
from hermes.surfaces.gateway.status import write_status

if TYPE_CHECKING:
    from hermes.surfaces.openai_api.serve import ApiService
    from hermes.surfaces.web.server.embedded import EmbeddedPage

SURFACE = "gateway"


def run_gateway(args: argparse.Namespace) -> int:
    """Run the platforms and the API until SIGINT or SIGTERM."""
    home, redactor, loaded = open_home(verbose=args.verbose)
    has_api = loaded.config.gateway.api.enabled and not args.no_api
    names = _wanted(loaded.config, args.platform, has_api=has_api)
    options = HostOptions(
        provider=args.provider,
        model=args.model,
        plugins=args.plugin,
        platform=SURFACE,
        platforms=names,
        unattended=True,
        hide_memory=True,
    )
    with (
        single_instance(home, "gateway", "gateway"),
        Host(home, surface_config(loaded.config), options, redactor=redactor) as host,
        ExitStack() as stack,
    ):
        check_provider(host)
        usable, unusable = usable_platforms(host, names)
        notices = [f"platform {name}: {why}" for name, why in unusable.items()]
        web = _web_services(host, stack, notices, has_page=not args.no_web) if has_api else {}
        print_warnings((*loaded.warnings, *host.notices, *missing_workers(host), *notices), redactor.redact)
        if not usable and not web:
            raise HermesError("no platform can be run; see the warnings above and 'hermes doctor'")
        gateway = Gateway(host, usable, services=[ScheduleService(), *web.values()])
        for service in web.values():
            gateway.turn_entries.update(service.entries)
        gateway.unusable = {name: redactor.redact(why) for name, why in unusable.items()}
        report = ConnectionReport(gateway)

        def status_changed() -> None:
            write_status(gateway)
            report.update()

        gateway.on_status = status_changed
        try:
            with asyncio.Runner(loop_factory=fastest_loop()) as runner:
                runner.run(_serve(gateway, f"Gateway: {', '.join([*gateway.platforms, *web])}"))
        finally:
            write_status(gateway, is_over=True)
    return 0


def _web_services(
    host: Host, stack: ExitStack, notices: list[str], *, has_page: bool
) -> dict[str, ApiService | EmbeddedPage]:
    """What is served over HTTP, by the text that names it; what cannot be served is a notice."""
    try:
        page = embedded_page(host, notices) if has_page else None
        service = stack.enter_context(api_service(host, page))
    except HermesError as error:
        notices.append(f"the API is not served: {error}")
        return {}
    served: dict[str, ApiService | EmbeddedPage] = {f"API at {service.url}": service}
    if page is not None:
        served[f"page at {page.url(service.url.removesuffix('/v1'))}"] = page
    return served


def embedded_page(host: Host, notices: list[str]) -> EmbeddedPage | None:
    """The page at the address of the API; None, and a notice, when it would be open to others."""
    with serving_packages("gateway"):
        from hermes.surfaces.web.server.access import TOKEN_VARIABLE
        from hermes.surfaces.web.server.embedded import EmbeddedPage
        from hermes.surfaces.web.server.process import page_access
    try:
        return EmbeddedPage(host, page_access(host.config.gateway.api.host, os.environ.get(TOKEN_VARIABLE, "")))
    except HermesError as error:
        notices.append(f"the page is not served: {error}")
        return None


def api_service(host: Host, page: EmbeddedPage | None = None) -> ApiService:
    """The OpenAI-compatible API of the host, as the configuration says. Raises ``HermesError`` when it cannot be.

    ``page`` answers what is none of the API's paths.
    """
    settings = host.config.gateway.api
    with serving_packages("gateway"):
        from hermes.base.http_server.server import LibraryLog, log_libraries
        from hermes.surfaces.openai_api.serve import ApiService
    log_libraries(LibraryLog("hermes.api"))
    principals = read_principals(host.config, os.environ, host.redactor, API_KEY_VARIABLE)
    address = ListenAddress(settings.host, settings.port)
    return ApiService(host, address, principals, fallback=None if page is None else page.app)


def _wanted(config: Config, only: list[str], *, has_api: bool) -> list[str]:
    configured = [name for name, settings in config.gateway.platforms.items() if settings.enabled]
    unknown = [name for name in only if name not in config.gateway.platforms]
    if unknown:
        hint = did_you_mean(unknown[0], config.gateway.platforms)
        raise HermesError(f"there is no gateway.platforms.{unknown[0]} in config.yaml{hint}")
    names = only or configured
    if not names and not has_api:
        raise HermesError(
            "no platform is configured; add one to gateway.platforms in config.yaml ('hermes plugins list' shows which "
            "plugins offer one)"
        )
    return names


def usable_platforms(host: Host, names: list[str]) -> tuple[list[str], dict[str, str]]:
    """The platforms that can be run, and why each of the others cannot."""
    from hermes.surfaces.gateway.adapter import adapter_config, entry_of

    entries = {entry.name: entry for entry in map(entry_of, host.plugins.offers("platform"))}
    usable: list[str] = []
    problems: dict[str, str] = {}
    for name in names:
        entry = entries.get(name)
        if entry is None:
            offered = ", ".join(sorted(entries)) or "none"
            problems[name] = f"no loaded plugin offers it (offered: {offered}); see 'hermes plugins list'"
            continue
        host.plugins.take("platform", name)
        problem = ""
        try:
            if not entry.check_fn():
                problem = f"what it needs is missing; {entry.install_hint or 'see its documentation'}"
            elif entry.validate_config is not None and not entry.validate_config(
                adapter_config(name, host.config.gateway.platforms[name])
            ):
                needed = ", ".join(entry.required_env)
                problem = f"its settings are not complete{f' (it needs {needed})' if needed else ''}"
        except HermesError as error:
            problem = str(error)
        except Exception as error:  # code of a plugin
            problem = f"its check failed: {type(error).__name__}: {error}"
        if problem:
            problems[name] = problem
        else:
            usable.append(name)
    return usable, problems


class ConnectionReport:
    """Says on stderr when a platform cannot be connected or is lost, why, and when it is connected again."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._troubled: set[str] = set()

    def update(self) -> None:
        """Report what has changed. Further attempts that fail are not reported."""
        for one in self._gateway.statuses:
            if one.name in self._gateway.unusable:
                continue  # named before the start
            if one.state == "connected" and one.name in self._troubled:
                self._troubled.remove(one.name)
                print_note(f"Platform {plain(one.name)} is connected.")
            elif one.state in ("waiting", "failed") and one.name not in self._troubled:
                self._troubled.add(one.name)
                again = "it is not tried again" if one.state == "failed" else "it is tried again"
                warn(f"platform {one.name} is not connected: {one.error}; {again} (see: hermes gateway status)")


async def _serve(gateway: Gateway, line: str) -> None:
    stop = StopEvent()
    stop_on_signals(stop)
    await gateway.run(stop, started=lambda: print(line, flush=True), report=print_note)
