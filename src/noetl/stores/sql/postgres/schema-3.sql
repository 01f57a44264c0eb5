-- Version 3: limits across executions.

-- Who may go on: step runs, and iterations of their loops, under the key whose limit holds for them.
CREATE TABLE noetl.slot (
    -- the order in which they were given
    number bigint GENERATED ALWAYS AS IDENTITY,
    execution_id text COLLATE "C" NOT NULL,
    step_run_id text NOT NULL,
    -- a JSON value, for an iteration may be a number, a text or none
    iteration text NOT NULL,
    key text NOT NULL,
    displaced boolean NOT NULL DEFAULT false,
    PRIMARY KEY (execution_id, step_run_id, iteration)
);

CREATE INDEX slot_key ON noetl.slot (key, number);

-- When something started under a key, and until when that matters; in seconds since the epoch.
CREATE TABLE noetl.start (key text NOT NULL, at float8 NOT NULL, until float8 NOT NULL);
CREATE INDEX start_key ON noetl.start (key, at);

-- Which processes wait for a key: since when, and when they last asked.
CREATE TABLE noetl.turn (
    key text NOT NULL, process text NOT NULL, since float8 NOT NULL, seen float8 NOT NULL, PRIMARY KEY (key, process)
);
