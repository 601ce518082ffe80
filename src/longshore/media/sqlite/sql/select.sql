-- name: condition
-- The condition of a `Selection`; a parameter that is NULL filters nothing.
(:run IS NULL OR lane.run = :run)
AND (:kinds IS NULL OR lane.kind IN (SELECT value FROM json_each(:kinds)))
AND (:partitions IS NULL OR lane.partition IN (SELECT value FROM json_each(:partitions)))
AND (:states IS NULL OR job.state IN (SELECT value FROM json_each(:states)))
AND (:older_than_us IS NULL
     OR round((:now - coalesce(settlement.settled_at, job.submitted_at)) * 1e6) >= :older_than_us)
AND (:error IS NULL OR (job.state <> 3 AND error_matches(:error, (
       SELECT failure FROM failure WHERE failure.job = job.id ORDER BY epoch DESC LIMIT 1))))

-- name: by_id
job.id IN (SELECT value FROM json_each(:ids)) AND job.id > :after

-- name: by_age
job.id > :after

-- name: jobs
SELECT job.id, lane.run, lane.kind, content.key, content.payload, job.priority, lane.partition, content.host,
       content.parent_kind, content.parent_key, content.depth,
       job.state, job.epoch, job.attempts, job.max_attempts, job.not_before, job.submitted_at,
       settlement.settled_at, coalesce(settlement.worker, worker.label), settlement.seconds, settlement.result,
       CASE WHEN job.state <> 3 AND job.epoch > 0 THEN (
         SELECT failure FROM failure WHERE failure.job = job.id ORDER BY epoch DESC LIMIT 1) END,
       content.came_from, settlement.handler_version
FROM job
CROSS JOIN lane ON lane.id = job.lane
CROSS JOIN content ON content.job = job.id
LEFT JOIN settlement ON settlement.job = job.id
LEFT JOIN worker ON worker.id = job.holder
WHERE {which} AND {condition}
ORDER BY job.id LIMIT :limit

-- name: payloads
-- The mark is replaced by one for each identity.
SELECT job.identity, content.payload
FROM job CROSS JOIN content ON content.job = job.id
WHERE job.identity IN (?)

-- name: numbers
-- The mark is replaced by one for each identity.
SELECT identity, id FROM job WHERE identity IN (?)

-- name: extent
-- The first job number of the selected lanes, and their number of jobs in each state.
SELECT min(first_job), sum(ready), sum(delayed), sum(claimed), sum(completed), sum(failed), sum(cancelled)
FROM lane
WHERE (:run IS NULL OR run = :run)
AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
AND (:partitions IS NULL OR partition IN (SELECT value FROM json_each(:partitions)))

-- One statement per state, each on the index of that state, so that it skips over no jobs in other states.

-- name: near
SELECT job.id
FROM job CROSS JOIN lane ON lane.id = job.lane
WHERE job.id > :after AND job.id <= :reach AND {condition}
ORDER BY job.id LIMIT :limit

-- name: ready
-- No index orders ready jobs by age alone (each submission would pay for it), so this reads all of them in the lanes.
SELECT job.id
FROM lane CROSS JOIN job INDEXED BY job_claim ON job.lane = lane.id AND job.state = 0
WHERE job.id > :reach AND {condition}
ORDER BY job.id LIMIT :limit

-- name: delayed
SELECT job.id
FROM job INDEXED BY job_due CROSS JOIN lane ON lane.id = job.lane
WHERE job.state = 1 AND job.id > :reach AND {condition}
ORDER BY job.id LIMIT :limit

-- name: claimed
SELECT job.id
FROM job INDEXED BY job_held CROSS JOIN lane ON lane.id = job.lane
WHERE job.state = 2 AND job.id > :after AND {condition}
ORDER BY job.id LIMIT :limit

-- name: finished
SELECT job.id
FROM settlement CROSS JOIN job ON job.id = settlement.job CROSS JOIN lane ON lane.id = job.lane
WHERE settlement.job > :after AND {condition}
ORDER BY settlement.job LIMIT :limit

-- name: not_completed
SELECT job.id
FROM job INDEXED BY job_not_completed CROSS JOIN lane ON lane.id = job.lane
LEFT JOIN settlement ON settlement.job = job.id
WHERE job.state > 3 AND job.id > :after AND {condition}
ORDER BY job.id LIMIT :limit

-- name: choose
INSERT INTO temp.chosen (id, lane, state, priority, host)
SELECT job.id, job.lane, job.state, job.priority, job.host
FROM job
CROSS JOIN lane ON lane.id = job.lane
LEFT JOIN settlement ON settlement.job = job.id
WHERE {which} AND {condition}

-- name: history
SELECT epoch, worker, ended_at, failure, seconds FROM failure WHERE job = ? AND epoch > 0 ORDER BY epoch
