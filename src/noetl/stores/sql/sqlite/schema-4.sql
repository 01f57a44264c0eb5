-- Version 4: who may call servers, and what was called.

-- `body` is an ApiToken in JSON; the token itself is kept nowhere.
CREATE TABLE token (name TEXT PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, body BLOB NOT NULL, last_used REAL) WITHOUT ROWID;

-- `body` is an AuditEntry in JSON; `hash` is sha256(hash of the entry before ‖ body). `at` is a time in UTC of fixed width.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, action TEXT NOT NULL, body BLOB NOT NULL, hash BLOB NOT NULL
);

CREATE INDEX audit_at ON audit (at);

CREATE TRIGGER audit_is_final BEFORE UPDATE ON audit
BEGIN
    SELECT raise(ABORT, 'an entry of the audit log is never changed');
END;

-- One row: the last entry that was written, and the last one that was forgotten.
CREATE TABLE audit_ends (
    number INTEGER NOT NULL, hash BLOB NOT NULL, forgotten INTEGER NOT NULL, forgotten_hash BLOB NOT NULL
);

-- sha256('audit')
INSERT INTO audit_ends VALUES (
    0, X'b81f37a043a6f767e7c94d105f4bd31282f3ecc20680bb9d09bd93461cf4c863', 0, X'b81f37a043a6f767e7c94d105f4bd31282f3ecc20680bb9d09bd93461cf4c863'
);
