-- A job is spread over four tables by how often each part is rewritten: `job` is narrow and changes at every step,
-- `content` is written once, `settlement` and `failure` are only added to.
--
-- States, in `job.state` and, in this order, as columns of `lane`:
--   0 ready, 1 delayed (both are "pending"), 2 claimed, 3 completed, 4 failed, 5 cancelled

-- One row per (run, kind, partition): the number of jobs in each state, and a lower bound of its first ready job.
CREATE TABLE lane (
  id            INTEGER PRIMARY KEY,
  run           TEXT    NOT NULL,
  kind          TEXT    NOT NULL,
  partition     TEXT    NOT NULL,
  ready         INTEGER NOT NULL DEFAULT 0,
  delayed       INTEGER NOT NULL DEFAULT 0,
  claimed       INTEGER NOT NULL DEFAULT 0,
  completed     INTEGER NOT NULL DEFAULT 0,
  failed        INTEGER NOT NULL DEFAULT 0,
  cancelled     INTEGER NOT NULL DEFAULT 0,
  head_priority INTEGER NOT NULL DEFAULT 0,
  head_job      INTEGER NOT NULL DEFAULT 0,
  UNIQUE (run, kind, partition)
);
CREATE INDEX lane_claim ON lane (head_priority, head_job) WHERE ready > 0;

CREATE TABLE job (
  id           INTEGER PRIMARY KEY,
  lane         INTEGER NOT NULL,
  state        INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  epoch        INTEGER NOT NULL DEFAULT 0,
  attempts     INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  holder       INTEGER,          -- worker.id while claimed
  not_before   REAL,
  submitted_at REAL    NOT NULL,
  identity     BLOB    NOT NULL  -- 128-bit digest of run, kind and key
);
CREATE UNIQUE INDEX job_submit ON job (identity);
CREATE INDEX job_claim ON job (lane, priority) WHERE state = 0;  -- then by id, as in every index
CREATE INDEX job_due ON job (not_before) WHERE state = 1;
CREATE INDEX job_held ON job (holder) WHERE state = 2;

CREATE TABLE content (
  job     INTEGER PRIMARY KEY,
  key     TEXT NOT NULL,
  host    TEXT NOT NULL,
  payload BLOB NOT NULL
);

-- How a finished job ended.
CREATE TABLE settlement (
  job        INTEGER PRIMARY KEY,
  settled_at REAL NOT NULL,
  seconds    REAL,
  worker     TEXT,
  result     BLOB
);

-- The history: at most one failure per claim of a job.
CREATE TABLE failure (
  job      INTEGER NOT NULL,
  epoch    INTEGER NOT NULL,
  worker   TEXT    NOT NULL,
  ended_at REAL    NOT NULL,
  seconds  REAL,
  failure  BLOB    NOT NULL,
  PRIMARY KEY (job, epoch)
) WITHOUT ROWID;

-- One row per live incarnation; every claim and renewal writes it, a reap deletes it and returns its jobs.
CREATE TABLE worker (
  id          INTEGER PRIMARY KEY,
  label       TEXT NOT NULL,
  incarnation TEXT NOT NULL,
  deadline    REAL NOT NULL,
  UNIQUE (label, incarnation)
);

-- Job ids are never reused, not even after a prune: a late settlement must not change another job.
CREATE TABLE sequence (next_job INTEGER NOT NULL);
INSERT INTO sequence (next_job) VALUES (1);
