-- What a follow-on job goes back to. By name, not by number: the parent may be pruned, or never have been here.
ALTER TABLE content ADD COLUMN parent_kind TEXT;
ALTER TABLE content ADD COLUMN parent_key TEXT;
ALTER TABLE content ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;

-- The length that the deadline was reckoned with, in seconds; NULL in rows that were written before it was kept.
ALTER TABLE worker ADD COLUMN lease REAL;

-- What the workers on the roll say of themselves. Apart from `worker`, which every claim rewrites.
CREATE TABLE roll (
  worker INTEGER PRIMARY KEY,
  about  BLOB NOT NULL
);
-- A trigger, for numbers of workers are used again, and a process that was started before this migration may reap, too.
CREATE TRIGGER roll_forget AFTER DELETE ON worker BEGIN
  DELETE FROM roll WHERE worker = OLD.id;
END;
