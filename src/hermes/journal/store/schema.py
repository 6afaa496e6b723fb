"""The tables of ``state.db``, as numbered forward migrations."""

from __future__ import annotations

#: What model calls have in common, in sessions and outside of them, and what of it a view of all shows.
_CALL = """turn_id            TEXT NOT NULL,
        key                TEXT NOT NULL,
        provider           TEXT NOT NULL,
        model              TEXT NOT NULL,
        status             TEXT NOT NULL,   -- ok, error, interrupted, crashed
        error              TEXT,
        finish_reason      TEXT,
        started_at         REAL NOT NULL,
        duration           REAL NOT NULL,
        first_token        REAL,            -- seconds from the start to the first piece of the answer
        input_tokens       INTEGER,
        output_tokens      INTEGER,
        cache_read_tokens  INTEGER,
        cache_write_tokens INTEGER,
        reasoning_tokens   INTEGER,
        cost_usd           REAL,"""
_SEEN = (
    "session_id, api_request_id, turn_id, key, provider, model, status, started_at, input_tokens, output_tokens, "
    "cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_usd, purpose"
)

#: Migration n brings ``user_version`` from n to n + 1. Released entries are never edited, only followed by new ones.
MIGRATIONS: tuple[str, ...] = (
    f"""
    CREATE TABLE sessions (
        id          TEXT PRIMARY KEY,
        parent_id   TEXT,               -- the session that delegated to this one
        parent_call TEXT,               -- the tool call of the parent that did so
        platform    TEXT NOT NULL,
        title       TEXT NOT NULL DEFAULT '',
        cwd         TEXT NOT NULL,
        provider    TEXT NOT NULL DEFAULT '',
        model       TEXT NOT NULL DEFAULT '',
        runner      TEXT,               -- who runs it; alive while it holds the lock on its runner file
        epoch       INTEGER NOT NULL DEFAULT 0,
        created_at  REAL NOT NULL,
        updated_at  REAL NOT NULL
    ) STRICT;
    CREATE INDEX sessions_recent ON sessions (updated_at);

    CREATE TABLE turns (
        id           TEXT PRIMARY KEY,
        session_id   TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        ordinal      INTEGER NOT NULL,
        task_id      TEXT NOT NULL,
        request_key  TEXT NOT NULL,     -- the same delivery twice is the same turn
        state        TEXT NOT NULL CHECK (state IN ('running', 'completed', 'failed', 'interrupted')),
        attempts     INTEGER NOT NULL DEFAULT 1,
        loop_version INTEGER NOT NULL,
        first_seq    INTEGER NOT NULL,  -- its events begin here
        started_at   REAL NOT NULL,
        ended_at     REAL,
        answer       TEXT,
        error        TEXT,
        UNIQUE (session_id, ordinal),
        UNIQUE (session_id, request_key)
    ) STRICT;

    CREATE TABLE events (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        seq        INTEGER NOT NULL,    -- gapless within a session
        turn_id    TEXT NOT NULL,
        kind       TEXT NOT NULL,
        key        TEXT NOT NULL,       -- of a step: setup, model:n, tool:n.i, final; never the provider's id
        effect     TEXT,                -- of a step: what may happen when it runs again
        body       TEXT NOT NULL,
        at         REAL NOT NULL,
        PRIMARY KEY (session_id, seq)
    ) STRICT;

    -- Where each step stands: its last event counts.
    CREATE VIEW steps AS
        SELECT session_id, turn_id, key, effect, substr(kind, 6) AS state, max(seq) AS result_seq
        FROM events WHERE effect IS NOT NULL GROUP BY session_id, turn_id, key;

    CREATE TABLE messages (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,   -- never reused, so the search index can follow it
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        turn       INTEGER NOT NULL,
        step       INTEGER NOT NULL,    -- 0 is the user's message, n the n-th model step with its tool results
        position   INTEGER NOT NULL,
        role       TEXT NOT NULL,
        body       TEXT NOT NULL,
        UNIQUE (session_id, turn, step, position)
    ) STRICT;

    CREATE TABLE blobs (
        sha256 TEXT PRIMARY KEY,        -- large bodies, stored once
        data   TEXT NOT NULL
    ) STRICT;
    CREATE TABLE blob_uses (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        sha256     TEXT NOT NULL,
        PRIMARY KEY (session_id, sha256)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE model_calls (
        session_id         TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        api_request_id     TEXT NOT NULL,
        {_CALL}
        PRIMARY KEY (session_id, api_request_id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE plugin_calls (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        plugin     TEXT NOT NULL,
        site       TEXT NOT NULL,       -- a hook, a middleware kind, register, tool:NAME or waiting:WHAT NAME
        calls      INTEGER NOT NULL,
        failures   INTEGER NOT NULL,
        seconds    REAL NOT NULL,
        last_error TEXT NOT NULL,
        at         REAL NOT NULL,       -- when the process that counted last was done
        PRIMARY KEY (session_id, plugin, site)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    ALTER TABLE turns ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;     -- taken back by the user; kept, never shown
    ALTER TABLE sessions ADD COLUMN branched_from TEXT;                 -- the session this one is a copy of

    CREATE TABLE approvals (
        id          TEXT PRIMARY KEY,
        session_id  TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        turn_id     TEXT NOT NULL,
        key         TEXT NOT NULL,      -- the step that needs it: tool:n.i
        tool        TEXT NOT NULL,
        digest      TEXT NOT NULL,      -- of the tool and its exact arguments
        subject     TEXT NOT NULL,      -- what a person is shown: the command, or the call
        rules       TEXT NOT NULL,      -- a JSON list of the rules that asked
        description TEXT NOT NULL,
        surface     TEXT NOT NULL,      -- where the question was asked
        state       TEXT NOT NULL CHECK (state IN ('pending', 'granted', 'denied', 'consumed', 'revoked')),
        choice      TEXT,               -- once, session, always, deny, timeout, smart_approve, smart_deny
        reason      TEXT NOT NULL DEFAULT '',
        created_at  REAL NOT NULL,
        answered_at REAL,
        consumed_at REAL
    ) STRICT;
    CREATE INDEX approvals_of_session ON approvals (session_id, state);
    """,
    f"""
    ALTER TABLE model_calls ADD COLUMN purpose TEXT NOT NULL DEFAULT '';    -- what a plugin says that it asks for

    -- Model calls of plugins for which no session was recorded yet.
    CREATE TABLE outside_calls (
        session_id         TEXT NOT NULL,   -- the session that was not on record yet, or the process
        api_request_id     TEXT PRIMARY KEY,
        {_CALL}
        purpose            TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;

    -- What a plugin has spent is asked before each of its calls, where it has a budget.
    CREATE INDEX model_calls_of_plugins ON model_calls (key, started_at) WHERE substr(key, 1, 7) = 'plugin:';
    CREATE INDEX outside_calls_of_plugins ON outside_calls (key, started_at);

    CREATE VIEW all_calls AS
        SELECT {_SEEN}
        FROM model_calls
        UNION ALL
        SELECT {_SEEN}
        FROM outside_calls;
    """,
    """
    -- Questions that wait for an answer: approvals of calls, and what the model asks the user.
    CREATE TABLE questions (
        id          TEXT PRIMARY KEY,
        session_id  TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        turn_id     TEXT NOT NULL,
        key         TEXT NOT NULL,      -- the step that asked: tool:n.i
        tool        TEXT NOT NULL,
        digest      TEXT NOT NULL,      -- of the tool and its exact arguments
        subject     TEXT NOT NULL,      -- what is shown: the command or call, or the question itself
        rules       TEXT NOT NULL,      -- a JSON list of the rules that made an approval necessary
        description TEXT NOT NULL,
        surface     TEXT NOT NULL,      -- where the question was shown
        kind        TEXT NOT NULL DEFAULT 'approval' CHECK (kind IN ('approval', 'clarify')),
        choices     TEXT NOT NULL DEFAULT '[]',     -- a JSON list of suggested answers
        state       TEXT NOT NULL
                    CHECK (state IN ('pending', 'granted', 'denied', 'answered', 'consumed', 'revoked')),
        answer      TEXT,               -- once, session, always, deny, timeout, smart_approve, smart_deny; or the text
        reason      TEXT NOT NULL DEFAULT '',
        deadline    REAL,               -- of a question whose answer comes later
        created_at  REAL NOT NULL,
        answered_at REAL,
        consumed_at REAL
    ) STRICT;
    INSERT INTO questions (id, session_id, turn_id, key, tool, digest, subject, rules, description, surface, state,
                           answer, reason, created_at, answered_at, consumed_at)
        SELECT id, session_id, turn_id, key, tool, digest, subject, rules, description, surface, state,
               choice, reason, created_at, answered_at, consumed_at
        FROM approvals ORDER BY rowid;
    DROP TABLE approvals;
    CREATE INDEX questions_of_session ON questions (session_id, state);
    """,
    """
    ALTER TABLE sessions ADD COLUMN principal TEXT NOT NULL DEFAULT '';     -- the caller it belongs to; '' is the owner
    ALTER TABLE sessions ADD COLUMN head_seq INTEGER NOT NULL DEFAULT 0;    -- the number of its last event
    ALTER TABLE sessions ADD COLUMN branched_turn INTEGER;                  -- of a copy: the last turn it took over,
    ALTER TABLE sessions ADD COLUMN branched_step TEXT;                     -- the last step of it; '' means all,
    ALTER TABLE sessions ADD COLUMN branched_seq INTEGER;                   -- and the last event
    UPDATE sessions SET head_seq = coalesce((SELECT max(e.seq) FROM events e WHERE e.session_id = sessions.id), 0);

    ALTER TABLE events ADD COLUMN epoch INTEGER;    -- of the lease it was written under
    ALTER TABLE events ADD COLUMN chain BLOB;       -- SHA-256 of the chain before it and of this row; not in old ones

    CREATE TABLE new_turns (
        id           TEXT PRIMARY KEY,
        session_id   TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        ordinal      INTEGER NOT NULL,
        task_id      TEXT NOT NULL,
        request_key  TEXT NOT NULL,     -- the same delivery twice is the same turn
        source       TEXT NOT NULL DEFAULT '',  -- the surface its message came from
        state        TEXT NOT NULL CHECK (state IN ('queued', 'running', 'completed', 'failed', 'interrupted')),
        attempts     INTEGER NOT NULL DEFAULT 1,
        loop_version INTEGER NOT NULL,
        first_seq    INTEGER NOT NULL,  -- its events begin here
        started_at   REAL NOT NULL,
        ended_at     REAL,
        answer       TEXT,
        error        TEXT,
        undone       INTEGER NOT NULL DEFAULT 0,    -- taken back by the user; kept, never shown
        UNIQUE (session_id, ordinal),
        UNIQUE (session_id, request_key)
    ) STRICT;
    INSERT INTO new_turns (id, session_id, ordinal, task_id, request_key, source, state, attempts, loop_version,
                           first_seq, started_at, ended_at, answer, error, undone)
        SELECT t.id, t.session_id, t.ordinal, t.task_id, t.request_key, s.platform, t.state, t.attempts, t.loop_version,
               t.first_seq, t.started_at, max(t.ended_at, t.started_at), t.answer, t.error, t.undone
        FROM turns t JOIN sessions s ON s.id = t.session_id ORDER BY t.rowid;
    DROP TABLE turns;
    ALTER TABLE new_turns RENAME TO turns;
    CREATE INDEX turns_open ON turns (session_id) WHERE state IN ('queued', 'running');

    ALTER TABLE questions ADD COLUMN principal TEXT NOT NULL DEFAULT '';    -- the caller whose session asks

    -- The messages and the answer of a plugin's call, as a blob.
    ALTER TABLE model_calls ADD COLUMN content TEXT;
    ALTER TABLE outside_calls ADD COLUMN content TEXT;
    """,
    """
    ALTER TABLE sessions ADD COLUMN mode TEXT NOT NULL DEFAULT '';  -- the permission mode that the user chose for it
    """,
    """
    -- The budgets of a day are checked before each call: what it adds up must not grow with the history.
    CREATE INDEX model_calls_by_time ON model_calls (started_at);
    CREATE INDEX outside_calls_by_time ON outside_calls (started_at);
    """,
    """
    -- Turns that were accepted to be run later, perhaps by another process. While its turn is queued it has a negative
    -- ordinal, and gets its place in the conversation when it starts.
    CREATE TABLE submissions (
        turn_id      TEXT PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
        session_id   TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        queue        TEXT NOT NULL,     -- whose slots it uses: turns, or children
        priority     INTEGER NOT NULL,
        principal    TEXT NOT NULL,
        submitted_at REAL NOT NULL,
        options      TEXT NOT NULL,     -- JSON: what the turn is to be run with
        message      TEXT NOT NULL      -- empty once the turn has started: its first event has it
    ) STRICT;
    CREATE INDEX submissions_of_session ON submissions (session_id);
    CREATE INDEX turns_queued ON turns (state) WHERE state IN ('queued', 'running');
    """,
    """
    -- Chat platforms: which session a conversation is in, what arrived, what is to be sent, and who was let in.
    CREATE TABLE gateway_chats (
        key        TEXT PRIMARY KEY,    -- platform, chat, thread and user
        platform   TEXT NOT NULL,
        principal  TEXT NOT NULL,
        session_id TEXT NOT NULL,       -- on record once its first turn is
        source     TEXT NOT NULL,       -- JSON: where its last message came from
        last_at    REAL NOT NULL,
        expired_at REAL NOT NULL        -- when the session was ended because it was idle; 0 while it is in use
    ) STRICT;
    CREATE INDEX gateway_chats_by_time ON gateway_chats (last_at);
    CREATE INDEX gateway_chats_by_session ON gateway_chats (session_id);

    CREATE TABLE gateway_inbox (
        number      INTEGER PRIMARY KEY AUTOINCREMENT,
        chat        TEXT NOT NULL,
        platform    TEXT NOT NULL,
        delivery    TEXT NOT NULL,      -- the platform's id of the message: twice the same is one message
        event       TEXT NOT NULL,      -- JSON
        state       TEXT NOT NULL CHECK (state IN ('queued', 'waiting', 'done', 'dead')),
        attempts    INTEGER NOT NULL DEFAULT 0,
        error       TEXT NOT NULL DEFAULT '',
        received_at REAL NOT NULL,
        ended_at    REAL,
        UNIQUE (platform, chat, delivery)
    ) STRICT;
    CREATE INDEX gateway_inbox_open ON gateway_inbox (number) WHERE state IN ('queued', 'waiting');

    CREATE TABLE gateway_outbox (
        number     INTEGER PRIMARY KEY AUTOINCREMENT,
        key        TEXT NOT NULL UNIQUE,    -- the same message added twice is sent once
        platform   TEXT NOT NULL,
        chat_id    TEXT NOT NULL,
        content    TEXT NOT NULL,
        thread_id  TEXT NOT NULL DEFAULT '',
        reply_to   TEXT NOT NULL DEFAULT '',
        kind       TEXT NOT NULL DEFAULT 'text',
        details    TEXT NOT NULL DEFAULT '{}',  -- JSON: of a question
        state      TEXT NOT NULL CHECK (state IN ('waiting', 'sending', 'sent', 'failed', 'unknown')),
        attempts   INTEGER NOT NULL DEFAULT 0,
        error      TEXT NOT NULL DEFAULT '',
        message_id TEXT NOT NULL DEFAULT '',    -- the platform's
        created_at REAL NOT NULL,
        due_at     REAL NOT NULL
    ) STRICT;
    CREATE INDEX gateway_outbox_open ON gateway_outbox (platform, chat_id, number)
        WHERE state IN ('waiting', 'sending');

    CREATE TABLE gateway_users (
        platform    TEXT NOT NULL,
        user_id     TEXT NOT NULL,
        name        TEXT NOT NULL,
        role        TEXT NOT NULL CHECK (role IN ('user', 'approver', 'owner')),
        approved_at REAL NOT NULL,
        PRIMARY KEY (platform, user_id)
    ) STRICT;
    CREATE TABLE gateway_pairings (
        platform     TEXT NOT NULL,
        user_id      TEXT NOT NULL,
        name         TEXT NOT NULL,
        chat_id      TEXT NOT NULL,
        salt         TEXT NOT NULL,
        digest       TEXT NOT NULL,     -- SHA-256 of the salt and the code
        requested_at REAL NOT NULL,
        PRIMARY KEY (platform, user_id)
    ) STRICT;
    CREATE TABLE gateway_lockouts (
        failures INTEGER NOT NULL,
        since    REAL NOT NULL
    ) STRICT;
    """,
    """
    -- Messages that are sent to the agent at set times.
    CREATE TABLE schedules (
        id         TEXT PRIMARY KEY,
        principal  TEXT NOT NULL,       -- who it belongs to; '' is the owner
        source     TEXT NOT NULL,       -- the surface that made it: cli, tool, plugin
        name       TEXT NOT NULL,
        prompt     TEXT NOT NULL,
        timing     TEXT NOT NULL,       -- a cron expression, 'every 2h' or a moment
        zone       TEXT NOT NULL,       -- the time zone of the expression
        anchor     REAL NOT NULL,       -- intervals count from here
        deliver    TEXT NOT NULL,       -- where the answer goes; '' is nowhere
        cwd        TEXT NOT NULL,
        provider   TEXT NOT NULL,
        model      TEXT NOT NULL,
        missed     TEXT NOT NULL,       -- 'once', 'skip', or '' for the setting
        overlap    TEXT NOT NULL,       -- 'skip', 'queue', or '' for the setting
        remaining  INTEGER,             -- runs that are left; NULL is no limit
        state      TEXT NOT NULL CHECK (state IN ('active', 'paused', 'done')),
        reason     TEXT NOT NULL DEFAULT '',    -- why it is paused or done
        next_fire  REAL,                -- NULL while it is not active
        planned_at REAL NOT NULL,       -- when next_fire was set; later than now: the clock went back
        failures   INTEGER NOT NULL DEFAULT 0,  -- in a row
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX schedules_due ON schedules (next_fire) WHERE state = 'active';

    -- The fires of schedules: a planned time of a schedule has one row and one turn.
    CREATE TABLE schedule_runs (
        schedule_id TEXT NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
        planned     REAL NOT NULL,
        state       TEXT NOT NULL CHECK (state IN ('queued', 'running', 'completed', 'failed', 'skipped')),
        is_manual   INTEGER NOT NULL DEFAULT 0,     -- asked for by a user, outside of its times
        runner      TEXT,               -- who runs it; NULL when the next process is to continue it
        session_id  TEXT NOT NULL,
        started_at  REAL,
        ended_at    REAL,
        detail      TEXT NOT NULL DEFAULT '',       -- why it failed or was skipped
        delivery    TEXT NOT NULL DEFAULT '',       -- what became of the answer
        PRIMARY KEY (schedule_id, planned)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX schedule_runs_open ON schedule_runs (schedule_id) WHERE state IN ('queued', 'running');
    """,
    """
    -- Requests of the OpenAI-compatible API, each with its turn: the one with this id as its request key.
    CREATE TABLE api_requests (
        id          TEXT PRIMARY KEY,   -- as the client knows it: chatcmpl-…, resp_…, run_…
        principal   TEXT NOT NULL,
        key         TEXT,               -- the client's idempotency key
        digest      TEXT NOT NULL,      -- of the request, which the same key must repeat
        session_id  TEXT NOT NULL,
        fingerprint TEXT NOT NULL,      -- of the conversation as the client sent it, up to the message of the turn
        document    TEXT NOT NULL,      -- JSON: what the answer repeats of the request
        created_at  REAL NOT NULL,
        deleted     INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE UNIQUE INDEX api_requests_by_key ON api_requests (principal, key) WHERE key IS NOT NULL;
    CREATE INDEX api_requests_by_fingerprint ON api_requests (principal, fingerprint);
    CREATE INDEX api_requests_by_time ON api_requests (created_at);
    """,
    """
    -- Given to the engine of the workers: how often, whether that is so now, and not again before that time.
    ALTER TABLE submissions ADD COLUMN dispatches INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE submissions ADD COLUMN is_dispatched INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE submissions ADD COLUMN retry_at REAL NOT NULL DEFAULT 0;
    ALTER TABLE submissions ADD COLUMN cancel_reason TEXT;  -- the turn is to be stopped, wherever it is
    ALTER TABLE submissions ADD COLUMN workspace TEXT NOT NULL DEFAULT '';  -- of the workers that may run it; '' is all

    -- The processes that run submitted turns.
    CREATE TABLE workers (
        id          TEXT PRIMARY KEY,   -- of the runner, which lives while it holds its lock
        host        TEXT NOT NULL,
        pid         INTEGER NOT NULL,
        version     TEXT NOT NULL,
        loop        INTEGER NOT NULL,   -- the protocol of the loop that it runs
        workspace   TEXT NOT NULL,      -- the workspace it serves; '' is the shared one
        slots       INTEGER NOT NULL,
        child_slots INTEGER NOT NULL,
        running     INTEGER NOT NULL DEFAULT 0,
        state       TEXT NOT NULL,      -- running, draining
        started_at  REAL NOT NULL
    ) STRICT;
    """,
    """
    -- How many processes died while they ran it.
    ALTER TABLE schedule_runs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
    """,
    """
    -- Workers take turns from this table themselves.
    ALTER TABLE submissions ADD COLUMN worker TEXT;     -- that has the turn; '' while it waits for one, else NULL
    UPDATE submissions SET worker = '' WHERE is_dispatched = 1 OR (options LIKE '%"follower":%'
        AND turn_id IN (SELECT id FROM turns WHERE state = 'queued' AND state IN ('queued', 'running')));
    ALTER TABLE submissions DROP COLUMN is_dispatched;
    CREATE INDEX submissions_waiting ON submissions (workspace, queue) WHERE worker = '';
    """,
    """
    -- Tasks of A2A callers, as they are sent: protobuf. A server answers those that have its runner.
    CREATE TABLE a2a_tasks (
        owner      TEXT NOT NULL,       -- the principal
        id         TEXT NOT NULL,
        context_id TEXT NOT NULL,
        state      INTEGER NOT NULL,    -- of the protocol: 1 submitted, 2 working, 6 waits for its caller; else ended
        runner     TEXT,                -- who answers a message of it now
        updated_ns INTEGER,             -- when its status changed
        body       BLOB NOT NULL,
        PRIMARY KEY (owner, id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX a2a_tasks_by_time ON a2a_tasks (owner, updated_ns, id);
    CREATE INDEX a2a_tasks_open ON a2a_tasks (owner, context_id) WHERE state IN (1, 2, 6);

    -- The messages that started them: the same one again is the same task.
    CREATE TABLE a2a_messages (
        owner      TEXT NOT NULL,
        context_id TEXT NOT NULL,       -- empty when the caller named none
        message_id TEXT NOT NULL,
        digest     BLOB NOT NULL,       -- of its parts: some clients use one id for all their messages
        task_id    TEXT NOT NULL,
        PRIMARY KEY (owner, context_id, message_id)
    ) STRICT, WITHOUT ROWID;

    -- The conversations of A2A callers, and the session of each.
    CREATE TABLE a2a_contexts (
        owner      TEXT NOT NULL,
        context_id TEXT NOT NULL,
        session_id TEXT NOT NULL,       -- on record once its first turn is
        PRIMARY KEY (owner, context_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX a2a_contexts_by_session ON a2a_contexts (session_id);

    -- Where callers want the events of a task sent.
    CREATE TABLE a2a_webhooks (
        owner   TEXT NOT NULL,
        task_id TEXT NOT NULL,
        id      TEXT NOT NULL,
        version TEXT NOT NULL,          -- of the protocol that it expects
        body    BLOB NOT NULL,
        PRIMARY KEY (task_id, owner, id)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    ALTER TABLE questions ADD COLUMN answered_by TEXT NOT NULL DEFAULT '';  -- who answered, where that is known
    """,
    """
    -- Where an approval is asked, as plugins are told, and how far that is: '', asked, telling (the answer), told.
    ALTER TABLE questions ADD COLUMN announced TEXT NOT NULL DEFAULT '';
    ALTER TABLE questions ADD COLUMN told TEXT NOT NULL DEFAULT '';
    """,
)
