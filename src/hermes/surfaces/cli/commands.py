"""The table of commands: by what a person does, each with its module and a line of help. Imports nothing."""

from __future__ import annotations

#: Heading -> command -> its module below ``hermes.cli``, which has a ``COMMAND``, and one line of help.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "chat": {
        "chat": (".chat.command", "Chat with the model (the default command)."),
    },
    "look at past runs": {
        "sessions": (".runs.sessions.command", "List, show, search, export, rename and delete sessions."),
        "checkpoints": (".runs.checkpoints", "List, show and restore files as they were before a turn."),
        "trace": (".runs.trace.command", "List, draw, export, follow and verify past runs."),
        "usage": (".runs.usage", "Show token use and cost."),
        "logs": (".runs.logs", "Show or follow the log."),
        "replay": (".runs.record.replay", "Run a recorded session again, without network, and show what differs."),
        "fork": (".runs.record.fork", "Continue a recorded session differently, from one of its steps on."),
        "audit": (".runs.record.audit", "Seal sessions with an SSH key, export and verify them as evidence."),
        "test": (".runs.record.case", "Turn recorded runs into tests, and run them without network or key."),
        "eval": (".runs.record.evaluate", "Run a dataset with several models and score the answers."),
        "policy": (".runs.record.policy", "Judge recorded tool calls by other rules or a plugin."),
    },
    "extend the agent": {
        "plugins": (".extend.plugins.command", "List, enable, install, check and create plugins."),
        "skills": (".extend.skills", "List, add, check and remove skills."),
        "hooks": (".extend.hooks", "List, test, accept and revoke hook commands; print the hook contract."),
        "mcp": (".extend.mcp.command", "Add, list, test and configure MCP servers; serve this agent as one."),
    },
    "set it up": {
        "model": (".setup.model.show", "Show, list, set and test the model."),
        "auth": (".setup.auth", "Add, list and remove API keys and sign-ins."),
        "local": (".setup.local", "Install, show and remove the embedded model, which needs no key."),
        "config": (".setup.config", "Show and change the configuration."),
        "approvals": (".setup.approvals", "Show, explain and revoke allowed commands."),
        "trust": (".setup.trust", "List, add and remove the project folders that you trust."),
        "memory": (".setup.memory", "Show the notes and the memory provider in use; choose another."),
        "install": (".setup.install", "Install what an extra needs, such as a2a or otel, into this environment."),
        "db": (".setup.db", "Show, migrate and copy the journal: a file of the home, or PostgreSQL."),
        "doctor": (".doctor.command", "Check the setup and suggest fixes."),
        "completion": (".setup.completion", "Print a completion script for bash, zsh or fish."),
    },
    "run it for others": {
        "gateway": (".serve.gateway.command", "Run this agent on chat platforms; let users in."),
        "api": (".serve.api", "Serve this agent to programs that use OpenAI's API."),
        "a2a": (".serve.a2a", "Serve this agent to other agents, and call them."),
        "acp": (".serve.acp", "Serve this agent to an editor, over the Agent Client Protocol."),
        "web": (".serve.web", "Show sessions, timelines, approvals and costs in a browser, and chat there."),
        "cron": (".serve.cron", "Run prompts at set times: add, list, change and run schedules."),
        "serve": (".serve.cluster.serve", "Start and supervise the processes of serve.commands: servers and workers."),
        "worker": (".serve.cluster.worker", "Run turns that others submit, beside other workers (PostgreSQL)."),
        "workers": (".serve.cluster.workers", "List, drain and evict the workers of a cluster."),
    },
}

COMMANDS = {name: row for commands in GROUPS.values() for name, row in commands.items()}

DEFAULT_COMMAND = "chat"
