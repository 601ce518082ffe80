-- Add jobs of another queue with their state. No two of them have the same name; jobs with a known name are skipped.
-- `h_…` are their attempts, each with the position of its job. Returns how many were new.
create or replace function take_over(
  runs text[], kinds text[], partitions text[],
  which int[], keys text[], payloads json[], priorities int[], hosts text[], not_befores float8[], limits int[],
  parents json[], depths int[], epochs int[], attempts int[], submitted_ats float8[],
  states text[], settled_ats float8[], durations float8[], workers text[], results json[],
  failures json[], came_froms json[], versions text[],
  h_jobs int[], h_epochs int[], h_ended_ats float8[], h_seconds float8[], h_workers text[], h_failures json[]
) returns int language plpgsql
set search_path from current set jit = off set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_nestloop = off
as $$
declare
  at constant timestamptz := clock_timestamp();
  l record;
  found record;
begin
  select * into l from lanes_of(runs, kinds, partitions);
  with given as materialized (
    select l.families[u.which] as family, substring(sha256(convert_to(u.key, 'UTF8')) for 16) as digest, u.*
    from unnest(which, keys, payloads, priorities, hosts, not_befores, limits, parents, depths, epochs, attempts,
                submitted_ats, states, settled_ats, durations, workers, results, failures, came_froms,
                versions)
      with ordinality
      u (which, key, payload, priority, host, not_before, max_attempts, parent, depth, epoch, attempts,
         submitted_at, state, settled_at, seconds, worker, result, failure, came_from, version, position)
  ), added as (
    -- The claim and the attempt that completed a job are counted by its row in `done`.
    insert into job as j (family, lane, priority, max_attempts, attempts, epoch, submitted_at, not_before, digest, key,
                          host, payload, parent, depth, failure, came_from)
      select g.family, l.lanes[g.which], g.priority, g.max_attempts,
             g.attempts - (g.state = 'completed')::int, g.epoch - (g.state = 'completed')::int,
             to_timestamp(g.submitted_at), to_timestamp(g.not_before), g.digest, g.key, g.host, g.payload, g.parent,
             g.depth, g.failure, g.came_from
      from given g order by g.position
    on conflict on constraint job_by_key do nothing
    returning j.id, j.family, j.lane, j.digest
  ), placed as materialized (
    select a.id, a.lane, g.* from added a join given g on g.family = a.family and g.digest = a.digest
  ), now_ready as (
    insert into ready (family, lane, priority, epoch, job, host)
      select p.family, p.lane, p.priority, p.epoch + 1, p.id, host_number(p.host) from placed p
      where p.state = 'pending' and (p.not_before is null or to_timestamp(p.not_before) <= at)
  ), not_yet as (
    insert into delayed (family, lane, priority, epoch, job, host, due)
      select p.family, p.lane, p.priority, p.epoch + 1, p.id, host_number(p.host), to_timestamp(p.not_before) from placed p
      where p.state = 'pending' and to_timestamp(p.not_before) > at
  ), finished as (
    insert into done (job, settled_at, seconds, state, worker, result, handler_version)
      select p.id, coalesce(to_timestamp(p.settled_at), at), p.seconds, p.state::finish, p.worker, p.result, p.version
      from placed p where p.state <> 'pending'
  ), remembered as (
    insert into attempt (job, epoch, ended_at, seconds, worker, failure)
      select p.id, h.epoch, to_timestamp(h.ended_at), h.seconds, h.worker, h.failure
      from unnest(h_jobs, h_epochs, h_ended_ats, h_seconds, h_workers, h_failures)
        h (position, epoch, ended_at, seconds, worker, failure)
      join placed p on p.position = h.position
  ), counted as (
    select p.lane, count(*)::int as n, (count(*) filter (where p.state = 'pending'))::int as remaining,
           (count(*) filter (where p.state = 'completed'))::int as completed,
           (count(*) filter (where p.state = 'failed'))::int as failed,
           (count(*) filter (where p.state = 'cancelled'))::int as cancelled
    from placed p group by p.lane
  ), noted as (
    insert into tally
      select array_agg(c.lane), array_agg(c.remaining), array_agg(c.completed), array_agg(c.failed),
             array_agg(c.cancelled)
      from counted c having count(*) > 0
  )
  select coalesce(sum(c.n), 0)::int as n into found from counted c;
  return found.n;
end
$$;
