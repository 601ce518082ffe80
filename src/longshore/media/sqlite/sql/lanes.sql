-- name: count
UPDATE lane
SET ready = ready + ?, delayed = delayed + ?, claimed = claimed + ?,
    completed = completed + ?, failed = failed + ?, cancelled = cancelled + ?
WHERE id = ?

-- name: mix_hosts
-- Run before jobs of another host, or of several hosts, become ready in a lane that is not empty.
UPDATE lane SET host = NULL WHERE id = :lane AND ready > 0 AND host IS NOT :host AND host IS NOT NULL

-- name: lower_head
-- Run before jobs become ready in a lane: lowers its head to the first of them if needed.
UPDATE lane
SET head_priority = :priority, head_job = :job, host = CASE WHEN ready = 0 THEN :host ELSE host END
WHERE id = :lane AND (ready = 0 OR (head_priority, head_job) > (:priority, :job))

-- name: set_head
-- Run after a claim opened a lane and found that its head is higher than stored.
UPDATE lane SET head_priority = ?, head_job = ? WHERE id = ?

-- name: stats
SELECT run, kind, partition, ready + delayed AS pending, claimed, completed, failed, cancelled
FROM lane
WHERE (:run IS NULL OR run = :run) AND ready + delayed + claimed + completed + failed + cancelled > 0
ORDER BY run, kind, partition

-- name: remove_empty
DELETE FROM lane WHERE ready + delayed + claimed + completed + failed + cancelled = 0
