-- Version 2: limits across executions.

-- Who may go on: step runs, and iterations of their loops, under the key whose limit holds for them.
CREATE TABLE slot (
    -- the order in which they were given
    number INTEGER PRIMARY KEY,
    execution_id TEXT NOT NULL,
    step_run_id TEXT NOT NULL,
    -- a JSON value, for an iteration may be a number, a text or none
    iteration TEXT NOT NULL,
    key TEXT NOT NULL,
    displaced INTEGER NOT NULL DEFAULT 0,
    UNIQUE (execution_id, step_run_id, iteration)
);

CREATE INDEX slot_key ON slot (key, number);

-- When something started under a key, and until when that matters; in seconds since the epoch.
CREATE TABLE start (number INTEGER PRIMARY KEY, key TEXT NOT NULL, at REAL NOT NULL, until REAL NOT NULL);

CREATE INDEX start_key ON start (key, at);

-- Which processes wait for a key: since when, and when they last asked.
CREATE TABLE turn (
    key TEXT NOT NULL, process TEXT NOT NULL, since REAL NOT NULL, seen REAL NOT NULL, PRIMARY KEY (key, process)
) WITHOUT ROWID;
