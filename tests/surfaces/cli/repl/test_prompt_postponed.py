"""Modules that the prompt does not need to be drawn: they are not run before, and are whole when they are used."""

from __future__ import annotations

import os
import pty
import ssl
import subprocess
import sys
from pathlib import Path

from hermes.base.config.load import load_config
from hermes.surfaces.cli.repl.prompt.postponed import postpone_unused
from support import write_config
from support.waiting import HANG

#: Writes the names of the modules at the first frame, and ends.
FIRST_FRAME = """\
import os, sys
from pathlib import Path
import hermes.surfaces.cli.repl.app as app
from hermes.surfaces.cli.main import main

greet = app._greet

def hooked(*arguments):
    from prompt_toolkit.renderer import Renderer
    render = Renderer.render

    def once(*arguments, **options):
        render(*arguments, **options)
        Path(sys.argv[1]).write_text("\\n".join(sys.modules))
        os._exit(0)

    Renderer.render = once
    greet(*arguments)

app._greet = hooked
main([])
"""
#: What only a message, a key or a command needs.
LATER = (
    *("_ssl", "_hashlib", "ctypes", "pyexpat", "prompt_toolkit.shortcuts", "wcwidth.grapheme", "pygments", "rich"),
    *("prompt_toolkit.widgets.base", "prompt_toolkit.formatted_text.ansi", "prompt_toolkit.completion.nested"),
    *(
        "markdown_it",
        "httpx2",
        "yaml",
        "hermes.agent.turn",
        "hermes.agent.pipelines.tool_call",
        "hermes.agent.pipelines.model_call",
    ),
    *(
        "hermes.base.sanitize.assignments",
        "hermes.base.sanitize.known",
        "hermes.surfaces.cli.repl.turn_view",
        "hermes.surfaces.cli.repl.markdown",
    ),
    *(
        "hermes.surfaces.cli.repl.prompt.completion",
        "hermes.surfaces.commands.dispatch",
        "hermes.surfaces.commands.handlers.sessions",
    ),
    *(
        "hermes.surfaces.commands.handlers.status",
        "hermes.surfaces.commands.handlers.settings",
        "hermes.models.wires.chat",
    ),
)
#: Things of each that are elsewhere than what the prompt uses of it.
USES = {
    "ssl": "ssl.create_default_context().verify_mode is ssl.CERT_REQUIRED",
    "asyncio.sslproto": "issubclass(asyncio.sslproto.SSLProtocol, asyncio.BufferedProtocol)",
    "xml.dom.minidom": "xml.dom.minidom.parseString('<a/>').documentElement.tagName == 'a'",
    "prompt_toolkit.formatted_text": "prompt_toolkit.formatted_text.ANSI('a').value == 'a'",
    "prompt_toolkit.widgets": "issubclass(prompt_toolkit.widgets.TextArea, object)",
    "prompt_toolkit.completion": "prompt_toolkit.completion.FuzzyCompleter.__name__ == 'FuzzyCompleter'",
    "prompt_toolkit.lexers": "prompt_toolkit.lexers.PygmentsLexer.__name__ == 'PygmentsLexer'",
    "prompt_toolkit": "prompt_toolkit.PromptSession is prompt_toolkit.shortcuts.PromptSession",
    "wcwidth": "wcwidth.wcwidth('日') == 2 and wcwidth.wrap('a b', 1) == ['a', 'b']",
}


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_only_what_draws_the_prompt_is_there_when_it_is_drawn(home: Path, workdir: Path, tmp_path: Path) -> None:
    write_config(home, "http://127.0.0.1:1/v1")
    load_config(home)  # from now on without the parser
    ours, terminal = pty.openpty()
    names = tmp_path / "names"
    environment = {**os.environ, "HERMES_HOME": str(home), "TERM": "xterm-256color"}
    with open(ours, "rb"), open(terminal, "wb") as screen:  # noqa: PTH123  (descriptors)
        subprocess.run(
            [sys.executable, "-c", FIRST_FRAME, str(names)],
            stdin=screen,
            stdout=screen,
            stderr=screen,
            cwd=workdir,
            env=environment,
            timeout=HANG,
            check=True,
        )
    found = set(names.read_text().split())
    assert "hermes.surfaces.cli.repl.prompt.screen" in found
    assert found.isdisjoint(LATER), found.intersection(LATER)


def test_a_postponed_module_is_whole_when_it_is_used() -> None:
    code = (
        "import sys; from hermes.surfaces.cli.repl.prompt.postponed import PostponedModule, postpone_unused\n"
        "postpone_unused()\n"
        "import hermes.surfaces.cli.repl.prompt.screen, asyncio.sslproto, prompt_toolkit, ssl, xml.dom.minidom\n"
        "import wcwidth.wcwidth; print(wcwidth.wcwidth('日'))\n"
        "from prompt_toolkit.formatted_text import HTML\n"
        f"for name, use in {USES!r}.items():\n"
        "    before = type(sys.modules[name]) is PostponedModule\n"
        "    print(name, before, eval(use), type(sys.modules[name]) is PostponedModule)\n"
        "print(HTML('<b>bold</b>').formatted_text, prompt_toolkit.__version__ > '3', prompt_toolkit.search.__name__)\n"
        "from prompt_toolkit import *\n"
        "print(prompt, sys.modules['wcwidth.wcwidth'].wcwidth('a'))\n"
        "try: wcwidth.no_such_name\n"
        "except AttributeError as error: print(error)\n"
    )
    width, *lines, html, rest, error = python(code).splitlines()
    assert width == "2"
    assert lines == [f"{name} True True False" for name in USES]
    assert html == "FormattedText([('class:b', 'bold')]) True prompt_toolkit.search"
    assert rest.startswith("<function prompt at ") and rest.endswith(" 1")
    assert error == "module 'wcwidth' has no attribute 'no_such_name'"


def test_threads_that_use_a_postponed_module_at_once_all_get_it() -> None:
    code = (
        "import sys, threading; from hermes.surfaces.cli.repl.prompt.postponed import postpone_unused\n"
        "postpone_unused()\n"
        "import ssl; sys.setswitchinterval(1e-6)\n"
        "start, seen = threading.Barrier(8), []\n"
        "def use():\n"
        "    start.wait(); seen.append((ssl.create_default_context, ssl.SSLContext, ssl.CERT_NONE))\n"
        "threads = [threading.Thread(target=use) for _ in range(8)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
        "print(len(seen), len(set(seen)))"
    )
    assert python(code) == "8 1\n"


def test_another_release_and_a_module_that_fails_behave_as_usual(tmp_path: Path) -> None:
    for name, body in (("wcwidth", "def wcwidth(character): return 7\n"), ("prompt_toolkit", "import no_such\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(body)
    code = (
        "from hermes.surfaces.cli.repl.prompt.postponed import postpone_unused\n"
        "postpone_unused()\n"
        "from wcwidth import wcwidth; print(wcwidth('a'))\n"
        "for _ in range(2):\n"
        "    try: from prompt_toolkit import prompt\n"
        "    except ImportError as error: print(error)\n"
    )
    assert python(code, PYTHONPATH=str(tmp_path)) == "7\n" + "No module named 'no_such'\n" * 2


def test_a_module_that_is_imported_already_stays_what_it_is() -> None:
    postpone_unused()
    assert sys.modules["ssl"] is ssl and type(ssl) is type(sys)
