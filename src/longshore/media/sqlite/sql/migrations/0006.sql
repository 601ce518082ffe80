-- The version of the handler file that completed the job; NULL if it is not known.
ALTER TABLE settlement ADD COLUMN handler_version TEXT;
