"""The network of commands in a sandbox: who has it, which hosts are reached, and what a refusal says."""

from __future__ import annotations

import http.server
import os
import socket
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from hermes.policy import judge_command
from hermes.policy.registries import REGISTRY_HOSTS
from hermes.tools.sandbox.backend import SandboxBackend
from hermes.tools.sandbox.network import is_allowed, network_of
from hermes.tools.sandbox.workspace.remotes import host_of, remote_hosts
from hermes.tools.sandbox.workspace.tree import workspace_tree
from support.git_server import serve_git
from support.sandbox_rig import SandboxRig, outside

MakeRig = Callable[..., SandboxRig]


class Page(http.server.BaseHTTPRequestHandler):
    """Answers with the path, and takes part in a connection through a proxy."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = f"path {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is printed."""


@pytest.fixture
def web() -> Generator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


_GET = (
    "python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())' "
    "http://{host}:{port}/page?a=b"
)
_DIRECT = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"


# -- who has it -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "principal", "attended", "reachable"),
    [
        ("auto", "", True, True),
        ("auto", "", False, False),
        ("auto", "bob", True, False),
        (["auto", "example.org"], "bob", False, False),
        (["auto", "example.org"], "", True, True),
        ("on", "bob", False, True),
        ("on", "", False, True),
        ("off", "", False, False),
    ],
)
def test_who_has_a_network(
    make_rig: MakeRig,
    backend: SandboxBackend,
    web: int,
    setting: str | list[str],
    principal: str,
    attended: bool,
    reachable: bool,
) -> None:
    rig = make_rig(backend, sandbox="workspace", network=setting, principal=principal, attended=attended)
    result = rig.run(_DIRECT.format(port=web))
    assert (result["exit_code"] == 0) is reachable
    if not reachable:
        assert "terminal.network" in result["sandbox"]


def test_without_a_proxy_a_run_that_no_person_attends_has_no_network_and_says_which_setting_gives_it(
    make_rig: MakeRig, web: int
) -> None:
    rig = make_rig(SandboxBackend("landlock"))
    result = rig.run(_DIRECT.format(port=web))
    assert result["exit_code"] != 0
    assert "hermes config set terminal.network on" in result["sandbox"]


def test_a_list_of_hosts_is_an_error_where_it_cannot_be_enforced(make_rig: MakeRig) -> None:
    rig = make_rig(SandboxBackend("landlock"), network=["example.org"])
    result = rig.run("echo x > ran.txt")
    assert "terminal.network is a list of hosts, which needs bubblewrap" in result["error"]
    assert not (rig.workspace / "ran.txt").exists()


def test_a_program_of_the_owner_has_the_network_that_the_owner_has() -> None:
    """A hook command, an MCP server: no list of hosts holds them, because no model chose what they do."""
    assert network_of("auto", is_program=True).is_on
    assert not network_of("auto", is_program=True, principal="bob").is_on
    assert network_of("off", is_program=True, is_attended=True).hosts is None


# -- which hosts ----------------------------------------------------------------------------------------------------


def test_a_list_of_hosts(make_rig: MakeRig, bubblewrap: SandboxBackend, web: int) -> None:
    rig = make_rig(bubblewrap, network=[f"localhost:{web}"])
    assert rig.works(_GET.format(host="localhost", port=web)) == "path /page?a=b"
    assert rig.run(_GET.format(host="127.0.0.1", port=web))["exit_code"] != 0
    assert rig.run(_DIRECT.format(port=web))["exit_code"] != 0  # past the proxy there is nothing
    direct = rig.run("python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 5)'")
    assert f"only localhost:{web} can be reached" in direct["sandbox"]


def test_a_host_that_the_owner_added_to_auto(make_rig: MakeRig, bubblewrap: SandboxBackend, web: int) -> None:
    rig = make_rig(bubblewrap, network=["auto", f"localhost:{web}"])
    assert rig.works(_GET.format(host="localhost", port=web)) == "path /page?a=b"


def test_a_refusal_names_the_host_and_the_setting(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    rig = make_rig(bubblewrap)
    result = rig.run(_GET.format(host="data.example", port=8080) + " || true")
    assert result["exit_code"] == 0
    assert "data.example:8080 was refused" in result["sandbox"]
    assert "hermes config set terminal.network '[auto, data.example:8080]'" in result["sandbox"]
    listed = make_rig(bubblewrap, network=["example.org"]).run(_GET.format(host="data.example", port=80))
    assert "hermes config set terminal.network '[example.org, data.example]'" in listed["sandbox"]
    assert "sandbox" not in rig.run("true")


def test_a_background_process_is_told_what_it_was_refused(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    rig = make_rig(bubblewrap)
    started = rig.run(_GET.format(host="data.example", port=80), background=True)
    ended = rig.call("process", action="wait", session_id=started["session_id"], timeout=60)
    assert "data.example was refused" in ended["sandbox"]


def test_servers_of_the_command_itself_are_reached_on_loopback(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    rig = make_rig(bubblewrap)
    (rig.workspace / "serve.py").write_text(
        "import http.server, threading, urllib.request\n"
        "class Page(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers(); self.wfile.write(b'served')\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Page)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "for name in ('127.0.0.1', 'localhost'):\n"
        "    url = f'http://{name}:{server.server_address[1]}/'\n"
        "    print(urllib.request.urlopen(url, timeout=60).read().decode())\n"
    )
    assert rig.works("python3 serve.py 2>/dev/null").split() == ["served", "served"]


def test_the_registries_are_one_table_for_the_sandbox_and_the_judge(folder: Path) -> None:
    hosts = network_of("auto").hosts or ()
    for host in REGISTRY_HOSTS:
        assert is_allowed(host, 443, hosts)
        assert not judge_command(f"pip install --index-url=https://{host}/simple kiwi", cwd=str(folder)).findings
    for address in ("https://{}.evil.example/simple", "https://{}@evil.example/simple", "https://evil.example/{}"):
        command = f"pip install --index-url={address.format(REGISTRY_HOSTS[0])} kiwi"
        assert [found.rule for found in judge_command(command, cwd=str(folder)).findings] == ["unchecked-package"]


def test_which_hosts_a_list_allows() -> None:
    allowed = ["Example.org", "*.example.net", "localhost:8080", "[::1]:8080", "2001:db8::1"]
    for server in (
        *(("example.org", 443), ("EXAMPLE.ORG.", 80), ("a.b.example.net", 443), ("localhost", 8080)),
        *(("::1", 8080), ("2001:db8::1", 443)),
    ):
        assert is_allowed(*server, allowed), server
    for server in (
        *(("example.org", 22), ("www.example.org", 443), ("example.net", 443), ("evilexample.net", 443)),
        *(("localhost", 80), ("127.0.0.1", 8080), ("", 443), ("::1", 80)),
    ):
        assert not is_allowed(*server, allowed), server


# -- the remotes of repositories ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org/me/project.git", "example.org"),
        ("http://me:secret@example.org:8080/project", "example.org:8080"),
        ("git@example.org:me/project.git", "example.org:22"),
        ("example.org:me/project.git", "example.org:22"),
        ("ssh://git@example.org/me/project", "example.org:22"),
        ("ssh://git@example.org:2222/me/project", "example.org:2222"),
        ("git@[2001:db8::1]:me/project", "[2001:db8::1]:22"),
        ("git://example.org/project", "example.org:9418"),
        ("/srv/git/project.git", ""),
        ("../project", ""),
        ("file:///srv/project.git", ""),
        ("C:/project", ""),
        ("https://[bad", ""),
        ("http://169.254.169.254/latest", ""),
    ],
)
def test_the_host_of_a_remote(url: str, host: str) -> None:
    assert host_of(url) == host


def test_the_remotes_of_the_repositories_in_and_around_a_workspace(make_rig: MakeRig) -> None:
    rig = make_rig(None)
    rig.git("init", "-q", "-b", "main")
    rig.git("remote", "add", "origin", "https://code.example/me/project.git")
    rig.git("remote", "set-url", "--push", "origin", "git@push.example:me/project.git")
    rig.git("remote", "add", "disk", "/srv/project.git")
    inner = rig.workspace / "libraries" / "kiwi"
    inner.mkdir(parents=True)
    rig.git("init", "-q", cwd=inner)
    rig.git("remote", "add", "origin", "work:kiwi.git", cwd=inner)
    rig.git("config", "--global", "url.ssh://git@forge.example:2222/.insteadOf", "work:")
    expected = {str(rig.workspace / ".git"): ["code.example", "push.example:22"]}
    expected[str(inner / ".git")] = ["forge.example:2222"]
    assert remote_hosts(workspace_tree(str(rig.workspace))) == expected
    assert remote_hosts(workspace_tree(str(inner))) == {str(inner / ".git"): ["forge.example:2222"]}
    rig.git("commit", "-q", "--allow-empty", "-m", "one")
    tree = rig.home / "tree"
    rig.git("worktree", "add", "-q", str(tree), "-b", "side")
    assert "code.example" in remote_hosts(workspace_tree(str(tree)))[str(rig.workspace / ".git")]


def test_a_push_to_a_remote_of_the_workspace(make_rig: MakeRig, bubblewrap: SandboxBackend, folder: Path) -> None:
    with serve_git(folder, is_open=True) as (address, bare):
        rig = make_rig(bubblewrap)
        rig.git("init", "-q", "-b", "main")
        rig.git("remote", "add", "origin", f"http://{address}")
        rig.works("echo x > a && git add a && git commit -qm one && git push -q origin main && git fetch -q")
        assert outside(["git", "--git-dir", str(bare), "log", "--format=%s", "main"], bare) == "one"


def test_a_remote_that_a_command_adds_is_not_reached(make_rig: MakeRig, bubblewrap: SandboxBackend, web: int) -> None:
    rig = make_rig(bubblewrap)
    rig.git("init", "-q")
    get = f"no_proxy= {_GET.format(host='127.0.0.1', port=web)}"
    rig.works(f"mkdir sub && git -C sub init -q && git -C sub remote add origin http://127.0.0.1:{web}/project.git")
    assert rig.run(get)["exit_code"] != 0
    # Neither by the sandbox of another folder, or of commands that only read, nor in a later run.
    rig.context.cwd = rig.workspace / "sub"
    assert rig.run(get)["exit_code"] != 0
    rig.context.command.only_reads = True
    assert rig.run(get)["exit_code"] != 0
    rig.close()
    later = make_rig(bubblewrap)
    assert later.run(get)["exit_code"] != 0
    named = make_rig(bubblewrap, network=["auto", f"127.0.0.1:{web}"])
    assert named.works(get) == "path /page?a=b"


def test_it_is_not_reached_by_a_later_run_in_another_folder(
    make_rig: MakeRig, bubblewrap: SandboxBackend, web: int
) -> None:
    rig = make_rig(bubblewrap)
    rig.git("init", "-q")
    get = f"no_proxy= {_GET.format(host='127.0.0.1', port=web)}"
    add = f"remote add new http://127.0.0.1:{web}/project.git"
    rig.works(f"git {add} && mkdir sub lib && git -C lib init -q && git -C lib {add}")
    rig.close()
    for place in (rig.workspace / "sub", rig.workspace / "lib", rig.workspace.parent):
        later = make_rig(bubblewrap)
        later.context.cwd = place
        assert later.run(get)["exit_code"] != 0, place
        later.close()


def test_a_remote_that_the_owner_adds_counts_in_the_next_run(
    make_rig: MakeRig, bubblewrap: SandboxBackend, web: int
) -> None:
    rig = make_rig(bubblewrap)
    rig.git("init", "-q")
    rig.works("git remote add other https://added.example/project.git")
    rig.close()
    rig.git("remote", "add", "origin", f"http://127.0.0.1:{web}/project.git")
    later = make_rig(bubblewrap)
    assert later.works(f"no_proxy= {_GET.format(host='127.0.0.1', port=web)}") == "path /page?a=b"
    assert "added.example was refused" in later.run(_GET.format(host="added.example", port=80))["sandbox"]


@pytest.mark.parametrize("form", ["ssh://git@localhost:{port}/project.git", "http://localhost:{port}/project.git"])
def test_ssh_goes_through_the_proxy_to_a_remote(make_rig: MakeRig, bubblewrap: SandboxBackend, form: str) -> None:
    """Real git and real ssh. The server is none, so that both give up after they have introduced themselves."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        heard: list[bytes] = []

        def listen() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-Nothing_1.0\r\n")
                heard.append(connection.recv(8))

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        rig = make_rig(bubblewrap)
        rig.git("init", "-q")
        rig.git("remote", "add", "origin", form.format(port=port))
        result = rig.run("git fetch origin")
        listener.join(30)
    assert result["exit_code"] != 0
    assert heard == [b"SSH-2.0-" if form.startswith("ssh") else b"GET /pro"]


def test_ssh_to_another_host_is_refused(make_rig: MakeRig, bubblewrap: SandboxBackend) -> None:
    rig = make_rig(bubblewrap)
    result = rig.run("git ls-remote git@other.example:me/project.git")
    assert result["exit_code"] != 0
    assert "other.example:22 was refused" in result["sandbox"]
    assert "terminal.network '[auto, other.example:22]'" in result["sandbox"]


# -- the proxy ------------------------------------------------------------------------------------------------------


def test_a_tunnel_through_the_proxy(make_rig: MakeRig, bubblewrap: SandboxBackend, web: int) -> None:
    rig = make_rig(bubblewrap, network=[f"localhost:{web}"])
    script = (
        "import os, socket, urllib.parse as u\n"
        "p = u.urlsplit(os.environ['https_proxy'])\n"
        "def ask(text):\n"
        "    s = socket.create_connection((p.hostname, p.port), 20)\n"
        "    s.sendall(text.encode()); out = b''\n"
        "    while b'\\r\\n\\r\\n' not in out: out += s.recv(999) or b'\\r\\n\\r\\n'\n"
        "    return s, out.split(b'\\r\\n')[0].decode()\n"
        f"s, line = ask('CONNECT localhost:{web} HTTP/1.1\\r\\n\\r\\n'); print(line)\n"
        "s.sendall(b'GET /x HTTP/1.0\\r\\n\\r\\n'); print(s.makefile().read().splitlines()[-1])\n"
        f"print(ask('CONNECT example.invalid:{web} HTTP/1.1\\r\\n\\r\\n')[1])\n"
        "print(ask('GET ftp://localhost/ HTTP/1.1\\r\\n\\r\\n')[1])\n"
        "print(ask('CONNECT a\x1bb:443 HTTP/1.1\\r\\n\\r\\n')[1])\n"
    )
    (rig.workspace / "ask.py").write_text(script)
    assert rig.works("python3 ask.py").splitlines() == [
        "HTTP/1.1 200 Connection established",
        "path /x",
        "HTTP/1.1 403 Forbidden",
        "HTTP/1.1 400 Bad Request",
        "HTTP/1.1 400 Bad Request",
    ]


def test_one_command_cannot_use_the_way_out_of_another(make_rig: MakeRig, bubblewrap: SandboxBackend, web: int) -> None:
    """The socket is in the temporary folder that commands share. Only who has a word that is expected is served."""
    rig = make_rig(bubblewrap, network=[f"localhost:{web}"])
    script = (
        "import socket\n"
        "port = socket.create_server(('127.0.0.1', 0)); line = socket.socket(socket.AF_UNIX)\n"
        "line.connect('/tmp/.network'); socket.send_fds(line, [b'0' * 32], [port.fileno()])\n"
        "print(line.recv(1))\n"
    )
    (rig.workspace / "forge.py").write_text(script)
    assert rig.works("python3 forge.py") == "b''"


def test_the_proxy_goes_by_the_proxy_of_the_environment(
    make_rig: MakeRig, bubblewrap: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Forwarder(Page):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('Proxy-Authorization')}")
            super().do_GET()

        def do_CONNECT(self) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('Proxy-Authorization')}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"first words")
            self.close_connection = True

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forwarder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://me:word@127.0.0.1:{server.server_address[1]}")
        rig = make_rig(bubblewrap, network=["far.example", "far.example:22"])
        assert rig.works(_GET.format(host="far.example", port=80)) == "path http://far.example:80/page?a=b"
        tunnel = "python3 -I -S /tmp/.network-tunnel far.example 22 </dev/null"
        assert rig.works(tunnel) == "first words"
        server.shutdown()
    login = "Basic bWU6d29yZA=="
    assert asked == [f"GET http://far.example:80/page?a=b {login}", f"CONNECT far.example:22 {login}"]
    assert "word" not in rig.works("env | grep -i proxy")
    assert os.environ["http_proxy"].startswith("http://me:word@")
