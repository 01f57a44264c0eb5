-- Version 2: workers apart from the servers.

-- Who runs pipelines, and until when it is believed to live. Whoever has been given up stays so.
CREATE TABLE noetl.worker (
    worker text PRIMARY KEY,
    until timestamptz NOT NULL,
    given_up boolean NOT NULL DEFAULT false,
    about jsonb NOT NULL
);

-- Who has which pipeline, written some time after it was given out: for servers that take an execution over.
CREATE TABLE noetl.held (
    execution_id text COLLATE "C" NOT NULL,
    step_run_id text NOT NULL,
    -- a JSON value, for an iteration may be a number, a text or none
    iteration text NOT NULL,
    fence text NOT NULL,
    worker text NOT NULL,
    tries int NOT NULL,
    PRIMARY KEY (execution_id, step_run_id, iteration)
);
