-- Version 3: the key that a caller started an execution with. It is in the row of the execution, so both are written
-- and removed together, and a key starts one execution.
ALTER TABLE execution ADD COLUMN caller TEXT;
ALTER TABLE execution ADD COLUMN start_key TEXT;

CREATE UNIQUE INDEX execution_key ON execution (caller, start_key) WHERE start_key IS NOT NULL;
