-- Version 1. `user_version` says which one a file has; the program refuses files of a later one.

-- The truth. `hash` is sha256(hash of the event before ‖ body); before the first stands sha256(execution_id).
-- `number` makes every insert go to the end: a commit writes a third fewer pages than WITHOUT ROWID would.
CREATE TABLE event (
    number INTEGER PRIMARY KEY,
    execution_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (execution_id, seq)
);

CREATE TRIGGER event_is_final BEFORE UPDATE ON event
BEGIN
    SELECT raise(ABORT, 'an event is never changed');
END;

-- What lists show, written along with the events. `number` counts executions as they are requested.
CREATE TABLE execution (
    number INTEGER PRIMARY KEY,
    execution_id TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL,
    playbook TEXT NOT NULL,
    parent TEXT,
    requested_at TEXT NOT NULL,
    status TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    seq INTEGER NOT NULL,
    -- apart from `status`, so that the index is left alone until the end
    over INTEGER NOT NULL
);

CREATE INDEX unfinished ON execution (number) WHERE over = 0;

-- Apart from `execution`, because one may be claimed before its first event is written.
CREATE TABLE ownership (execution_id TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE snapshot (
    execution_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (execution_id, seq)
);

CREATE TABLE source (hash TEXT PRIMARY KEY, text TEXT NOT NULL, file TEXT NOT NULL, legacy INTEGER NOT NULL);

CREATE TABLE inbox (number INTEGER PRIMARY KEY AUTOINCREMENT, execution_id TEXT NOT NULL, body BLOB NOT NULL);

CREATE TABLE line (number INTEGER PRIMARY KEY, execution_id TEXT NOT NULL, body BLOB NOT NULL);

CREATE INDEX line_of_execution ON line (execution_id, number);
