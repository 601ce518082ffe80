-- The layout: tables that are written often are narrow, and wide rows are written once.
--
--   job      the submitted jobs; written once, and again only when an attempt did not complete
--   ready    one narrow row per job that can be claimed now; deleted by the claim
--   delayed  the same for jobs that are not due yet, so that no claim ever scans them
--   batch    one row per claim that still holds jobs: the jobs, and the epoch of each
--   worker   one row per live incarnation: its deadline is the deadline of all its leases
--   done     one row per finished job, with its result
--   attempt  one row per attempt that failed or expired
--   tally    the change of the counters by each transaction; `fold` adds them to `lane_count` from time to time
--
-- A job is in exactly one of ready, delayed, the array of one batch, and done.
-- There are no foreign keys on the hot tables: each would cost a lookup and a lock for every job.

create table family (
  id    int generated always as identity primary key,
  run   text collate "C" not null,
  kind  text collate "C" not null,
  constraint family_by_name unique (run, kind)
);

create table lane (
  id         int generated always as identity primary key,
  family     int not null references family,
  partition  text collate "C" not null,
  constraint lane_by_name unique (family, partition)
);

create table job (
  id            bigint generated always as identity primary key,
  family        int not null,
  lane          int not null,
  priority      int not null,
  max_attempts  int not null,
  attempts      int not null default 0,  -- does not count the attempt that completed it
  epoch         int not null default 0,  -- does not count the claim that holds it now or completed it
  submitted_at  timestamptz not null default clock_timestamp(),
  not_before    timestamptz,
  digest        bytea not null,
  key           text collate "C" not null,
  host          text collate "C" not null,
  payload       json not null,
  -- The first half of the key's SHA-256 replaces the key: a third of the index size, for keys of any length.
  constraint job_by_key unique (family, digest)
) with (fillfactor = 95);

create table ready (
  family    int not null,
  lane      int not null,
  priority  int not null,
  epoch     int not null,  -- the epoch of the next claim
  job       bigint not null
) with (
  -- Rows are short-lived. Vacuum often and without pause; never analyze, because every plan on this table is pinned.
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);
create index ready_to_claim on ready (family, priority, job);
create index ready_to_claim_by_lane on ready (lane, priority, job);

create table delayed (
  job       bigint primary key,
  family    int not null,
  lane      int not null,
  priority  int not null,
  epoch     int not null,
  due       timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index delayed_by_due on delayed (due);

create table worker (
  id           int generated always as identity primary key,
  incarnation  text collate "C" not null constraint worker_by_incarnation unique,
  label        text collate "C" not null,
  deadline     timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0.1);

create table batch (
  id      bigint generated always as identity primary key,
  -- The only foreign key: a claim locks its worker's row, so that a reaper cannot delete the worker while the claim
  -- inserts a batch.
  worker  int not null references worker,
  jobs    bigint[] not null,
  epochs  int[] not null,
  lanes   int[] not null
) with (
  fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0
);
create index batch_by_worker on batch (worker);

create type finish as enum ('completed', 'failed', 'cancelled');

create table done (
  job         bigint primary key,
  settled_at  timestamptz not null default clock_timestamp(),
  seconds     double precision,
  state       finish not null,
  worker      text collate "C",
  result      json
) with (autovacuum_vacuum_insert_scale_factor = 0.1);
create index done_not_completed on done (job) where state <> 'completed';

create table attempt (
  job       bigint not null,
  epoch     int not null,
  ended_at  timestamptz not null default clock_timestamp(),
  seconds   double precision,
  worker    text collate "C" not null,
  failure   json not null,
  primary key (job, epoch)
);

create table lane_count (
  lane       int primary key,
  remaining  bigint not null,
  completed  bigint not null,
  failed     bigint not null,
  cancelled  bigint not null
) with (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1);

create table tally (
  lanes      int[] not null,
  remaining  int[] not null,
  completed  int[] not null,
  failed     int[] not null,
  cancelled  int[] not null
) with (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);

-- Every job with its state. A job that is neither in a batch nor done is pending.
create view known as
select
  j.id, f.run, f.kind, l.partition, j.key, j.payload, j.priority, j.host, j.max_attempts, j.submitted_at,
  j.family, j.lane,
  coalesce(d.state::text, case when h.job is null then 'pending' else 'claimed' end) as state,
  case when h.job is not null or d.state = 'completed' then j.epoch + 1 else j.epoch end as epoch,
  case when d.state = 'completed' then j.attempts + 1 else j.attempts end as attempts,
  case when h.job is null and d.job is null then j.not_before end as not_before,
  d.settled_at, d.seconds, d.result,
  coalesce(d.worker, h.label) as worker,
  case when d.state = 'completed' then null else (
    select a.failure from attempt a where a.job = j.id order by a.epoch desc limit 1
  ) end as failure
from job j
join lane l on l.id = j.lane
join family f on f.id = j.family
left join done d on d.job = j.id
left join (
  select u.job, w.label from batch b join worker w on w.id = b.worker cross join lateral unnest(b.jobs) u (job)
) h on h.job = j.id;
