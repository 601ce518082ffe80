-- name: near
-- The next jobs of any host. If most hosts have one or two jobs, this finds many hosts at the cost of one step.
SELECT host, id FROM job
WHERE lane = :lane AND state = 0 AND priority = :priority AND host > :after AND host <= :until
ORDER BY host, id LIMIT :size

-- name: hosts
-- The hosts with ready jobs of this priority in one lane, in order, each with its oldest job. Steps from host to host;
-- the cost does not depend on the number of jobs of a host.
WITH RECURSIVE step (host, id) AS (
  SELECT host, id FROM job WHERE id = (
    SELECT id FROM job
    WHERE lane = :lane AND state = 0 AND priority = :priority AND host > :after ORDER BY host, id LIMIT 1)
  UNION ALL
  SELECT job.host, job.id FROM step CROSS JOIN job ON job.id = (
    SELECT id FROM job
    WHERE lane = :lane AND state = 0 AND priority = :priority AND host > step.host ORDER BY host, id LIMIT 1)
  WHERE step.host < :until
)
SELECT host, id FROM step WHERE host <= :until LIMIT :size

-- name: first
SELECT priority, id FROM job WHERE lane = :lane AND state = 0 AND priority >= :priority ORDER BY priority, host, id LIMIT 1

-- name: oldest
-- Reads only the index, so jobs that are not taken cost almost nothing. Returns one value, because rows cost more.
SELECT json_group_array(id) FROM (
  SELECT id FROM job
  WHERE lane = :lane AND state = 0 AND priority = :priority AND host BETWEEN :first_host AND :last_host
  ORDER BY host, id LIMIT :size OFFSET :read
)
