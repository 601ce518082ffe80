-- name: all
SELECT name, version, value FROM note WHERE shelf = :shelf ORDER BY name

-- name: named
SELECT name, version, value FROM note
WHERE shelf = :shelf AND name IN (SELECT value FROM json_each(:names)) ORDER BY name

-- name: version
SELECT version FROM note WHERE shelf = ? AND name = ?

-- name: write
INSERT INTO note (shelf, name, version, value) VALUES (?, ?, ?, ?)
ON CONFLICT (shelf, name) DO UPDATE SET version = excluded.version, value = excluded.value

-- name: remove
DELETE FROM note WHERE shelf = ? AND name = ?
