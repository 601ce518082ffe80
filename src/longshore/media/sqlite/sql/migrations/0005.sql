-- The uuid of the queue, the same for as long as the file exists.
CREATE TABLE queue (uuid TEXT NOT NULL);
INSERT INTO queue (uuid) VALUES (lower(hex(randomblob(16))));

-- The queues through which a job came here, as JSON; NULL for a job that was submitted here.
ALTER TABLE content ADD COLUMN came_from BLOB;
