-- name: add_job
INSERT INTO job (id, lane, state, priority, host, max_attempts, not_before, submitted_at, identity, epoch, attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (identity) DO NOTHING

-- name: add_content
INSERT INTO content (job, key, host, payload, parent_kind, parent_key, depth, came_from) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
