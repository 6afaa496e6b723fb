"""Reading ``config.yaml``: defaults, spellings, every mistake named, faults of the file itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.config import Config, config_path, hermes_home, load_config
from hermes.base.config.check import check
from hermes.base.config.listing import list_settings
from hermes.base.config.load import load_text
from hermes.base.errors import ConfigError
from support.ordinary_user import as_ordinary_user, shared_folder


def load(text: str, **environ: str) -> Config:
    return load_text(text, Path("config.yaml"), environ).config


def warnings_of(text: str, **environ: str) -> list[str]:
    return [warning.removeprefix("config.yaml: ") for warning in load_text(text, Path("config.yaml"), environ).warnings]


def mistake(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return str(caught.value)


def test_a_missing_file_gives_the_documented_defaults(tmp_path: Path) -> None:
    loaded = load_config(tmp_path)
    config = loaded.config
    assert loaded.raw == {}
    assert loaded.warnings == []
    assert loaded.path == tmp_path / "config.yaml"
    assert (config.agent.max_turns, config.agent.api_max_retries, config.agent.max_verify_nudges) == (90, 3, 3)
    assert (config.terminal.timeout, config.tool_output.max_bytes, config.file_read_max_chars) == (180, 50_000, 100_000)
    assert (config.approvals.permission_mode, config.approvals.reviewer) == ("ask-risky", "user")
    assert config.approvals.timeout == 60
    assert (config.delegation.max_iterations, config.delegation.max_spawn_depth) == (50, 1)
    assert (config.compression.threshold, config.memory.memory_char_limit) == (0.5, 2_200)
    assert config.toolsets == ["default"]
    assert config.security.redact_secrets is True


def test_defaults_are_not_shared_between_configs() -> None:
    first, second = Config(), Config()
    first.plugins.enabled.append("x")
    first.model.extra_body["a"] = 1
    assert (second.plugins.enabled, second.model.extra_body) == ([], {})


def test_a_home_without_a_file_does_not_import_a_yaml_library(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from hermes.base.config import load_config;"
        f"load_config(Path({str(tmp_path)!r}));"
        "print([name for name in ('yaml', 'ruamel', 'difflib', 'asyncio', 'inspect') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "yaml" not in done.stdout
    assert "ruamel" not in done.stdout
    assert "difflib" not in done.stdout
    assert "asyncio" not in done.stdout


def test_ignore_user_leaves_the_file_unread(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("agent: {max_turns: wrong}\n")
    assert load_config(tmp_path, ignore_user=True).config == Config()


def test_every_section_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        """
model: {provider: custom, default: m, base_url: "http://h/v1", api_key: k, api_mode: responses, max_tokens: 9,
        context_length: 1000, temperature: 0, timeout: 5, extra_body: {a: {b: 1}}, extra_headers: {X-A: b}}
providers: {mine: {base_url: "http://p", models: [a, b]}, other: {models: {a: {context_length: 5}}, enabled: false}}
fallback_providers: [{provider: p, model: m}]
credential_pool_strategies: {p: round_robin}
toolsets: [terminal, file]
platform_toolsets: {cli: [web]}
agent: {max_turns: 1, disabled_toolsets: [web]}
agents: {helper: {model: small, profile: work}}
delegation: {max_spawn_depth: 2, child_timeout_seconds: 180}
auxiliary: {timeout: 7, vision: {timeout: 9, model: v}, custom_job: {provider: p}}
plugins: {enabled: [a], disabled: [b], entries: {a: {llm: {allow_model_override: true}, 5: x}}}
hooks: {pre_tool_call: [{command: ls, matcher: terminal}], output_spill: {max_chars: 500}}
hooks_auto_accept: true
approvals: {mode: smart, timeout: 5.5, deny: ["rm *"]}
command_allowlist: ["ls"]
terminal: {timeout: 10}
context: {engine: mine}
memory: {provider: m}
local: {enabled: false}
tool_loop_guardrails: {stop_after: 8, warn_identical: 4}
security: {redact_secrets: false}
"""
    )
    config = load_config(tmp_path).config
    assert load_config(tmp_path).warnings == []
    assert config.model.api_mode == "codex_responses"
    assert (config.model.temperature, config.model.timeout, config.model.extra_body) == (0, 5, {"a": {"b": 1}})
    assert config.providers["mine"].models == ["a", "b"]
    assert config.providers["other"].enabled is False
    assert config.fallback_providers[0].provider == "p"
    assert config.agents["helper"].profile == "work"
    assert config.auxiliary.task("vision").model == "v"
    assert [config.auxiliary.task_timeout(name) for name in ("vision", "custom_job", "unheard_of")] == [9, 7, 7]
    assert config.plugins.entries["a"] == {"llm": {"allow_model_override": True}, "5": "x"}
    assert config.hooks.events["pre_tool_call"][0].matcher == "terminal"
    assert config.hooks.output_spill.max_chars == 500
    assert config.tool_loop_guardrails.warn_identical == 4
    assert config.tool_loop_guardrails.warn_failures == 3


def test_jobs_nobody_configured_have_their_own_time_limits() -> None:
    auxiliary = Config().auxiliary
    assert [auxiliary.task_timeout(name) for name in ("vision", "web_extract", "approval")] == [120, 360, 30]


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("model: gpt", "default", "gpt"),
        ("model: {model: gpt}", "default", "gpt"),
        ("model: {name: gpt}", "default", "gpt"),
        ("model: {api_base: http://a}", "base_url", "http://a"),
        ("provider: p", "provider", "p"),
        ("base_url: http://a", "base_url", "http://a"),
        ("model: {default: one, name: two}", "default", "one"),
    ],
)
def test_other_spellings_of_the_model(text: str, field: str, value: str) -> None:
    assert getattr(load(text).model, field) == value


def test_two_spellings_that_disagree_are_pointed_out() -> None:
    assert warnings_of("model: {default: one, name: two}") == [
        "model.name is ignored because model.default says something else"
    ]
    assert warnings_of("model: {default: one, name: one}") == []


def test_other_spellings_of_limits_and_of_failures_that_block() -> None:
    assert load("plugins: {hook_callback_timeout: 5}").plugins.hook_timeout == 5
    assert load("plugins: {hook_callback_timeout: 0}").plugins.hook_timeout == 0, "no limit"
    both = "plugins: {hook_timeout: 7, hook_callback_timeout: 5}"
    assert load(both).plugins.hook_timeout == 7
    assert warnings_of(both) == [
        "plugins.hook_callback_timeout is ignored because plugins.hook_timeout says something else"
    ]
    assert "plugins.hook_callback_timeout: found the number -1" in mistake("plugins: {hook_callback_timeout: -1}")
    entries = "[{command: a, fail_closed: true}, {command: b, fail_closed: false}, {command: c, on_error: deny}]"
    config = load(f"hooks: {{pre_tool_call: {entries}}}")
    assert [entry.on_error for entry in config.hooks.events["pre_tool_call"]] == ["deny", "allow", "deny"]
    assert warnings_of(f"hooks: {{pre_tool_call: {entries}}}") == []


def test_older_lists_are_folded_in() -> None:
    config = load(
        "providers: {a: {base_url: first}}\n"
        "custom_providers: [{name: a, base_url: second}, {name: b, base_url: third, key_env: K}]\n"
        "fallback_providers: [{provider: p, model: m}]\nfallback_model: {provider: q, model: n}\n"
    )
    assert config.providers["a"].base_url == "first"
    assert (config.providers["b"].base_url, config.providers["b"].key_env) == ("third", "K")
    assert [(entry.provider, entry.model) for entry in config.fallback_providers] == [("p", "m"), ("q", "n")]
    assert type(config) is Config


def test_words_of_older_yaml_mean_what_their_writer_meant() -> None:
    config = load("approvals: {mode: off}\nmemory: {memory_enabled: no, user_profile_enabled: Yes}\nmodel: 1:30\n")
    assert config.approvals.permission_mode == "yolo"
    assert (config.memory.memory_enabled, config.memory.user_profile_enabled) == (False, True)
    assert config.model.default == "1:30"


def test_an_empty_setting_is_its_default() -> None:
    assert load("toolsets:\nagent:\n  max_turns:\nproviders:\n  a:\n") == Config()


def test_all_mistakes_are_told_at_once_with_line_found_and_allowed() -> None:
    text = mistake(
        "model:\n  max_tokens: -3\n  temperature: .inf\nagent:\n  max_turns: ninety\n  disabled_toolsets: [a, 3]\n"
        "approvals: {mode: never}\nterminal: 5\nfallback_providers:\n  - model: x\n"
        "hooks:\n  pre_tool_call: {command: ls}\ncredential_pool_strategies: {p: best}\nhooks_auto_accept: maybe\n"
    )
    assert text.splitlines() == [
        "config.yaml: 10 settings cannot be used:",
        "  model.max_tokens: found the number -3; allowed: a whole number, 1 or more (line 2)",
        "  model.temperature: found the number inf; allowed: a number, 0 or more (line 3)",
        "  agent.max_turns: found the text 'ninety'; allowed: a whole number, 1 or more (line 5)",
        "  agent.disabled_toolsets[1]: found the number 3; allowed: a text (line 6)",
        "  approvals.mode: found the text 'never'; allowed: one of manual, off, smart (line 7)",
        "  terminal: found the number 5; allowed: a mapping of key: value lines (line 8)",
        "  fallback_providers[0].provider: found nothing; allowed: a text that is not empty (line 10)",
        "  hooks.pre_tool_call: found a mapping; allowed: a list (each item: a mapping of key: value lines) (line 12)",
        "  credential_pool_strategies.p: found the text 'best'; "
        "allowed: one of fill_first, least_used, random, round_robin (line 13)",
        "  hooks_auto_accept: found the text 'maybe'; allowed: true or false (line 14)",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "model: {api_key: [sk-verysecretvalue]}",
        "model: {api_key: 1234567890123}",
        "model: {base_url: 1234567890123}",
        "model: {extra_headers: {Authorization: 1234567890123}}",
        "providers: {a: {api_key: {x: sk-verysecretvalue}}}",
    ],
)
def test_a_secret_of_the_wrong_type_is_not_shown(text: str) -> None:
    message = mistake(text)
    assert "allowed: a text" in message
    assert "sk-verysecretvalue" not in message
    assert "1234567890123" not in message


def test_unknown_keys_warn_with_a_suggestion_and_never_fail() -> None:
    assert warnings_of(
        "agent: {max_turn: 5}\nmax_turns: 3\nzzz: 1\nauxiliary: {transient_retrys: 1}\n_note: x\nx-anchors: {a: 1}\n"
    ) == [
        "agent.max_turn is not a known setting; did you mean agent.max_turns?",
        "max_turns is not a known setting; did you mean agent.max_turns?",
        "zzz is not a known setting",
        "auxiliary.transient_retrys is not a known setting; did you mean auxiliary.transient_retries?",
    ]


def test_settings_of_a_memory_plugin_are_listed_by_its_name() -> None:
    config = load("memory: {provider: diary, diary: {default_scope: global}}\n")
    listed = {setting.path: setting.value for setting in list_settings(config.memory, ("memory",))}
    assert listed["memory", "diary"] == {"default_scope": "global"}
    assert ("memory", "providers") not in listed


def test_free_form_maps_never_warn() -> None:
    text = "plugins: {entries: {any/plugin: {whatever: 1}}}\nmodel: {extra_body: {odd: {deep: 1}}}\n"
    assert warnings_of(text + "memory: {provider: diary, diary: {default_scope: global}}\n") == []
    assert warnings_of("memory: {providr: diary}\n") == [
        "memory.providr is not a known setting; did you mean memory.provider?"
    ]


def test_references_to_the_environment_are_expanded_where_secrets_and_addresses_are() -> None:
    text = (
        "model: {api_key: '${KEY}', base_url: 'http://${HOST}/v1', default: '${KEY}',"
        " extra_headers: {X-Team: '${KEY}'}}\nplugins: {entries: {p: {token: '${KEY}', title: '${KEY}'}}}\n"
    )
    config = load(text, KEY="k-1", HOST="h")
    assert (config.model.api_key, config.model.base_url, config.model.default) == ("k-1", "http://h/v1", "${KEY}")
    assert config.model.extra_headers == {"X-Team": "k-1"}
    assert config.plugins.entries["p"] == {"token": "k-1", "title": "${KEY}"}


def test_a_reference_to_nothing_is_empty_and_named() -> None:
    text = "model: {api_key: 'x${NOPE}'}"
    assert load(text).model.api_key == ""
    assert warnings_of(text) == ["model.api_key refers to ${NOPE}, which is not set in the environment or in .env"]


def test_raw_is_the_document_as_written() -> None:
    loaded = load_text("model: {name: m, api_key: '${KEY}'}", Path("c"), {"KEY": "v"})
    assert loaded.raw == {"model": {"name": "m", "api_key": "${KEY}"}}


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "\ufeff# with a mark\n", "{}"])
def test_an_empty_document_is_all_defaults(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    assert load_config(tmp_path).config == Config()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("null\n", "found null at the top"),
        ("- a\n- b\n", "found a list at the top"),
        ("just words\n", "found the single value 'just words' at the top"),
        ("a: [1, 2\nb: 3\n", "line 2, column 2"),
        ("a: b: c\n", "line 1, column 5"),
        ("\ta: 1\n", "line 1, column 1"),
        ("model: a\nagent: {}\nmodel: b\n", "line 3, column 1: the key 'model' is given twice, first on line 1"),
        ("agent:\n  max_turns: 1\n  max_turns: 2\n", "line 3, column 3: the key 'max_turns' is given twice"),
        ("a: !!python/object:os.system {}\n", "line 1"),
        ("a: *nothing\n", "undefined alias"),
        ("a: 1\n---\nb: 2\n", "line 2"),
        ("a: \x00b\n", "control characters"),
        ("a: &x [*x]\n", "a reference to itself"),
        ("a: " + "[" * 500_000 + "]" * 500_000, "nested more than 50 levels deep"),
        ("- " * 500_000, "nested more than 50 levels deep"),
    ],
)
def test_a_text_that_is_no_configuration_is_told_with_its_place(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert part in str(caught.value)
    assert path.read_text(encoding="utf-8") == text


def test_a_file_that_is_not_utf8_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"model: a\nprovider: \xff\xfe\n")
    with pytest.raises(ConfigError, match=r"config\.yaml, line 2: not UTF-8 text"):
        load_config(tmp_path)


def test_a_directory_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(ConfigError, match=r"config\.yaml: is a directory; allowed: a YAML file"):
        load_config(tmp_path)


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("x")
    with pytest.raises(ConfigError, match="cannot be read: Not a directory"):
        load_config(home)


def test_a_link_that_leads_round_in_circles(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").symlink_to(tmp_path / "config.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Too many levels of symbolic links"):
        load_config(tmp_path)


def test_a_file_that_the_user_may_not_read() -> None:
    def problem() -> str:
        try:
            load_config(folder)
        except ConfigError as error:
            return str(error)
        return ""

    with shared_folder() as folder:
        path = folder / "config.yaml"
        path.write_text("model: a\n")
        assert load_config(folder).config.model.default == "a"
        path.chmod(0)
        assert "cannot be read: Permission denied" in as_ordinary_user(problem)


def test_a_huge_file_is_refused_without_parsing_it(tmp_path: Path) -> None:
    with (tmp_path / "config.yaml").open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(ConfigError, match="larger than 4 MB"):
        load_config(tmp_path)


def test_the_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_HOME", raising=False)
    assert hermes_home() == tmp_path / ".hermes"
    monkeypatch.setenv("HERMES_HOME", "~/elsewhere")
    assert hermes_home() == tmp_path / "elsewhere"
    monkeypatch.setenv("HERMES_HOME", "  ")
    assert hermes_home() == tmp_path / ".hermes"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HERMES_HOME", "here")
    assert config_path(hermes_home()) == tmp_path / "here" / "config.yaml"


_leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_values: st.SearchStrategy[Any] = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
_keys = st.sampled_from([*Config.__struct_fields__, "custom_providers", "fallback_model", "provider"])


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(_keys, _values | st.dictionaries(st.sampled_from(["enabled", "timeout", "model"]), _values)))
def test_any_document_gives_a_config_or_a_config_error(document: dict[str, Any]) -> None:
    import yaml

    text = yaml.safe_dump(document, allow_unicode=True)
    try:
        assert isinstance(load(text), Config)
    except ConfigError as error:
        assert "allowed: " in str(error) or "line" in str(error) or "YAML" in str(error)


@pytest.mark.parametrize(
    ("plugins", "unknown"),
    [
        ({"chat_recorder": {"vault_root": "~/vault"}}, False),
        ({"chat_recorder": "on"}, True),
        ({"entires": {"guard": {}}}, True),
    ],
)
def test_settings_that_a_plugin_reads_itself_are_no_mistake(plugins: dict[str, Any], unknown: bool) -> None:
    _, findings = check({"plugins": plugins})
    assert bool(findings.unknown) is unknown and findings.problems == []
