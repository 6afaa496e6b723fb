"""OAuth sign-in at the terminal: shows the URL to open, and the code for the device flow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from hermes.base.config import Config
from hermes.base.errors import CredentialError
from hermes.base.http.client import HttpClient
from hermes.models.credentials.home_keys import sign_in_settings
from hermes.models.credentials.oauth import DeviceCode, Tokens, authorization_server, is_confidential_url
from hermes.models.credentials.sign_in import sign_in_on_another_device, sign_in_with_browser
from hermes.surfaces.cli.terminal import one_line, plain, web_browser


def sign_in(provider: str, config: Config, *, on_device: bool, open_browser: bool) -> Tokens:
    """Run the sign-in and return the tokens."""
    with closing(HttpClient()) as http:
        server = authorization_server(provider, sign_in_settings(config), http)
        ways = {"--device": server.settings.device_url, "": server.settings.authorization_url}
        way = "--device" if on_device or not ways[""] else ""
        if not ways[way]:
            name = "device_url" if way else "authorization_url"
            raise CredentialError(f"{provider}: providers.{provider}.oauth.{name} is not set in config.yaml")
        opener = web_browser() if open_browser else None
        if way:
            return sign_in_on_another_device(server, lambda code: _show_code(code, opener))
        return sign_in_with_browser(server, lambda address: _show_address(address, opener, ways["--device"]))


def _show_address(address: str, opener: Callable[[str], object] | None, device_url: str) -> None:
    print("Open this URL in a browser on this machine and sign in:")
    print(f"\n  {plain(address)}\n")
    if device_url:
        print("(If the browser is on another machine, press Ctrl-C and use --device.)")
    print("Waiting ...", flush=True)
    if opener is not None:
        opener(address)


def _show_code(code: DeviceCode, opener: Callable[[str], object] | None) -> None:
    print("Open this URL in any browser and enter the code:")
    print(f"\n  {one_line(code.address)}\n  {one_line(code.user_code)}\n")
    print("Waiting ...", flush=True)
    address = code.direct_address or code.address
    # Only open web pages, not files or other URLs the server may name.
    if opener is not None and is_confidential_url(address):
        opener(address)
