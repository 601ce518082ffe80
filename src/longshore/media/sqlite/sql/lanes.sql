-- name: count
UPDATE lane
SET ready = ready + ?, delayed = delayed + ?, claimed = claimed + ?,
    completed = completed + ?, failed = failed + ?, cancelled = cancelled + ?
WHERE id = ?

-- name: lower_head
-- Before jobs become ready in a lane: its head is at most the first of them.
UPDATE lane SET head_priority = :priority, head_job = :job
WHERE id = :lane AND (ready = 0 OR (head_priority, head_job) > (:priority, :job))

-- name: set_head
-- After a claim has looked into a lane and knows better.
UPDATE lane SET head_priority = ?, head_job = ? WHERE id = ?

-- name: stats
SELECT run, kind, partition, ready + delayed AS pending, claimed, completed, failed, cancelled
FROM lane
WHERE (:run IS NULL OR run = :run) AND ready + delayed + claimed + completed + failed + cancelled > 0
ORDER BY run, kind, partition

-- name: remove_empty
DELETE FROM lane WHERE ready + delayed + claimed + completed + failed + cancelled = 0
