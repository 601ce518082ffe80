-- Hosts take turns: the index orders ready jobs by host within a lane and priority. The number of a host is a digest of
-- its name, so no lookup is needed; 0 is the host without a name. `host_number` is a function of the connection.
ALTER TABLE job ADD COLUMN host INTEGER NOT NULL DEFAULT 0;
UPDATE job SET host = host_number(content.host) FROM content WHERE content.job = job.id AND content.host <> '';
DROP INDEX job_claim;
CREATE INDEX job_claim ON job (lane, priority, host) WHERE state = 0;  -- then by id, as in every index

-- The host of all ready jobs of a lane; NULL if there may be several hosts.
ALTER TABLE lane ADD COLUMN host INTEGER;
UPDATE lane SET host = (
  SELECT CASE WHEN min(job.host) = max(job.host) THEN min(job.host) END
  FROM job WHERE job.lane = lane.id AND job.state = 0
);
DROP INDEX lane_claim;
CREATE INDEX lane_claim ON lane (head_priority, host, head_job) WHERE ready > 0;

-- Shared state: small values that all workers read and replace by compare-and-swap.
CREATE TABLE note (
  shelf   TEXT NOT NULL,
  name    TEXT NOT NULL,
  version TEXT NOT NULL,
  value   BLOB NOT NULL,
  PRIMARY KEY (shelf, name)
) WITHOUT ROWID;
