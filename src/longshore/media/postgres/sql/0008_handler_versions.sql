-- The version of the handler file that completed the job; null if it is not known.

alter table done add column handler_version text collate "C";

-- Functions whose arguments change; they are created again right after this. A new schema has none yet.
drop function if exists settle(
  bigint[], text[], text[], bigint[], int[], int[], json[], float8[], int[], json[], bigint[], int[], int[], bool[], json[],
  bool[], float8[], int[], float8[], text[], text[], text[], int[], int[], text[], json[], int[], text[], float8[], int[],
  json[], int[]);
drop function if exists take_over(
  text[], text[], text[], int[], text[], json[], int[], text[], float8[], int[], json[], int[], int[], int[], float8[],
  text[], float8[], float8[], text[], json[], json[], json[], int[], int[], float8[], float8[], text[], json[]);

create or replace view known as
select
  j.id, f.run, f.kind, l.partition, j.key, j.payload, j.priority, j.host, j.max_attempts, j.submitted_at,
  j.family, j.lane,
  coalesce(d.state::text, case when h.job is null then 'pending' else 'claimed' end) as state,
  case when h.job is not null or d.state = 'completed' then j.epoch + 1 else j.epoch end as epoch,
  case when d.state = 'completed' then j.attempts + 1 else j.attempts end as attempts,
  case when h.job is null and d.job is null then j.not_before end as not_before,
  d.settled_at, d.seconds, d.result,
  coalesce(d.worker, h.label) as worker,
  case when d.state = 'completed' then null else coalesce(
    (select a.failure from attempt a where a.job = j.id order by a.epoch desc limit 1), j.failure
  ) end as failure,
  j.parent, j.depth, j.came_from, d.handler_version
from job j
join lane l on l.id = j.lane
join family f on f.id = j.family
left join done d on d.job = j.id
left join (
  select u.job, w.label from batch b join worker w on w.id = b.worker cross join lateral unnest(b.jobs) u (job)
) h on h.job = j.id;
