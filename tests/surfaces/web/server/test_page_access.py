"""Access to the page: the token, the cookie, Host, Origin and CSRF, the security headers, paths of files."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Generator
from pathlib import Path

import pytest

from hermes.base.errors import HermesError
from hermes.surfaces.web.server.access import PageAccess
from hermes.surfaces.web.server.process import page_access
from support.web_rig import TOKEN, Page, page_over


@pytest.fixture
def page(home: Path) -> Generator[Page]:
    with page_over(home) as made:
        yield made


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address(page: Page) -> None:
    answer = page.request("GET", f"/costs?days=7&token={TOKEN}")
    assert answer.status == 303
    assert answer.headers["location"] == f"{page.access.folder}/costs?days=7"
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=strict" in answer.headers["set-cookie"]
    assert TOKEN not in answer.headers["set-cookie"]
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert page.request("GET", f"{page.access.folder}/", Cookie=cookie).status == 200
    assert page.request("GET", f"{page.access.folder}/api/sessions", Cookie=cookie).json == []


def test_the_cookie_is_for_a_folder_that_other_servers_do_not_know(page: Page) -> None:
    """Cookies know no ports: what goes to every path of 127.0.0.1 goes to every server of the machine."""
    folder = page.access.folder
    assert len(folder) > 16
    answer = page.request("GET", f"/?token={TOKEN}")
    assert f"Path={folder};" in answer.headers["set-cookie"] + ";"
    cookie = page.sign_in()
    for path in ("/", "/api/sessions", f"{folder}x/", "/costs"):
        refused = page.request("GET", path, Cookie=cookie)
        assert refused.status == 401
        assert folder not in refused.text
    assert PageAccess().folder != PageAccess().folder
    assert PageAccess(TOKEN).folder == folder and TOKEN not in folder


def test_a_token_in_the_folder_is_exchanged_too(page: Page) -> None:
    answer = page.request("GET", f"{page.access.folder}/sessions/a%20b?tab=chat&token={TOKEN}")
    assert answer.headers["location"] == f"{page.access.folder}/sessions/a%20b?tab=chat"


def test_the_redirect_stays_on_this_server(page: Page) -> None:
    answer = page.request("GET", f"//evil.example/?token={TOKEN}")
    assert answer.headers["location"] == f"{page.access.folder}/evil.example/"


@pytest.mark.parametrize("cookie", ["", "hermes_page_1=x", "hermes_page=\x01", "{name}=wrong"])
def test_without_the_cookie_nothing_is_shown(page: Page, cookie: str) -> None:
    headers = {"host": page.server.removeprefix("http://")}
    cookie = cookie.replace("{name}", PageAccess.cookie_name(headers))
    folder = page.access.folder
    refused = page.request("GET", f"{folder}/", Cookie=cookie)
    assert refused.status == 401
    assert "Sign in" in refused.text
    for path in ("/api/sessions", "/api/live", "/api/approvals"):
        assert page.request("GET", folder + path, Cookie=cookie).status == 401


def test_a_wrong_token_is_refused_and_can_be_entered_again(page: Page) -> None:
    assert page.request("GET", "/?token=wrong").status == 401
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert page.request("POST", "/sign-in", b"token=wrong", **form).status == 401
    signed_in = page.request("POST", "/sign-in", f"token={TOKEN}".encode(), **form)
    assert (signed_in.status, signed_in.headers["location"]) == (303, f"{page.access.folder}/")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1"])
def test_a_name_that_others_may_point_here_is_refused(page: Page, host: str) -> None:
    assert page.request("GET", "/", Cookie=page.sign_in(), Host=host).status == 421


def test_a_public_name_may_be_allowed(home: Path) -> None:
    access = page_access("127.0.0.1", "", "https://agent.example.org")
    assert access.is_host("agent.example.org")
    assert access.is_host("localhost:8643")
    assert not access.is_host("example.org")


def test_a_change_needs_the_csrf_token_and_the_own_origin(page: Page) -> None:
    cookie, path = page.sign_in(), f"{page.access.folder}/api/approvals/appr_none"
    body = {"answer": "once"}
    good = {"Cookie": cookie, "X_Hermes_Csrf": page.access.csrf}
    assert page.request("POST", path, body, Cookie=cookie).status == 403
    assert page.request("POST", path, body, Cookie=cookie, X_Hermes_Csrf="wrong").status == 403
    assert page.request("POST", path, body, **good, Origin="http://evil.example").status == 403
    assert page.request("POST", path, body, **good, Sec_Fetch_Site="cross-site").status == 403
    assert page.request("POST", path, body, **good, Sec_Fetch_Site="same-site").status == 403
    assert page.request("POST", path, body, **good, Origin=page.server).json["error"].startswith("there is no question")


def test_pages_of_other_sites_cannot_read_with_the_cookie(page: Page) -> None:
    assert page.get("/api/sessions", Sec_Fetch_Site="cross-site").status == 403


def test_a_long_body_is_refused(page: Page) -> None:
    assert page.post("/api/chat", b"x" * 1_100_000).status == 413


def test_every_response_has_the_security_headers(page: Page) -> None:
    answers = [page.get("/"), page.request("GET", "/"), page.get("/api/sessions"), page.get("/static/main.js")]
    for answer in [*answers, page.get("/none"), page.request("GET", "/", Host="evil.example")]:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "/etc/passwd", "vendor/../main.js", "main.js%00", ""]
)
def test_only_known_files_are_served(page: Page, name: str) -> None:
    assert page.get(f"/static/{name}").status == 404


def test_a_file_is_not_sent_again_while_it_is_the_same(page: Page) -> None:
    first = page.get("/static/main.js")
    assert first.headers["content-type"].startswith("text/javascript")
    again = page.get("/static/main.js", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_an_address_for_other_machines_needs_a_long_token_of_its_own() -> None:
    with pytest.raises(HermesError, match="HERMES_WEB_TOKEN"):
        page_access("0.0.0.0", "")
    with pytest.raises(HermesError, match="16 or more"):
        page_access("0.0.0.0", "short")
    assert page_access("0.0.0.0", TOKEN).is_token(TOKEN)


def test_each_start_makes_a_new_token_unless_one_is_set() -> None:
    one, other = PageAccess(), PageAccess()
    assert one.token != other.token
    assert one.csrf != other.csrf
    assert PageAccess(TOKEN).csrf == PageAccess(TOKEN).csrf


def test_a_document_is_whole_with_two_requests(page: Page) -> None:
    """The style is inside it, allowed by its digest alone; all of the first view's code is one file, kept for good."""
    document = page.get("/")
    [style] = re.findall(r"<style>(.*?)</style>", document.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = document.headers["content-security-policy"]
    assert f"style-src 'self' 'sha256-{digest}';" in policy and "unsafe" not in policy
    [script] = re.findall(r'<script type="module" src="([^"]+)">', document.text)
    assert 'rel="stylesheet"' not in document.text and "modulepreload" not in document.text
    code = page.request("GET", script)
    assert code.status == 200 and "immutable" in code.headers["cache-control"]
    assert "private" in code.headers["cache-control"]
    assert not re.search(r"^import ", code.text, re.MULTILINE)
    assert len(document.body) + len(code.body) < 100_000
    folder = script.rpartition("/")[0]
    assert page.request("GET", f"{folder}/vendor/preact.js").text == 'export * from "../first.js";\n'
    assert page.request("GET", f"{folder}/session/view.js").status == 200
    assert page.request("GET", script.replace(folder.rpartition("/")[2], "0" * 12)).status == 404


@pytest.mark.parametrize("url", ["nonsense", "ftp://agent.example.org", "https://", "http://[::1", "https://a b"])
def test_a_public_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(HermesError, match="must be a URL such as"):
        page_access("127.0.0.1", "", url)
