-- name: heads
-- in one order, so that two who append to the same executions do not wait for each other
SELECT execution_id, seq, hash FROM noetl.execution WHERE execution_id = ANY(%s) ORDER BY execution_id FOR UPDATE;

-- name: add_events
INSERT INTO noetl.event (execution_id, seq, body, hash)
SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bytea[], %s::bytea[]);

-- name: copy_events
COPY noetl.event (execution_id, seq, body, hash) FROM STDIN (FORMAT binary);

-- name: add_executions
INSERT INTO noetl.execution
    (execution_id, path, playbook, parent, requested_at, caller, start_key, status, updated_at, seq, hash, over)
SELECT *, '', '', 0, ''::bytea, false
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[]);

-- name: update_executions
UPDATE noetl.execution e SET status = u.status, updated_at = u.updated_at, seq = u.seq, hash = u.hash, over = u.over
FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bytea[], %s::boolean[])
    AS u (execution_id, status, updated_at, seq, hash, over)
WHERE e.execution_id = u.execution_id;

-- name: append
-- All at once, where logs end as is believed: those that were gone on with come back, and nothing is written of the others.
-- They are locked in one order, so that two who append to the same executions do not wait for each other.
WITH wanted AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::bigint[], $7::bytea[], $8::boolean[])
        AS u (execution_id, seq_before, hash_before, status, updated_at, seq, hash, over)
), locked AS (
    SELECT execution_id FROM noetl.execution WHERE execution_id = ANY($1) ORDER BY execution_id FOR UPDATE
), moved AS (
    UPDATE noetl.execution e SET status = u.status, updated_at = u.updated_at, seq = u.seq, hash = u.hash, over = u.over
    FROM wanted u JOIN locked USING (execution_id)
    WHERE e.execution_id = u.execution_id AND e.seq = u.seq_before AND e.hash = u.hash_before
    RETURNING e.execution_id
), added AS (
    INSERT INTO noetl.event (execution_id, seq, body, hash)
    SELECT v.* FROM unnest($9::text[], $10::bigint[], $11::bytea[], $12::bytea[]) AS v (execution_id, seq, body, hash)
    JOIN moved USING (execution_id)
)
SELECT execution_id FROM moved;

-- name: open_append
-- The same for executions that are new; those that somebody else has begun, or has started with the same key, do not come
-- back.
WITH opened AS (
    INSERT INTO noetl.execution
        (execution_id, path, playbook, parent, requested_at, caller, start_key, status, updated_at, seq, hash, over)
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
        $8::text[], $9::text[], $10::bigint[], $11::bytea[], $12::boolean[])
    ON CONFLICT DO NOTHING
    RETURNING execution_id
), added AS (
    INSERT INTO noetl.event (execution_id, seq, body, hash)
    SELECT v.* FROM unnest($13::text[], $14::bigint[], $15::bytea[], $16::bytea[]) AS v (execution_id, seq, body, hash)
    JOIN opened USING (execution_id)
)
SELECT execution_id FROM opened;

-- name: events
SELECT seq, body, hash FROM noetl.event WHERE execution_id = %s AND seq >= %s ORDER BY seq LIMIT %s;

-- name: summaries
-- those that sleep are woken by any server that lives
SELECT execution_id, path, status, requested_at, updated_at, seq, playbook, parent, owner,
    NOT over AND d.execution_id IS NOT NULL AND EXISTS (SELECT 1 FROM noetl.owner WHERE until > clock_timestamp()),
    caller, start_key
FROM noetl.execution LEFT JOIN noetl.ownership USING (execution_id) LEFT JOIN noetl.dormant d USING (execution_id)
WHERE (%(parent)s::text IS NULL OR (CASE WHEN %(parent)s = '' THEN parent IS NULL ELSE parent = %(parent)s END))
    AND number < coalesce((SELECT number FROM noetl.execution WHERE execution_id = %(before)s), 9223372036854775807)
    AND (%(paths)s::text IS NULL OR EXISTS (
        -- as `model.access.allows_path`
        SELECT 1 FROM jsonb_array_elements_text(%(paths)s::jsonb) AS p
        WHERE path = p OR (right(p, 2) = '/*' AND starts_with(path, left(p, -1)))
    ))
ORDER BY number DESC LIMIT %(limit)s;

-- name: unfinished
SELECT execution_id, path, status, requested_at, updated_at, seq, playbook, parent, owner,
    NOT over AND d.execution_id IS NOT NULL AND EXISTS (SELECT 1 FROM noetl.owner WHERE until > clock_timestamp()),
    caller, start_key
FROM noetl.execution LEFT JOIN noetl.ownership USING (execution_id) LEFT JOIN noetl.dormant d USING (execution_id)
WHERE NOT over
    AND (%(parent)s::text IS NULL OR (CASE WHEN %(parent)s = '' THEN parent IS NULL ELSE parent = %(parent)s END))
    AND number < coalesce((SELECT number FROM noetl.execution WHERE execution_id = %(before)s), 9223372036854775807)
    AND (%(paths)s::text IS NULL OR EXISTS (
        -- as `model.access.allows_path`
        SELECT 1 FROM jsonb_array_elements_text(%(paths)s::jsonb) AS p
        WHERE path = p OR (right(p, 2) = '/*' AND starts_with(path, left(p, -1)))
    ))
ORDER BY number DESC LIMIT %(limit)s;

-- name: summaries_between
SELECT execution_id, path, status, requested_at, updated_at, seq, playbook, parent, owner,
    NOT over AND d.execution_id IS NOT NULL AND EXISTS (SELECT 1 FROM noetl.owner WHERE until > clock_timestamp()),
    caller, start_key
FROM noetl.execution LEFT JOIN noetl.ownership USING (execution_id) LEFT JOIN noetl.dormant d USING (execution_id)
WHERE execution_id BETWEEN %(first)s AND %(last)s
    AND (%(paths)s::text IS NULL OR EXISTS (
        -- as `model.access.allows_path`
        SELECT 1 FROM jsonb_array_elements_text(%(paths)s::jsonb) AS p
        WHERE path = p OR (right(p, 2) = '/*' AND starts_with(path, left(p, -1)))
    ))
ORDER BY execution_id LIMIT %(limit)s;

-- name: execution_of_key
SELECT execution_id FROM noetl.execution WHERE caller = %s AND start_key = %s;

-- name: under_way
SELECT execution_id FROM noetl.execution
WHERE NOT over AND execution_id = ANY(ARRAY(SELECT jsonb_array_elements_text(%s::jsonb)));

-- name: execution_ids
SELECT execution_id FROM noetl.execution UNION SELECT DISTINCT execution_id FROM noetl.event ORDER BY 1;

-- name: enrol
INSERT INTO noetl.owner (owner, until) VALUES (%s, clock_timestamp() + %s * interval '1 second')
ON CONFLICT (owner) DO UPDATE SET until = excluded.until
RETURNING extract(epoch FROM clock_timestamp())::float8;

-- name: shorten_owners
-- after the clock of the database was set back: nobody is believed to live for that much longer
UPDATE noetl.owner SET until = clock_timestamp() + %(most)s * interval '1 second'
WHERE until > clock_timestamp() + %(most)s * interval '1 second';

-- name: shorten_workers
UPDATE noetl.worker SET until = clock_timestamp() + %(most)s * interval '1 second'
WHERE NOT given_up AND until > clock_timestamp() + %(most)s * interval '1 second';

-- name: wake_sooner
-- Whoever is woken too soon is laid down again. What happened later than now was recorded before the clock was set back.
UPDATE noetl.dormant d
SET due = CASE WHEN e.updated_at::timestamptz > clock_timestamp() THEN clock_timestamp()
    ELSE d.due - %(back)s * interval '1 second' END
FROM noetl.execution e
WHERE e.execution_id = d.execution_id AND d.due > clock_timestamp()
    AND (%(back)s > 0 OR e.updated_at::timestamptz > clock_timestamp() + interval '1 second');

-- name: resign
WITH gone AS (DELETE FROM noetl.owner WHERE owner = %s RETURNING owner)
SELECT pg_notify('noetl', 'left') FROM gone;

-- name: alive
SELECT owner FROM noetl.owner WHERE owner = ANY(%s) AND until > clock_timestamp();

-- name: lock_claims
-- until the end of the transaction; the statement behind it sees what others have decided
SELECT pg_advisory_xact_lock(hashtextextended(execution_id, 0)) FROM unnest(%s::text[]) AS u (execution_id);

-- name: own
-- those that somebody else who lives owns do not come back
WITH won AS (
    INSERT INTO noetl.ownership AS o (execution_id, owner) SELECT unnest(%s::text[]), %s::text
    ON CONFLICT (execution_id) DO UPDATE SET owner = excluded.owner
    WHERE o.owner = excluded.owner
        OR NOT EXISTS (SELECT 1 FROM noetl.owner w WHERE w.owner = o.owner AND w.until > clock_timestamp())
    RETURNING execution_id
), awake AS (DELETE FROM noetl.dormant d USING won WHERE d.execution_id = won.execution_id)
SELECT execution_id FROM won;

-- name: add_snapshot
INSERT INTO noetl.snapshot (execution_id, seq, body) VALUES (%s, %s, %s)
ON CONFLICT (execution_id, seq) DO UPDATE SET body = excluded.body;

-- name: forget_snapshots
DELETE FROM noetl.snapshot WHERE execution_id = %(id)s AND seq <= (
    SELECT seq FROM noetl.snapshot WHERE execution_id = %(id)s ORDER BY seq DESC LIMIT 1 OFFSET %(kept)s
);

-- name: snapshot
SELECT seq, body FROM noetl.snapshot WHERE execution_id = %s AND seq <= %s ORDER BY seq DESC LIMIT 1;

-- name: add_source
INSERT INTO noetl.source (hash, text, file, legacy) VALUES (%s, %s, %s, %s)
ON CONFLICT (hash) DO UPDATE SET text = excluded.text, file = excluded.file, legacy = excluded.legacy;

-- name: source
SELECT hash, text, file, legacy FROM noetl.source WHERE hash = %s;

-- name: latest_source
SELECT hash, text, file, legacy FROM noetl.source
WHERE hash = (SELECT playbook FROM noetl.execution WHERE path = %s ORDER BY number DESC LIMIT 1);

-- name: add_request
-- A number is taken behind the lock, which is held until it can be seen: of one execution, numbers come to light in order.
-- Whoever has handled one takes those below it for handled.
WITH asked AS MATERIALIZED (
    SELECT execution_id, body, pg_advisory_xact_lock(hashtextextended(execution_id, 1))
    FROM (VALUES (%s::text, %s::bytea)) AS given (execution_id, body)
), added AS (
    INSERT INTO noetl.inbox (execution_id, body) SELECT execution_id, body FROM asked RETURNING number
)
SELECT number, pg_notify('noetl', 'asked') FROM added;

-- name: requests
SELECT number, execution_id, body FROM noetl.inbox JOIN noetl.ownership USING (execution_id)
WHERE owner = %s ORDER BY number;

-- name: forget_request
DELETE FROM noetl.inbox WHERE number = %s;

-- name: add_line
INSERT INTO noetl.line (execution_id, body) VALUES (%s, %s);

-- name: lines
SELECT number, body FROM noetl.line WHERE execution_id = %s AND number > %s ORDER BY number;

-- name: renew_worker
-- Nothing comes back if it was given up, or its name is another token's. Servers of an earlier version keep no token.
INSERT INTO noetl.worker AS w (worker, until, about, token) VALUES (%s, clock_timestamp() + %s * interval '1 second', %s, %s)
ON CONFLICT (worker) DO UPDATE SET until = excluded.until, about = excluded.about, token = excluded.token
WHERE NOT w.given_up AND coalesce(w.token, excluded.token) = excluded.token
RETURNING 1;

-- name: known_worker
SELECT 1 FROM noetl.worker w, (SELECT %s::text AS name, %s::text AS token) AS given
WHERE worker = given.name AND NOT given_up AND coalesce(w.token, given.token) = given.token;

-- name: foreign_worker
SELECT 1 FROM noetl.worker WHERE worker = %s AND token <> %s;

-- name: leave_worker
UPDATE noetl.worker w SET given_up = true FROM (SELECT %s::text AS name, %s::text AS token) AS given
WHERE worker = given.name AND coalesce(w.token, given.token) = given.token;

-- name: give_up_workers
-- One that has a pipeline with a longer lease is kept for `keep_s` seconds beyond its own. `until` is then when it was given up.
UPDATE noetl.worker SET given_up = true, until = clock_timestamp()
WHERE NOT given_up AND until + coalesce((about->>'keep_s')::float8, 0) * interval '1 second' < clock_timestamp();

-- name: silent_workers
SELECT worker FROM noetl.worker WHERE NOT given_up AND until < clock_timestamp();

-- name: given_up_workers
SELECT worker FROM noetl.worker WHERE given_up AND until > clock_timestamp() - %s * interval '1 second';

-- name: forget_workers
DELETE FROM noetl.worker WHERE given_up AND until < clock_timestamp() - interval '1 day';

-- name: workers
SELECT worker, (%s - extract(epoch FROM until - clock_timestamp()))::float8, about FROM noetl.worker
WHERE NOT given_up AND until > clock_timestamp() ORDER BY worker;

-- name: held
-- who has been given up, perhaps long ago, has nothing any more
SELECT execution_id, step_run_id, iteration, fence, CASE WHEN NOT given_up THEN worker END, tries
FROM noetl.held LEFT JOIN noetl.worker USING (worker) WHERE execution_id = %s;

-- name: keep_held
INSERT INTO noetl.held (execution_id, step_run_id, iteration, fence, worker, tries)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::int[])
ON CONFLICT (execution_id, step_run_id, iteration)
DO UPDATE SET fence = excluded.fence, worker = excluded.worker, tries = excluded.tries;

-- name: forget_held_of_over
DELETE FROM noetl.held h USING noetl.execution e WHERE e.execution_id = h.execution_id AND e.over;

-- name: forget_held
DELETE FROM noetl.held h USING unnest(%s::text[], %s::text[], %s::text[], %s::text[])
    AS o (execution_id, step_run_id, iteration, fence)
WHERE h.execution_id = o.execution_id AND h.step_run_id = o.step_run_id AND h.iteration = o.iteration
    AND h.fence = o.fence;

-- name: lay_down
-- only those that are still their owner's to lay down
WITH laid AS (
    INSERT INTO noetl.dormant (execution_id, due)
    SELECT u.execution_id, clock_timestamp() + u.after_s * interval '1 second'
    FROM unnest(%s::text[], %s::float8[]) AS u (execution_id, after_s)
    JOIN noetl.ownership o ON o.execution_id = u.execution_id AND o.owner = %s
    ON CONFLICT (execution_id) DO UPDATE SET due = excluded.due
    RETURNING execution_id
)
DELETE FROM noetl.ownership o USING laid WHERE o.execution_id = laid.execution_id;

-- name: to_wake
SELECT execution_id FROM noetl.dormant d
WHERE due <= clock_timestamp() + %s * interval '1 second'
    OR EXISTS (SELECT 1 FROM noetl.inbox i WHERE i.execution_id = d.execution_id)
ORDER BY due NULLS FIRST LIMIT %s;

-- name: not_owned
SELECT u.execution_id FROM unnest(%s::text[]) AS u (execution_id)
WHERE NOT EXISTS (SELECT 1 FROM noetl.ownership o WHERE o.execution_id = u.execution_id AND o.owner = %s);

-- name: left_behind
-- unfinished, and owned by nobody who lives, or by the one who asks
SELECT execution_id FROM noetl.execution e LEFT JOIN noetl.ownership o USING (execution_id)
WHERE NOT over AND NOT EXISTS (SELECT 1 FROM noetl.dormant d WHERE d.execution_id = e.execution_id)
    AND (o.owner IS NULL OR o.owner = %s OR NOT EXISTS (
        SELECT 1 FROM noetl.owner w WHERE w.owner = o.owner AND w.until > clock_timestamp()))
ORDER BY number LIMIT %s;

-- name: forget_events
DELETE FROM noetl.event WHERE execution_id = %s;

-- name: forget_lines
DELETE FROM noetl.line WHERE execution_id = %s;

-- name: forget_all_snapshots
DELETE FROM noetl.snapshot WHERE execution_id = %s;

-- name: forget_inbox
DELETE FROM noetl.inbox WHERE execution_id = %s;

-- name: forget_ownership
DELETE FROM noetl.ownership WHERE execution_id = %s;

-- name: forget_execution
DELETE FROM noetl.execution WHERE execution_id = %s;

-- name: lock_keys
SELECT pg_advisory_xact_lock(lock) FROM (
    SELECT DISTINCT hashtextextended(key, 1315914580) AS lock FROM unnest(%s::text[]) AS key ORDER BY lock
) AS locks;

-- name: moment
SELECT extract(epoch FROM clock_timestamp())::float8;

-- name: slot
SELECT displaced FROM noetl.slot WHERE execution_id = %s AND step_run_id = %s AND iteration = %s;

-- name: slots_of_key
SELECT execution_id, step_run_id, iteration, displaced FROM noetl.slot WHERE key = %s ORDER BY number;

-- name: slots_of_execution
SELECT execution_id, step_run_id, iteration FROM noetl.slot WHERE execution_id = %s;

-- name: add_slot
INSERT INTO noetl.slot (execution_id, step_run_id, iteration, key) VALUES (%s, %s, %s, %s)
ON CONFLICT (execution_id, step_run_id, iteration) DO UPDATE SET key = excluded.key, displaced = false;

-- name: displace_slot
UPDATE noetl.slot SET displaced = true WHERE execution_id = %s AND step_run_id = %s AND iteration = %s;

-- name: forget_dead_slots
-- A server may have died whose workers go on, and whoever takes the execution over goes on with what they have; and
-- those that only wait are owned by nobody.
DELETE FROM noetl.slot s WHERE key = %s AND (
    NOT EXISTS (SELECT 1 FROM noetl.execution e WHERE e.execution_id = s.execution_id AND NOT e.over)
    OR NOT EXISTS (
        SELECT 1 FROM noetl.ownership o JOIN noetl.owner w USING (owner)
        WHERE o.execution_id = s.execution_id AND w.until > clock_timestamp()
    ) AND NOT EXISTS (SELECT 1 FROM noetl.dormant d WHERE d.execution_id = s.execution_id)
    AND NOT EXISTS (
        SELECT 1 FROM noetl.held h JOIN noetl.worker w USING (worker)
        WHERE h.execution_id = s.execution_id AND h.step_run_id = s.step_run_id AND h.iteration = s.iteration
            AND NOT w.given_up
    )
);

-- name: release_slots
DELETE FROM noetl.slot s USING unnest(%s::text[], %s::text[], %s::text[]) AS o (execution_id, step_run_id, iteration)
WHERE s.execution_id = o.execution_id AND s.step_run_id = o.step_run_id AND s.iteration = o.iteration;

-- name: sweep_slots
DELETE FROM noetl.slot s
WHERE NOT EXISTS (SELECT 1 FROM noetl.execution e WHERE e.execution_id = s.execution_id AND NOT e.over);

-- name: starts
SELECT at FROM noetl.start WHERE key = %s AND at > %s AND at <= %s ORDER BY at DESC;

-- name: add_start
INSERT INTO noetl.start (key, at, until) VALUES (%s, %s, %s);

-- name: forget_starts
DELETE FROM noetl.start WHERE key = %s AND until <= %s;

-- name: sweep_starts
DELETE FROM noetl.start WHERE until <= %s;

-- name: turn
SELECT since FROM noetl.turn WHERE key = %s AND process = %s;

-- name: turns_ahead
-- who was seen later than now was so before the clock was set back
SELECT count(*) FROM noetl.turn WHERE key = %s AND process <> %s AND seen > %s AND seen < %s AND since < %s;

-- name: take_turn
INSERT INTO noetl.turn (key, process, since, seen) VALUES (%s, %s, %s, %s)
ON CONFLICT (key, process) DO UPDATE SET seen = excluded.seen;

-- name: end_turn
DELETE FROM noetl.turn WHERE key = %s AND process = %s;

-- name: sweep_turns
DELETE FROM noetl.turn WHERE seen < %s;

-- name: bury
INSERT INTO noetl.dead_letter (execution_id, step_run_id, iteration, worker, tries, why, path) VALUES (%s, %s, %s, %s, %s, %s, %s);

-- name: buried
SELECT execution_id, step_run_id, iteration, worker, tries, why, at FROM noetl.dead_letter
WHERE (%(paths)s::text IS NULL OR EXISTS (
        -- as `model.access.allows_path`
        SELECT 1 FROM jsonb_array_elements_text(%(paths)s::jsonb) AS p
        WHERE path = p OR (right(p, 2) = '/*' AND starts_with(path, left(p, -1)))
    ))
ORDER BY number DESC LIMIT %(limit)s;

-- name: find_token
SELECT body, last_used FROM noetl.token WHERE sha256 = %s;

-- name: tokens
SELECT body, last_used FROM noetl.token ORDER BY name;

-- name: add_token
INSERT INTO noetl.token (name, sha256, body) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING name;

-- name: remove_token
DELETE FROM noetl.token WHERE name = %s RETURNING body, last_used;

-- name: note_use
UPDATE noetl.token t SET last_used = u.at FROM (VALUES (%s::float8, %s::text)) AS u (at, name)
WHERE t.name = u.name AND coalesce(t.last_used, 0) < u.at RETURNING t.name;

-- name: audit_ends
SELECT forgotten, forgotten_hash, number, hash FROM noetl.audit_ends;

-- name: append_audit
-- Two who write at once wait for each other at the one row of the ends, whose latest version both see.
WITH given AS (SELECT %s::bytea AS body), ends AS (
    UPDATE noetl.audit_ends SET number = number + 1, hash = sha256(hash || given.body) FROM given
    RETURNING number, hash, given.body
)
INSERT INTO noetl.audit (number, at, who, action, body, hash) SELECT number, %s, %s, %s, body, hash FROM ends RETURNING number;

-- name: audit
SELECT number, body FROM noetl.audit, (SELECT %s::bigint AS before, %s::text AS since, %s::text AS until, %s::text AS by, %s::text AS what) AS w
WHERE number < coalesce(w.before, 9223372036854775807)
    AND (w.since IS NULL OR at >= w.since) AND (w.until IS NULL OR at < w.until)
    AND (w.by IS NULL OR who = w.by) AND (w.what IS NULL OR action = w.what)
ORDER BY number DESC LIMIT %s;

-- name: raw_audit
SELECT number, body, hash FROM noetl.audit WHERE number > %s ORDER BY number LIMIT %s;

-- name: prune_audit
-- All up to the last entry that, as all before it, is older than a time. The latest one of all stays.
WITH last AS (
    SELECT number, hash FROM noetl.audit
    WHERE number < coalesce(
        (SELECT number FROM noetl.audit WHERE at >= %s ORDER BY number LIMIT 1), (SELECT max(number) FROM noetl.audit))
    ORDER BY number DESC LIMIT 1
), moved AS (
    UPDATE noetl.audit_ends SET forgotten = last.number, forgotten_hash = last.hash FROM last
)
DELETE FROM noetl.audit a USING last WHERE a.number <= last.number RETURNING a.number;
