-- name: create_chosen
CREATE TEMP TABLE IF NOT EXISTS chosen (id INTEGER PRIMARY KEY, lane INTEGER, state INTEGER, priority INTEGER, host INTEGER)

-- name: clear_chosen
DELETE FROM temp.chosen

-- name: summary
SELECT lane, state, count(*), min(priority), min(id), min(host), max(host) FROM temp.chosen GROUP BY lane, state

-- name: retry_jobs
UPDATE job SET state = 0, attempts = 0, not_before = NULL WHERE id IN (SELECT id FROM temp.chosen)

-- name: unsettle
DELETE FROM settlement WHERE job IN (SELECT id FROM temp.chosen)

-- name: settle_cancelled
INSERT INTO settlement (job, settled_at, worker)
SELECT job.id, :now, worker.label
FROM temp.chosen CROSS JOIN job ON job.id = chosen.id LEFT JOIN worker ON worker.id = job.holder

-- name: cancel_jobs
UPDATE job SET state = 5, not_before = NULL, holder = NULL WHERE id IN (SELECT id FROM temp.chosen)

-- name: release_jobs
UPDATE job SET state = 0, holder = NULL WHERE id IN (SELECT id FROM temp.chosen)

-- name: remove_failures
DELETE FROM failure WHERE job IN (SELECT id FROM temp.chosen)

-- name: remove_content
DELETE FROM content WHERE job IN (SELECT id FROM temp.chosen)

-- name: remove_jobs
DELETE FROM job WHERE id IN (SELECT id FROM temp.chosen)
