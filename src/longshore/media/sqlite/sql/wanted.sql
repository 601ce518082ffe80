-- name: wanted
-- Which lanes a `Want` means, of those with something ready; every parameter that is NULL lets everything through.
ready > 0
AND (:run IS NULL OR run = :run)
AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
AND (:partitions IS NULL OR partition IN (SELECT value FROM json_each(:partitions)))

-- name: lanes
SELECT id, run, kind, partition, head_priority, head_job, host
FROM lane WHERE {wanted} ORDER BY head_priority, host, head_job, id LIMIT :size

-- name: next_priority
SELECT head_priority FROM lane WHERE {wanted} AND head_priority > :priority ORDER BY head_priority LIMIT 1

-- name: mixed
SELECT id, run, kind, partition, head_priority, head_job, host
FROM lane WHERE {wanted} AND head_priority = :priority AND host IS NULL

-- name: of_host
SELECT id, run, kind, partition, head_priority, head_job, host
FROM lane
WHERE {wanted} AND head_priority = :priority AND host = :host
ORDER BY head_job, id LIMIT :size OFFSET :read

-- name: hosts
-- Steps from host to host, however many lanes each has.
WITH RECURSIVE step (host) AS (
  SELECT (SELECT host FROM lane WHERE {wanted} AND head_priority = :priority AND host > :after ORDER BY host LIMIT 1)
  UNION ALL
  SELECT (SELECT host FROM lane WHERE {wanted} AND head_priority = :priority AND host > step.host ORDER BY host LIMIT 1)
  FROM step WHERE step.host < :until
)
SELECT host FROM step WHERE host <= :until LIMIT :size
