-- name: keep
-- Inserts as well as extends: a worker that was reaped while it was about to claim is known again before it holds.
INSERT INTO worker (label, incarnation, deadline, lease) VALUES (?, ?, ?, ?)
ON CONFLICT (label, incarnation) DO UPDATE SET deadline = excluded.deadline, lease = excluded.lease
RETURNING id

-- name: holdings
SELECT id, epoch FROM job WHERE state = 2 AND holder = ?

-- name: any_silent
SELECT EXISTS (SELECT 1 FROM worker WHERE deadline < :now OR deadline > :now + lease + :slack)

-- name: bring_near
-- A deadline farther off than its lease is long was reckoned before the clock was set back: one lease more, from now.
UPDATE worker SET deadline = :now + lease WHERE deadline > :now + lease + :slack

-- name: silent
SELECT id, label FROM worker WHERE deadline < ?

-- name: lost
-- What a silent worker held, by lane and by whether an attempt is left.
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
-- A trigger takes the worker off the roll.
DELETE FROM worker WHERE id = ?
