"""Generated parts of the pages are what the code says now."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from bench.__main__ import ROWS
from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE

from . import contract_pages
from .config_tables import every_key, keys_in_effect
from .contract_pages import page_of
from .contract_tables import hooks_that_fire
from .generated import MAKERS, rewrite, up_to_date
from .help_text import words_of
from .man_page import MAN_PAGE, man_page
from .pages import DOCS, README, ROOT, all_pages, blocks, generated_blocks
from .setting_exercise import RECORD, run_exercise


@pytest.mark.parametrize("path", all_pages(), ids=lambda path: path.name)
def test_generated_blocks_are_up_to_date(path: Path) -> None:
    if path.name == "chat.md" and sys.version_info >= (3, 13):
        pytest.skip("the page shows a help text, which argparse of Python 3.13 formats in another way")
    page = path.read_text()
    assert up_to_date(page) == page, "run: python -m tests.docs"


def test_every_generated_block_stands_on_one_page() -> None:
    used = [name for path in all_pages() for name, _ in generated_blocks(path.read_text())]
    assert sorted(used) == sorted(MAKERS), "a page has to show each of them once, as <!-- generated: NAME -->"


def test_pictures_of_the_terminal_show_what_the_program_shows_now() -> None:
    from .pictures import PICTURES, pictures

    drawn = pictures()
    assert sorted(path.name for path in PICTURES.glob("*.svg")) == sorted(drawn)
    outdated = [name for name, svg in drawn.items() if (PICTURES / name).read_text() != svg]
    assert outdated == [], "run: python -m tests.docs --pictures"


def test_an_outdated_block_is_noticed() -> None:
    page = "<!-- generated: toolsets -->\n\n| toolset | tools |\n\n<!-- /generated -->"
    assert "`read_file`" in up_to_date(page)


def test_help_is_the_same_help_when_python_wraps_it_otherwise() -> None:
    older = "  -q TEXT, --query TEXT\n                        the message"
    assert words_of(older) == words_of("  -q, --query TEXT  the message")
    assert words_of(older) != words_of("  -q, --query TEXT  a message")


def test_settings_in_effect_are_those_that_a_run_reads() -> None:
    seen = keys_in_effect()
    assert {"model.base_url", "providers.<name>.model", "fallback_providers[].key_env", "plugins.entries"} <= seen
    assert "mcp_servers.<name>.keepalive_interval" in seen
    assert {
        "local.threads",
        "approvals.permission_mode",
        "delegation.max_concurrent_children",
        "compression.threshold",
    } <= seen
    assert seen.isdisjoint(("security.redact_secrets", "terminal.backend"))


def test_what_has_no_effect_is_accepted_for_files_of_hermes_agent() -> None:
    """A setting that nothing reads is taken out, or stands here because files have it that were written for another."""
    assert every_key() - keys_in_effect() == {"terminal.backend", "security.redact_secrets"}


@pytest.mark.slow
def test_the_record_of_the_settings_is_that_of_a_run() -> None:
    assert run_exercise() == RECORD.read_text(), "run: python -m tests.docs --settings"


def test_hooks_that_fire_are_found_in_the_sources() -> None:
    assert hooks_that_fire() == set(HOOKS)


@pytest.mark.parametrize("name", [*HOOKS, *MIDDLEWARE])
def test_every_hook_and_kind_has_a_page_with_an_example_that_is_run(name: str) -> None:
    assert page_of(name).is_file(), "run: python -m tests.docs, then write an example into the page"
    python = [block for block in blocks(page_of(name).read_text()) if block.language == "python"]
    call = f'register_{"hook" if name in HOOKS else "middleware"}("{name}"'
    assert any(block.file_name for block in python if call in block.text), "a plugin has to join it"
    trials = [block.text for block in python if not block.file_name]
    # What fires already is shown in a whole turn; the rest is fired by the test kit.
    driver = "Host(" if name in hooks_that_fire() or name in MIDDLEWARE else f'harness.fire("{name}"'
    assert [trial for trial in trials if driver in trial and "assert " in trial] != []


def test_a_missing_page_is_started_with_what_the_contract_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract_pages, "DOCS", tmp_path)
    pages = contract_pages.write_missing_pages()
    assert len(pages) == len(HOOKS) + len(MIDDLEWARE)
    assert contract_pages.write_missing_pages() == []
    page = tmp_path / "hooks" / "post_tool_call.md"
    assert rewrite(page)
    text = page.read_text()
    assert "closes the `pre_tool_call` with the same" in text
    assert "| 3 times | parallel batch |" in text
    assert "| `duration_ms` | `int` | plain | Milliseconds the tool ran. |" in text


def test_there_is_no_page_for_something_else() -> None:
    pages = {path for folder in ("hooks", "middleware") for path in (DOCS / folder).iterdir()}
    assert pages == {page_of(name) for name in (*HOOKS, *MIDDLEWARE)}


def test_every_environment_variable_that_is_read_is_documented() -> None:
    sources = "\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r'(?:environ(?:\.get)?|getenv|is_set)[(\[]"(HERMES_\w+)"', sources))
    page = (DOCS / "configuration.md").read_text()
    assert "HERMES_LOG_LEVEL" in read
    assert [name for name in sorted(read) if f"`{name}`" not in page] == []


def test_the_architecture_page_names_every_part_of_the_package() -> None:
    parts = [part for part in (ROOT / "src/hermes").iterdir() if part.suffix in ("", ".py") and part.name[0] != "_"]
    page = (DOCS / "architecture.md").read_text()
    assert [part.name for part in parts if f"{part.name}{'/' if part.is_dir() else ''}" not in page] == []


def test_every_bench_row_is_explained() -> None:
    page = (DOCS / "benchmarks.md").read_text()
    assert [row for row in ROWS if f"`{row}`" not in page] == []
    assert "<!-- bench -->" in page and "<!-- /bench -->" in page


def test_the_readme_keeps_the_commands_that_others_rely_on() -> None:
    lines = README.read_text().splitlines()
    assert lines.count("pip install -e '.[dev]' && pytest") == 1


def test_the_manual_page_is_the_one_of_today() -> None:
    assert MAN_PAGE.read_text() == man_page(), "run: python -m tests.docs"
