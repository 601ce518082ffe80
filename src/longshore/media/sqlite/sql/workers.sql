-- name: keep
-- Inserts as well as extends: a worker that was reaped while it was about to claim is known again before it holds.
INSERT INTO worker (label, incarnation, deadline) VALUES (?, ?, ?)
ON CONFLICT (label, incarnation) DO UPDATE SET deadline = excluded.deadline
RETURNING id

-- name: holdings
SELECT id, epoch FROM job WHERE state = 2 AND holder = ?

-- name: any_silent
SELECT EXISTS (SELECT 1 FROM worker WHERE deadline < ?)

-- name: silent
SELECT id, label FROM worker WHERE deadline < ?

-- name: lost
-- What a silent worker held, by lane and by whether an attempt is left.
SELECT lane, attempts + 1 < max_attempts AS again, count(*), min(priority), min(id)
FROM job WHERE state = 2 AND holder = ?
GROUP BY lane, again

-- name: add_failures
INSERT INTO failure (job, epoch, worker, ended_at, failure)
SELECT id, epoch, :label, :now, :failure FROM job WHERE state = 2 AND holder = :worker

-- name: add_settlements
INSERT INTO settlement (job, settled_at, worker)
SELECT id, :now, :label FROM job WHERE state = 2 AND holder = :worker AND attempts + 1 >= max_attempts

-- name: return
UPDATE job
SET state = CASE WHEN attempts + 1 < max_attempts THEN 0 ELSE 4 END, attempts = attempts + 1, holder = NULL
WHERE state = 2 AND holder = ?

-- name: forget
DELETE FROM worker WHERE id = ?
