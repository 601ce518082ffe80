-- The offset of the lease clock is an entry of the shared state: files of earlier versions need no migration.

-- name: offset
SELECT value FROM note WHERE shelf = 'lease clock' AND name = ?

-- name: begin
INSERT INTO note (shelf, name, version, value) VALUES ('lease clock', ?, '1', ?) ON CONFLICT DO NOTHING

-- name: forget_others
DELETE FROM note WHERE shelf = 'lease clock' AND name <> ?
