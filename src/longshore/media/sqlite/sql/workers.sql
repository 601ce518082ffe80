-- name: keep
-- Inserts or extends: a worker that was reaped just before its claim gets a row again before it holds a job.
INSERT INTO worker (label, incarnation, deadline, lease) VALUES (?, ?, ?, ?)
ON CONFLICT (label, incarnation) DO UPDATE SET deadline = excluded.deadline, lease = excluded.lease
RETURNING id

-- name: holdings
SELECT id, epoch FROM job WHERE state = 2 AND holder = ?

-- name: any_silent
SELECT EXISTS (SELECT 1 FROM worker WHERE deadline < :now OR deadline > :now + lease + :slack)

-- name: bring_near
-- A deadline more than one lease ahead was written before the clock was set back: replace it by one lease from now.
UPDATE worker SET deadline = :now + lease WHERE deadline > :now + lease + :slack

-- name: silent
SELECT id, label FROM worker WHERE deadline < ?

-- name: lost
-- The jobs that a silent worker held, by lane and by whether an attempt is left.
SELECT lane, attempts + 1 < max_attempts AS again, count(*), min(priority), min(id), min(host), max(host)
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

-- name: sign_in
INSERT INTO roll (worker, about) VALUES (?, ?) ON CONFLICT (worker) DO UPDATE SET about = excluded.about

-- name: sign_out
DELETE FROM roll WHERE worker = (SELECT id FROM worker WHERE label = ? AND incarnation = ?)

-- name: present
SELECT worker.label, worker.incarnation, roll.about
FROM roll CROSS JOIN worker ON worker.id = roll.worker
WHERE worker.deadline >= ?
ORDER BY worker.label, worker.incarnation

-- name: forget
-- A trigger deletes the worker's row in `roll`.
DELETE FROM worker WHERE id = ?
