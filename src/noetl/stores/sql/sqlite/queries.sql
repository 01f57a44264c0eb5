-- name: head
SELECT seq, hash FROM event WHERE execution_id = ? ORDER BY seq DESC LIMIT 1;

-- name: add_event
INSERT INTO event (execution_id, seq, body, hash) VALUES (?, ?, ?, ?);

-- name: events
-- cast, because a column takes text as well, and who looks for damage must not stumble over it
SELECT seq, cast(body AS BLOB), cast(hash AS BLOB) FROM event WHERE execution_id = ? AND seq >= ? ORDER BY seq LIMIT ?;

-- name: add_execution
INSERT INTO execution (execution_id, path, playbook, parent, requested_at, status, updated_at, seq, over)
VALUES (?, ?, ?, ?, ?, '', '', 0, 0);

-- name: update_execution
UPDATE execution SET status = ?, updated_at = ?, seq = ? WHERE execution_id = ?;

-- name: update_executions
UPDATE execution SET status = column1, updated_at = column2, seq = column3
FROM (VALUES (?, ?, ?, ?)) WHERE execution_id = column4;

-- name: end_execution
UPDATE execution SET over = 1 WHERE execution_id = ?;

-- name: summaries
SELECT execution_id, path, status, requested_at, updated_at, seq, playbook, parent, owner
FROM execution LEFT JOIN ownership USING (execution_id)
WHERE (?2 IS NULL OR (
    coalesce(parent, '') = ?2
    -- a child is requested after its parent
    AND number > coalesce((SELECT number FROM execution WHERE execution_id = ?2), 0)
))
AND number < coalesce((SELECT number FROM execution WHERE execution_id = ?3), 9223372036854775807)
ORDER BY number DESC LIMIT ?1;

-- name: unfinished
SELECT execution_id, path, status, requested_at, updated_at, seq, playbook, parent, owner
FROM execution INDEXED BY unfinished LEFT JOIN ownership USING (execution_id)
WHERE over = 0 AND (?2 IS NULL OR coalesce(parent, '') = ?2)
AND number < coalesce((SELECT number FROM execution WHERE execution_id = ?3), 9223372036854775807)
ORDER BY number DESC LIMIT ?1;

-- name: summaries_between
SELECT execution_id, path, status, requested_at, updated_at, seq, playbook, parent, owner
FROM execution LEFT JOIN ownership USING (execution_id)
WHERE execution_id BETWEEN ? AND ?
ORDER BY execution_id LIMIT ?;

-- name: execution_ids
SELECT execution_id FROM execution UNION SELECT DISTINCT execution_id FROM event ORDER BY 1;

-- name: owner
SELECT owner FROM ownership WHERE execution_id = ?;

-- name: own
INSERT OR REPLACE INTO ownership (execution_id, owner) VALUES (?, ?);

-- name: add_snapshot
INSERT OR REPLACE INTO snapshot (execution_id, seq, body) VALUES (?, ?, ?);

-- name: forget_snapshots
DELETE FROM snapshot WHERE execution_id = ?1 AND seq <= (
    SELECT seq FROM snapshot WHERE execution_id = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2
);

-- name: snapshot
SELECT seq, body FROM snapshot WHERE execution_id = ? AND seq <= ? ORDER BY seq DESC LIMIT 1;

-- name: add_source
INSERT OR REPLACE INTO source (hash, text, file, legacy) VALUES (?, ?, ?, ?);

-- name: source
SELECT hash, text, file, legacy FROM source WHERE hash = ?;

-- name: latest_source
SELECT hash, text, file, legacy FROM source
WHERE hash = (SELECT playbook FROM execution WHERE path = ? ORDER BY number DESC LIMIT 1);

-- name: add_request
INSERT INTO inbox (execution_id, body) VALUES (?, ?);

-- name: requests
SELECT number, execution_id, body FROM inbox JOIN ownership USING (execution_id) WHERE owner = ? ORDER BY number;

-- name: forget_request
DELETE FROM inbox WHERE number = ?;

-- name: add_line
INSERT INTO line (execution_id, body) VALUES (?, ?);

-- name: lines
SELECT number, body FROM line WHERE execution_id = ? AND number > ? ORDER BY number;

-- name: forget_events
DELETE FROM event WHERE execution_id = ?;

-- name: forget_lines
DELETE FROM line WHERE execution_id = ?;

-- name: forget_all_snapshots
DELETE FROM snapshot WHERE execution_id = ?;

-- name: forget_inbox
DELETE FROM inbox WHERE execution_id = ?;

-- name: forget_ownership
DELETE FROM ownership WHERE execution_id = ?;

-- name: forget_execution
DELETE FROM execution WHERE execution_id = ?;
