-- No job of a lane has a lower number: who looks for a run's jobs steps over none that came before it. 0 where nobody
-- took note.
ALTER TABLE lane ADD COLUMN first_job INTEGER NOT NULL DEFAULT 0;

-- What failed or was cancelled is mostly rare among what was completed.
CREATE INDEX job_not_completed ON job (id) WHERE state > 3;
