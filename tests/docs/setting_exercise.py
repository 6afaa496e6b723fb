"""Tests that together use every setting which has an effect, and the record of the settings that were read in them.

``python -m tests.docs --settings`` runs them and writes the record, from which the tables of settings are made.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .pages import ROOT

RECORD = Path(__file__).with_name("settings_read.txt")

#: A test for each part of the runtime that has settings. A new setting needs a test that uses it: add that one.
_TESTS = [
    "tests/service/mcp/callbacks/test_mcp_requests.py::test_sampling_is_refused_when_it_is_off_or_the_budget_is_spent",
    "tests/service/mcp/callbacks/test_mcp_requests.py::test_a_server_gets_an_answer_of_the_users_model",
    "tests/service/mcp/callbacks/test_mcp_requests.py::test_a_form_is_asked_field_by_field",
    "tests/service/mcp/test_mcp_http.py::test_a_server_is_called_with_its_headers",
    "tests/service/mcp/test_mcp_client.py::test_an_idle_server_is_stopped_and_started_again",
    "tests/service/mcp/test_mcp_conversation.py::test_the_prompt_shows_the_servers_and_reloads_them",
    "tests/surfaces/a2a/server/test_server_approvals.py::test_the_answer_decides",
    "tests/surfaces/a2a/test_push.py::test_redirects_are_not_followed",
    "tests/surfaces/openai_api/test_api_input.py::test_pages_of_named_origins_may_call_with_a_key",
    "tests/surfaces/cli/serve/test_api_command.py",
    "tests/surfaces/gateway/test_gateway_access.py",
    "tests/surfaces/gateway/test_gateway_attachments.py",
    "tests/surfaces/gateway/test_gateway_messages.py",
    "tests/surfaces/gateway/test_gateway_platforms.py",
    "tests/surfaces/gateway/test_gateway_schedules.py",
    "tests/service/schedules/test_scheduler.py",
    "tests/service/schedules/test_cronjob_tool.py",
    "tests/service/schedules/test_plugin_schedulers.py",
    "tests/surfaces/cli/serve/test_cron_command.py",
    "tests/service/dispatch/test_local_dispatcher.py",
    "tests/service/dispatch/cluster/test_taking.py",
    "tests/service/dispatch/cluster/test_cluster.py::test_turns_run_on_workers_and_are_followed",
    "tests/service/dispatch/cluster/test_cluster.py::test_a_worker_drains_when_it_is_stopped",
    "tests/service/dispatch/cluster/test_cluster.py::test_a_worker_shows_its_health_and_metrics",
    "tests/surfaces/cli/serve/cluster/test_serve.py",
    "tests/bundled/platforms/test_irc.py",
    "tests/bundled/platforms/test_telegram.py",
    "tests/surfaces/web/test_page_chat.py",
    "tests/surfaces/openai_api/test_api_runs.py",
    "tests/surfaces/openai_api/test_api_sessions.py",
    "tests/record/audit/test_evidence.py::test_a_setting_seals_every_turn",
    "tests/surfaces/a2a/test_call.py::test_an_agent_of_the_configuration_has_a_name_and_a_token",
    "tests/agent/llm/test_plugin_llm.py::test_the_usual_fallbacks_answer_for_a_provider_that_fails",
    "tests/agent/llm/test_side_call.py::test_a_side_job_has_the_model_that_the_configuration_gives_it",
    "tests/agent/llm/test_budgets.py::test_another_principal_has_a_budget_of_its_own",
    "tests/agent/llm/test_budgets.py::test_each_child_has_a_budget",
    "tests/agent/children/test_delegation.py::test_an_orchestrator_delegates_further_and_its_children_do_not",
    "tests/agent/children/test_delegation.py::test_children_may_live_at_another_endpoint",
    "tests/agent/context/test_context_engine_plugin.py::test_the_engine_decides_and_hears_what_it_needs",
    "tests/agent/test_incomplete_answers.py::test_it_is_not_continued_when_the_user_set_the_limit",
    "tests/agent/tools/test_execute_code.py::test_limits_of_calls_output_and_time",
    "tests/agent/tools/test_tools_on_every_surface.py::test_the_model_has_the_same_tools",
    "tests/agent/tools/test_tool_search.py::test_a_tool_is_found_described_and_called_under_its_own_name",
    "tests/plugins/shell_hooks/test_shell_hooks_in_turns.py::test_settings_that_accept_every_command",
    "tests/tools/web/test_web_fetch.py::test_a_long_text_is_given_in_parts",
    "tests/models/local/test_local_chat.py::test_it_is_gone_with_its_host",
    "tests/models/local/test_local_chat.py::test_a_better_model_follows_the_settings",
    "tests/tools/files/checkpoints/test_recording.py::test_a_damaged_store_never_ends_a_turn",
    "tests/tools/files/checkpoints/test_restoring.py::test_undo_without_a_person_restores_only_when_told_to",
    "tests/surfaces/cli/repl/test_prompt_input.py::TestNotifier",
    "tests/surfaces/cli/repl/test_repl_input.py::test_a_session_is_chosen_by_its_title_vi_keys_work_and_the_terminal_is_told",
    "tests/surfaces/cli/chat/test_hostile_plugins.py::test_a_thread_that_does_not_end_does_not_keep_the_program",
]


def recorded_reads() -> frozenset[str]:
    """The fields that the last recorded run read, as ``Struct.field``."""
    return frozenset(RECORD.read_text().split())


def run_exercise() -> str:
    """Run the tests; the text of the record. They fail here as they do in any other run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "reads")
        options = ["-q", "-n", "2", "-p", "no:cacheprovider", "-p", "support.setting_reads", "-m", ""]
        # What one test leaves to the garbage collector is the matter of that test, and no reason to record nothing.
        options += ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *_TESTS],
            cwd=ROOT,
            env={**os.environ, "RECORD_SETTING_READS": str(file), "PYTHONPATH": str(ROOT / "tests")},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"one of the tests failed:\n{done.stdout[-4000:]}"
        return "".join(f"{field}\n" for field in sorted(set(file.read_text().split())))
