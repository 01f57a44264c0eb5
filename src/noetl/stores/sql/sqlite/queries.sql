-- name: head
SELECT seq, hash FROM event WHERE execution_id = ? ORDER BY seq DESC LIMIT 1;

-- name: add_event
INSERT INTO event (execution_id, seq, body, hash) VALUES (?, ?, ?, ?);

-- name: events
-- cast, because a column takes text as well, and who looks for damage must not stumble over it
SELECT seq, cast(body AS BLOB), cast(hash AS BLOB) FROM event WHERE execution_id = ? AND seq >= ? ORDER BY seq LIMIT ?;

-- name: add_execution
INSERT INTO execution (execution_id, path, playbook, parent, requested_at, caller, start_key, status, updated_at, seq, over)
VALUES (?, ?, ?, ?, ?, ?, ?, '', '', 0, 0);

-- name: update_execution
UPDATE execution SET status = ?, updated_at = ?, seq = ? WHERE execution_id = ?;

-- name: update_executions
UPDATE execution SET status = column1, updated_at = column2, seq = column3
FROM (VALUES (?, ?, ?, ?)) WHERE execution_id = column4;

-- name: end_execution
UPDATE execution SET over = 1 WHERE execution_id = ?;

-- name: summaries
SELECT execution_id, execution.path, status, requested_at, updated_at, seq, playbook, parent, owner, 0, caller, start_key
FROM execution LEFT JOIN ownership USING (execution_id)
WHERE (?2 IS NULL OR (
    coalesce(parent, '') = ?2
    -- a child is requested after its parent
    AND number > coalesce((SELECT number FROM execution WHERE execution_id = ?2), 0)
))
AND number < coalesce((SELECT number FROM execution WHERE execution_id = ?3), 9223372036854775807)
AND (?4 IS NULL OR EXISTS (
    -- as `model.access.allows_path`
    SELECT 1 FROM json_each(?4) AS p WHERE execution.path = p.value
    OR (p.value LIKE '%/*' AND substr(execution.path, 1, length(p.value) - 1) = substr(p.value, 1, length(p.value) - 1))
))
ORDER BY number DESC LIMIT ?1;

-- name: unfinished
SELECT execution_id, execution.path, status, requested_at, updated_at, seq, playbook, parent, owner, 0, caller, start_key
FROM execution INDEXED BY unfinished LEFT JOIN ownership USING (execution_id)
WHERE over = 0 AND (?2 IS NULL OR coalesce(parent, '') = ?2)
AND number < coalesce((SELECT number FROM execution WHERE execution_id = ?3), 9223372036854775807)
AND (?4 IS NULL OR EXISTS (
    -- as `model.access.allows_path`
    SELECT 1 FROM json_each(?4) AS p WHERE execution.path = p.value
    OR (p.value LIKE '%/*' AND substr(execution.path, 1, length(p.value) - 1) = substr(p.value, 1, length(p.value) - 1))
))
ORDER BY number DESC LIMIT ?1;

-- name: summaries_between
SELECT execution_id, execution.path, status, requested_at, updated_at, seq, playbook, parent, owner, 0, caller, start_key
FROM execution LEFT JOIN ownership USING (execution_id)
WHERE execution_id BETWEEN ?1 AND ?2
AND (?4 IS NULL OR EXISTS (
    -- as `model.access.allows_path`
    SELECT 1 FROM json_each(?4) AS p WHERE execution.path = p.value
    OR (p.value LIKE '%/*' AND substr(execution.path, 1, length(p.value) - 1) = substr(p.value, 1, length(p.value) - 1))
))
ORDER BY execution_id LIMIT ?3;

-- name: execution_of_key
SELECT execution_id FROM execution WHERE caller = ? AND start_key = ?;

-- name: under_way
SELECT execution_id FROM execution WHERE over = 0 AND execution_id IN (SELECT value FROM json_each(?));

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

-- name: slot
SELECT displaced FROM slot WHERE execution_id = ? AND step_run_id = ? AND iteration = ?;

-- name: slots_of_key
SELECT execution_id, step_run_id, iteration, displaced FROM slot WHERE key = ? ORDER BY number;

-- name: slots_of_execution
SELECT execution_id, step_run_id, iteration FROM slot WHERE execution_id = ?;

-- name: slots_minded
SELECT slot.number, coalesce(over, 1), owner
FROM slot LEFT JOIN execution USING (execution_id) LEFT JOIN ownership USING (execution_id) WHERE key = ?;

-- name: add_slot
INSERT OR REPLACE INTO slot (execution_id, step_run_id, iteration, key) VALUES (?, ?, ?, ?);

-- name: displace_slot
UPDATE slot SET displaced = 1 WHERE execution_id = ? AND step_run_id = ? AND iteration = ?;

-- name: forget_slot
DELETE FROM slot WHERE number = ?;

-- name: release_slot
DELETE FROM slot WHERE execution_id = ? AND step_run_id = ? AND iteration = ?;

-- name: sweep_slots
DELETE FROM slot WHERE NOT EXISTS (SELECT 1 FROM execution e WHERE e.execution_id = slot.execution_id AND e.over = 0);

-- name: starts
SELECT at FROM start WHERE key = ? AND at > ? AND at <= ? ORDER BY at DESC;

-- name: add_start
INSERT INTO start (key, at, until) VALUES (?, ?, ?);

-- name: forget_starts
DELETE FROM start WHERE key = ? AND until <= ?;

-- name: sweep_starts
DELETE FROM start WHERE until <= ?;

-- name: turn
SELECT since FROM turn WHERE key = ? AND process = ?;

-- name: turns_ahead
-- who was seen later than now was so before the clock was set back
SELECT count(*) FROM turn WHERE key = ? AND process <> ? AND seen > ? AND seen < ? AND since < ?;

-- name: take_turn
INSERT INTO turn (key, process, since, seen) VALUES (?, ?, ?, ?)
ON CONFLICT (key, process) DO UPDATE SET seen = excluded.seen;

-- name: end_turn
DELETE FROM turn WHERE key = ? AND process = ?;

-- name: sweep_turns
DELETE FROM turn WHERE seen < ?;

-- name: find_token
SELECT body, last_used FROM token WHERE sha256 = ?;

-- name: tokens
SELECT body, last_used FROM token ORDER BY name;

-- name: add_token
INSERT INTO token (name, sha256, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING name;

-- name: remove_token
DELETE FROM token WHERE name = ? RETURNING body, last_used;

-- name: note_use
UPDATE token SET last_used = ?1 WHERE name = ?2 AND coalesce(last_used, 0) < ?1 RETURNING name;

-- name: audit_ends
SELECT forgotten, forgotten_hash, number, hash FROM audit_ends;

-- name: move_audit_end
UPDATE audit_ends SET number = ?, hash = ?;

-- name: add_audit
INSERT INTO audit (number, at, who, action, body, hash) VALUES (?, ?, ?, ?, ?, ?);

-- name: audit
SELECT number, body FROM audit
WHERE number < coalesce(?1, 9223372036854775807)
    AND (?2 IS NULL OR at >= ?2) AND (?3 IS NULL OR at < ?3) AND (?4 IS NULL OR who = ?4) AND (?5 IS NULL OR action = ?5)
ORDER BY number DESC LIMIT ?6;

-- name: raw_audit
SELECT number, cast(body AS BLOB), cast(hash AS BLOB) FROM audit WHERE number > ? ORDER BY number LIMIT ?;

-- name: audit_to_forget
-- The last entry that goes: it and all before it are older than a time. The latest one of all stays.
SELECT number, hash FROM audit
WHERE number < coalesce((SELECT number FROM audit WHERE at >= ? ORDER BY number LIMIT 1), (SELECT max(number) FROM audit))
ORDER BY number DESC LIMIT 1;

-- name: forget_audit
DELETE FROM audit WHERE number <= ? RETURNING number;

-- name: move_audit_begin
UPDATE audit_ends SET forgotten = ?, forgotten_hash = ?;
