-- name: held
SELECT id, epoch, lane, holder FROM job WHERE id IN (SELECT value FROM json_each(?)) AND state = 2

-- name: holder
SELECT id FROM worker WHERE label = ? AND incarnation = ?

-- name: limits
SELECT priority, host, attempts, max_attempts FROM job WHERE id = ?

-- name: complete
UPDATE job SET state = 3, attempts = attempts + 1, holder = NULL
WHERE id IN (SELECT value FROM json_each(?))

-- name: fail
UPDATE job SET state = 4, attempts = attempts + 1, max_attempts = ?, holder = NULL WHERE id = ?

-- name: give_back
UPDATE job SET state = ?, attempts = ?, max_attempts = ?, not_before = ?, holder = NULL WHERE id = ?

-- name: add_settlement
INSERT INTO settlement (job, settled_at, seconds, worker, result, handler_version) VALUES (?, ?, ?, ?, ?, ?)

-- name: set_came_from
UPDATE content SET came_from = ? WHERE job = ?

-- name: add_failure
INSERT INTO failure (job, epoch, worker, ended_at, seconds, failure) VALUES (?, ?, ?, ?, ?, ?)
