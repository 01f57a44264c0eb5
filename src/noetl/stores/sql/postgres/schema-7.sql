-- Version 7: who may call servers, and what was called; which token a worker shows.

-- `body` is an ApiToken in JSON; the token itself is kept nowhere.
CREATE TABLE noetl.token (
    name text COLLATE "C" PRIMARY KEY, sha256 text NOT NULL UNIQUE, body bytea NOT NULL, last_used float8
);

-- `body` is an AuditEntry in JSON; `hash` is sha256(hash of the entry before ‖ body). `at` is a time in UTC of fixed width.
CREATE TABLE noetl.audit (
    number bigint PRIMARY KEY,
    at text COLLATE "C" NOT NULL,
    who text NOT NULL,
    action text NOT NULL,
    body bytea NOT NULL,
    hash bytea NOT NULL
);

CREATE INDEX audit_at ON noetl.audit (at);

CREATE FUNCTION noetl.audit_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an entry of the audit log is never changed';
END $$;

CREATE TRIGGER audit_is_final BEFORE UPDATE ON noetl.audit EXECUTE FUNCTION noetl.audit_is_final();

-- One row: the last entry that was written, and the last one that was forgotten.
CREATE TABLE noetl.audit_ends (number bigint NOT NULL, hash bytea NOT NULL, forgotten bigint NOT NULL, forgotten_hash bytea NOT NULL);
INSERT INTO noetl.audit_ends VALUES (0, sha256('audit'), 0, sha256('audit'));

-- The name of the token that a worker showed when its name was first heard: it is nobody else's from then on.
ALTER TABLE noetl.worker ADD COLUMN token text;

-- The path of the playbook, for those who may see some paths only.
ALTER TABLE noetl.dead_letter ADD COLUMN path text;
UPDATE noetl.dead_letter d SET path = e.path FROM noetl.execution e WHERE e.execution_id = d.execution_id;
