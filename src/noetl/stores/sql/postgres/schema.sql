-- Version 1. The table `noetl.version` says which one a database has; the program refuses those of a later one.

-- The truth. `hash` is sha256(hash of the event before ‖ body); before the first stands sha256(execution_id).
CREATE TABLE noetl.event (
    execution_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    body bytea NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (execution_id, seq)
);

CREATE FUNCTION noetl.event_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an event is never changed';
END $$;

CREATE TRIGGER event_is_final BEFORE UPDATE ON noetl.event EXECUTE FUNCTION noetl.event_is_final();

-- What lists show, written along with the events. `number` counts executions as they are requested.
CREATE TABLE noetl.execution (
    number bigint GENERATED ALWAYS AS IDENTITY,
    execution_id text COLLATE "C" PRIMARY KEY,
    path text NOT NULL,
    playbook text NOT NULL,
    parent text,
    requested_at text NOT NULL,
    status text NOT NULL,
    updated_at text NOT NULL,
    seq bigint NOT NULL,
    -- of the last event: what is appended goes on from it
    hash bytea NOT NULL,
    over boolean NOT NULL
);

CREATE UNIQUE INDEX execution_number ON noetl.execution (number);
CREATE INDEX unfinished ON noetl.execution (number) WHERE NOT over;
CREATE INDEX execution_parent ON noetl.execution (parent, number) WHERE parent IS NOT NULL;
CREATE INDEX execution_path ON noetl.execution (path, number);

-- Who runs executions, and until when it is believed to live; by the clock of this database alone.
CREATE TABLE noetl.owner (owner text PRIMARY KEY, until timestamptz NOT NULL);

-- Apart from `execution`, because one may be claimed before its first event is written.
CREATE TABLE noetl.ownership (execution_id text COLLATE "C" PRIMARY KEY, owner text NOT NULL);
CREATE INDEX owned ON noetl.ownership (owner);

CREATE TABLE noetl.snapshot (
    execution_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (execution_id, seq)
);

CREATE TABLE noetl.source (hash text PRIMARY KEY, text text NOT NULL, file text NOT NULL, legacy boolean NOT NULL);

CREATE TABLE noetl.inbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    execution_id text COLLATE "C" NOT NULL,
    body bytea NOT NULL
);

CREATE TABLE noetl.line (
    number bigint GENERATED ALWAYS AS IDENTITY,
    execution_id text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (execution_id, number)
);
