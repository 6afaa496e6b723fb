"""The server that all HTTP surfaces share: its parts need no SDK, one server per home, pages of other sites refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes.base.errors import HermesError
from hermes.base.http_server.home_lock import single_instance
from hermes.base.http_server.listen_address import ListenAddress, base_url, check_listen_address
from hermes.base.http_server.principals import Principals
from hermes.base.http_server.requests import is_from_program
from hermes.base.http_server.server import listening

_WITHOUT_SDK = """
import sys
sys.modules["a2a"] = None  # as if it were not installed
import hermes.surfaces.mcp_server.http, hermes.surfaces.cli.extend.mcp.command
import hermes.base.http_server.server, hermes.base.http_server.requests, hermes.base.http_server.rate_limits
"""


def test_serving_mcp_over_http_does_not_need_the_sdk_of_a2a() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_SDK], check=True, timeout=60)


def test_a_home_has_one_server_of_a_kind(home: Path) -> None:
    with single_instance(home, "gate", "gatekeeper"), single_instance(home, "other", "other server"):
        second = single_instance(home, "gate", "gatekeeper")
        with pytest.raises(HermesError, match=r"another gatekeeper uses .*; stop that one first"):
            second.__enter__()
    with single_instance(home, "gate", "gatekeeper"):
        pass
    home.joinpath("file").touch()
    unwritable = single_instance(home / "file" / "home", "gate", "gatekeeper")
    with pytest.raises(HermesError, match=r"the home .*/file/home cannot be written: Not a directory; make it "):
        unwritable.__enter__()


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"host": "127.0.0.1:8642"}, True),
        ({"host": "localhost:8642", "origin": "http://localhost:8642"}, True),
        ({"host": "[::1]:8642", "sec-fetch-site": "same-origin"}, True),
        ({"host": "localhost:8642", "origin": "http://localhost:3000"}, False),
        ({"host": "localhost:8642", "sec-fetch-site": "cross-site"}, False),
        ({"host": "evil.example.org:8642"}, False),
        ({"host": "[::1"}, False),
        ({}, False),
    ],
)
def test_without_a_token_only_programs_of_this_machine_call(headers: dict[str, str], allowed: bool) -> None:
    assert is_from_program(headers) is allowed


def test_an_open_address_needs_a_token() -> None:
    with pytest.raises(HermesError, match=r"set SOME_KEY in \.env, name callers under principals"):
        check_listen_address(ListenAddress("192.0.2.7"), Principals(token_variable="SOME_KEY"), is_published=False)


def test_a_port_in_use_is_reported() -> None:
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(HermesError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            listening("127.0.0.1", port).__enter__()
    assert base_url("0.0.0.0", 8642) == "http://127.0.0.1:8642"
    assert base_url("::1", 8642) == "http://[::1]:8642"
