-- A lower bound of the lane's job numbers, so that a search for a run's jobs skips all older jobs. 0 if unknown.
ALTER TABLE lane ADD COLUMN first_job INTEGER NOT NULL DEFAULT 0;

-- For failed and cancelled jobs, which are usually rare among completed ones.
CREATE INDEX job_not_completed ON job (id) WHERE state > 3;
