-- name: read
-- CROSS JOIN fixes the join order, so the rows come in the order of the list.
SELECT job.priority, job.id, content.key, content.host, content.payload,
       job.epoch, job.attempts, job.max_attempts, job.submitted_at,
       content.parent_kind, content.parent_key, content.depth, content.came_from
FROM json_each(?) AS chosen CROSS JOIN job ON job.id = chosen.value CROSS JOIN content ON content.job = job.id

-- name: take
UPDATE job SET state = 2, epoch = epoch + 1, holder = :worker, not_before = NULL
WHERE id IN (SELECT value FROM json_each(:jobs))

-- name: last_failure
SELECT failure FROM failure WHERE job = ? ORDER BY epoch DESC LIMIT 1

-- name: next_due
SELECT min(not_before) FROM job WHERE state = 1

-- name: due
SELECT id, lane, priority, host FROM job WHERE state = 1 AND not_before <= ? ORDER BY not_before LIMIT ?

-- name: promote
UPDATE job SET state = 0 WHERE id = ?
