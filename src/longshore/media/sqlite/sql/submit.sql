-- name: next_job
SELECT next_job FROM sequence

-- name: take_numbers
UPDATE sequence SET next_job = next_job + ?

-- name: find_lane
SELECT id FROM lane WHERE run = ? AND kind = ? AND partition = ?

-- name: add_lane
INSERT INTO lane (run, kind, partition, first_job) VALUES (?, ?, ?, (SELECT next_job FROM sequence))

-- name: add_job
INSERT INTO job (id, lane, state, priority, host, max_attempts, not_before, submitted_at, identity)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (identity) DO NOTHING

-- name: added_since
SELECT id FROM job WHERE id >= ?

-- name: add_content
INSERT INTO content (job, key, host, payload) VALUES (?, ?, ?, ?)

-- name: add_descended_content
INSERT INTO content (job, key, host, payload, parent_kind, parent_key, depth) VALUES (?, ?, ?, ?, ?, ?, ?)
