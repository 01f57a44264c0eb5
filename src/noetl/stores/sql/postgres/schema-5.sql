-- Version 5: pipelines that nobody brought to an end, with what became of them the last time.
CREATE TABLE noetl.dead_letter (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    execution_id text COLLATE "C" NOT NULL,
    step_run_id text NOT NULL,
    iteration text NOT NULL,
    worker text,
    tries int NOT NULL,
    why text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
