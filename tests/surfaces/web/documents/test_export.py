"""A session as one file, and the files of the page in the package."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hermes.surfaces.cli.main import main
from hermes.surfaces.web.documents.assets import assets, one_script
from hermes.testing import text, tool_call
from support.trace_runs import SECRET, Rig

ROOT = Path(__file__).parents[4]
SOURCE = ROOT / "src" / "hermes" / "surfaces" / "web"


def test_a_session_is_written_as_one_file(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    host = rig.host([tool_call("read_file", {"path": "</script><script>alert(1)</script>"}), text(f"key {SECRET}")])
    session = host.new_session()
    session.run("Look at <b>this</b>.")
    target = rig.workdir / "run.html"

    assert main(["trace", "html", session.id, "-o", str(target)]) == 0

    document = target.read_text()
    assert target.stat().st_mode & 0o777 == 0o600
    assert "Look at &lt;b&gt;this&lt;/b&gt;." in document
    assert "<script>alert" not in document
    assert SECRET not in document
    assert not re.search(r'(src|href)="', document)  # nothing is loaded
    main(["trace", "html", "-o", "-"])
    assert capsys.readouterr().out.endswith(document)


def test_the_policy_of_the_file_allows_its_own_script_and_no_other(rig: Rig) -> None:
    host = rig.host([text("ok")])
    session = host.new_session()
    session.run("go")
    main(["trace", "html", session.id, "-o", str(rig.workdir / "run.html")])
    document = (rig.workdir / "run.html").read_text()
    script = document.partition('<script type="module">')[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;" in document


def test_a_file_needs_no_package_of_the_extra() -> None:
    module = "hermes.surfaces.web.documents.session"
    code = f"import sys, {module}; sys.exit(any(name in sys.modules for name in ('starlette', 'uvicorn')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_modules_are_put_together_without_imports_and_exports() -> None:
    script = one_script("report.js")
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    names = re.findall(r"^(?:const|function|class|async function) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names))


def test_no_page_is_heavier_than_its_budget() -> None:
    own = sum(len(asset.content) for name, asset in assets().items() if not name.startswith("vendor/"))
    assert own < 85_000


def test_the_vendored_file_is_the_published_one() -> None:
    content = assets()["vendor/preact.js"].content
    assert hashlib.sha256(content).hexdigest() in (SOURCE / "_vendor" / "README.md").read_text()
    licences = SOURCE / "_vendor" / "htm-3.1.1"
    assert "Apache License" in (licences / "LICENSE.htm").read_text()
    assert "MIT" in (licences / "LICENSE.preact").read_text()


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_page(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        ".",
    ]
    if subprocess.run([sys.executable, "-c", "import hatchling"], check=False, capture_output=True).returncode:
        command.remove("--no-build-isolation")
    subprocess.run(command, check=True, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for folder in ("static", "_vendor")
        for path in (SOURCE / folder).rglob("*")
        if path.is_file()
    }
    assert len(wanted) > 15
    assert wanted <= packed
