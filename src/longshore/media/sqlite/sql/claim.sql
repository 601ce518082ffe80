-- name: lanes
-- Lanes with something ready, the most urgent first. Read only as far as the claim needs.
SELECT id, run, kind, partition, head_priority, head_job
FROM lane
WHERE ready > 0
  AND (:run IS NULL OR run = :run)
  AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
  AND (:partitions IS NULL OR partition IN (SELECT value FROM json_each(:partitions)))
ORDER BY head_priority, head_job

-- name: ready
SELECT job.priority, job.id, content.key, content.host, content.payload,
       job.epoch, job.attempts, job.max_attempts, job.submitted_at,
       content.parent_kind, content.parent_key, content.depth
FROM job CROSS JOIN content ON content.job = job.id
WHERE job.lane = ? AND job.state = 0
ORDER BY job.priority, job.id

-- name: take
UPDATE job SET state = 2, epoch = epoch + 1, holder = :worker, not_before = NULL
WHERE id IN (SELECT value FROM json_each(:jobs))

-- name: last_failure
SELECT failure FROM failure WHERE job = ? ORDER BY epoch DESC LIMIT 1

-- name: next_due
SELECT min(not_before) FROM job WHERE state = 1

-- name: due
SELECT id, lane, priority FROM job WHERE state = 1 AND not_before <= ? ORDER BY not_before LIMIT ?

-- name: promote
UPDATE job SET state = 0 WHERE id = ?
