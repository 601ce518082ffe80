-- The parent of a follow-on job. By name, not by number: the parent may be pruned, or may never have been in this
-- queue.
ALTER TABLE content ADD COLUMN parent_kind TEXT;
ALTER TABLE content ADD COLUMN parent_key TEXT;
ALTER TABLE content ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;

-- The lease length that the deadline was computed with, in seconds; NULL in rows from before this migration.
ALTER TABLE worker ADD COLUMN lease REAL;

-- The descriptions of the registered workers. A separate table, because every claim rewrites `worker`.
CREATE TABLE roll (
  worker INTEGER PRIMARY KEY,
  about  BLOB NOT NULL
);
-- A trigger, because worker ids are reused, and a process that was started before this migration may reap, too.
CREATE TRIGGER roll_forget AFTER DELETE ON worker BEGIN
  DELETE FROM roll WHERE worker = OLD.id;
END;
