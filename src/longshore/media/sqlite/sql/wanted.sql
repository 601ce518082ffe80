-- name: wanted
-- The lanes with ready jobs that match a `Want`; a parameter that is NULL filters nothing.
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
-- Steps from host to host; the cost does not depend on the number of lanes of a host.
WITH RECURSIVE step (host) AS (
  SELECT (SELECT host FROM lane WHERE {wanted} AND head_priority = :priority AND host > :after ORDER BY host LIMIT 1)
  UNION ALL
  SELECT (SELECT host FROM lane WHERE {wanted} AND head_priority = :priority AND host > step.host ORDER BY host LIMIT 1)
  FROM step WHERE step.host < :until
)
SELECT host FROM step WHERE host <= :until LIMIT :size
