-- Version 6: the key that a caller started an execution with. It is in the row of the execution, so both are written
-- and removed together, and a key starts one execution.
ALTER TABLE noetl.execution ADD COLUMN caller text;
ALTER TABLE noetl.execution ADD COLUMN start_key text;

CREATE UNIQUE INDEX execution_key ON noetl.execution (caller, start_key) WHERE start_key IS NOT NULL;
