-- Version 4: executions that wait for nothing but a time or a word from outside, and are in no server's memory.
-- Nobody owns them; `due` is when one must be woken without being asked, NULL if never.
CREATE TABLE noetl.dormant (execution_id text COLLATE "C" PRIMARY KEY, due timestamptz);
CREATE INDEX dormant_due ON noetl.dormant (due) WHERE due IS NOT NULL;
CREATE INDEX inbox_execution ON noetl.inbox (execution_id);
