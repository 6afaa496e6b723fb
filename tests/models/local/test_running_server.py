"""The server of a local model: shared by everybody of one home, gone with the last of them, back when it died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import LocalConfig
from hermes.base.errors import ConfigError, Interrupted, ProviderError
from hermes.base.scope import Interrupt
from hermes.models.local.install.parts import WEIGHTS_FILE, site_folder
from hermes.models.local.running import living_state, running_states
from hermes.models.local.service import LocalService
from support.local_rig import ENDPOINT, ServiceFactory, ask, gone, write_gguf

#: A process that uses the model once, says which server answered, and then waits.
USER = """
import sys
from pathlib import Path
from hermes.base.config.schema.sections import LocalConfig
from hermes.models.local.service import LocalService
from hermes.models.driver import Driver
from support.local_rig import ask
service = LocalService(Driver(), Path(sys.argv[1]), LocalConfig(), {})
print(ask(service).content, flush=True)
sys.stdin.read()
service.close()
"""


def facts(service: LocalService) -> dict[str, Any]:
    return json.loads(ask(service).content)


def user_of(home: Path) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Another process that uses the model of that home, and what the server told it."""
    user = subprocess.Popen(
        [sys.executable, "-c", USER, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert user.stdout is not None
    return user, json.loads(user.stdout.readline())


def leave(user: subprocess.Popen[str]) -> None:
    user.communicate(timeout=60)


def test_it_starts_with_the_first_request_and_goes_with_its_user(make_service: ServiceFactory, home: Path) -> None:
    service = make_service()
    assert not running_states(home)
    said = facts(service)
    [state] = running_states(home)
    assert said["pid"] == state.pid
    assert facts(service)["pid"] == state.pid
    service.close()
    assert gone(state.pid)
    assert not running_states(home)
    assert not list((home / "local" / "run").glob("*/state.json"))


def test_it_is_hardened(make_service: ServiceFactory, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-the-server")
    said = facts(make_service())
    assert said["omp"] == "passive"
    assert said["cors_origins"] == "http://127.0.0.1"
    assert (said["ui"], said["offline"]) == ("False", "True")
    assert "OPENAI_API_KEY" not in said["env"]
    [state] = running_states(home)
    [folder] = (home / "local" / "run").iterdir()
    for private in (folder, folder.parent):
        assert private.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())
    arguments = Path(f"/proc/{state.pid}/cmdline").read_bytes() if Path("/proc").exists() else b""
    assert state.key.encode() not in arguments
    assert state.base_url.startswith("http://127.0.0.1:")
    request = urllib.request.Request(f"{state.base_url}/chat/completions", b"{}", {"authorization": "Bearer wrong"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    with refused.value:
        assert refused.value.code == 401


def test_hosts_of_one_home_share_it(make_service: ServiceFactory, home: Path) -> None:
    first, second = make_service(), make_service()
    answers: list[dict[str, Any]] = []

    def take_part(service: LocalService) -> None:
        answers.append(facts(service))

    threads = [threading.Thread(target=take_part, args=(each,)) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [pid] = {answer["pid"] for answer in answers}
    first.close()
    assert facts(second)["pid"] == pid
    second.close()
    assert gone(pid)


def test_processes_share_it_and_killing_one_leaves_it_to_the_other(installed: Path) -> None:
    first, said = user_of(installed)
    second, said_too = user_of(installed)
    assert said["pid"] == said_too["pid"]
    first.kill()
    leave(first)
    assert [state.pid for state in running_states(installed)] == [said["pid"]]
    second.kill()
    leave(second)
    assert gone(said["pid"])
    assert not running_states(installed)


def test_a_user_that_leaves_in_good_order_takes_it_along(installed: Path) -> None:
    user, said = user_of(installed)
    leave(user)
    assert gone(said["pid"])


def test_one_that_died_is_started_again(make_service: ServiceFactory, home: Path) -> None:
    service = make_service()
    before = facts(service)["pid"]
    os.kill(before, signal.SIGKILL)
    assert gone(before)
    while running_states(home):  # the threads of a process that was killed may hold its files a moment longer
        time.sleep(0.01)
    after = facts(service)["pid"]
    assert after != before
    service.close()
    assert gone(after)


def test_it_may_be_used_again_after_it_was_given_up(make_service: ServiceFactory) -> None:
    service = make_service()
    before = facts(service)["pid"]
    service.close()
    assert facts(service)["pid"] != before


def test_other_models_have_servers_of_their_own(make_service: ServiceFactory, tmp_path: Path, home: Path) -> None:
    own = write_gguf(tmp_path / "own.gguf", context_length=3000)
    embedded, mine = make_service(), make_service(env={"HERMES_LOCAL_MODEL": str(own)})
    assert facts(embedded)["n_ctx"] == "2048"
    assert facts(mine)["n_ctx"] == "3000"
    assert ask(mine).model == "own.gguf"
    assert len(running_states(home)) == 2


def test_a_state_that_nobody_keeps_is_no_server(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"pid": 1, "base_url": "http://127.0.0.1:1/v1", "key": "k", "model": "m"}')
    assert living_state(tmp_path) is None


# -- what can go wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("illegal.gguf", "this processor lacks"),
        ("broken.gguf", "cannot run .*broken.gguf .Failed to init"),
    ],
)
def test_a_model_that_does_not_start(make_service: ServiceFactory, tmp_path: Path, name: str, why: str) -> None:
    service = make_service(LocalConfig(model_path=str(write_gguf(tmp_path / name))))
    with pytest.raises(ProviderError, match=f"the local model did not start: .*{why}") as failed:
        ask(service)
    assert not failed.value.retryable


def test_loading_can_be_interrupted(make_service: ServiceFactory, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "slow.gguf")
    service, interrupt = make_service(LocalConfig(model_path=str(path))), Interrupt()
    loading = path.with_name("slow.gguf.loading")

    def cancel_when_loading() -> None:
        while not loading.exists() or not loading.read_text():
            threading.Event().wait(0.01)
        interrupt.cancel()

    watcher = threading.Thread(target=cancel_when_loading)
    watcher.start()
    with pytest.raises(Interrupted):
        ask(service, interrupt=interrupt)
    watcher.join()
    assert gone(int(loading.read_text()))


def test_nothing_is_installed(home: Path, make_service: ServiceFactory) -> None:
    (site_folder(home) / WEIGHTS_FILE).unlink()
    service = make_service()
    assert not service.is_usable()
    with pytest.raises(ConfigError, match="not installed; run: hermes local install"):
        service.settled([ENDPOINT])


def test_a_home_that_cannot_be_written(make_service: ServiceFactory, home: Path) -> None:
    (home / "local" / "run").write_text("in the way")
    with pytest.raises(ProviderError, match=r"did not start: .*File exists"):
        ask(make_service())
