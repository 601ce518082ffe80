-- Add the rows of `tally` to `lane_count` and delete them. If another transaction is doing this, return at once.
create or replace function fold() returns void language plpgsql
set search_path from current set jit = off
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('longshore fold ' || current_schema(), 0)) then
    return;
  end if;
  -- A fold writes each lane in `tally`. If there are very many lanes, it pays only after many rows per lane.
  if (select coalesce(sum(cardinality(t.lanes)), 0) from tally t)
     < least(10 * (select count(*) from lane_count), 200000) then
    return;
  end if;
  with noted as (
    delete from tally returning lanes, remaining, completed, failed, cancelled
  )
  insert into lane_count as c (lane, remaining, completed, failed, cancelled)
    select u.lane, sum(u.remaining), sum(u.completed), sum(u.failed), sum(u.cancelled)
    from noted n cross join lateral unnest(n.lanes, n.remaining, n.completed, n.failed, n.cancelled)
      u (lane, remaining, completed, failed, cancelled)
    group by u.lane
  on conflict (lane) do update set
    remaining = c.remaining + excluded.remaining, completed = c.completed + excluded.completed,
    failed = c.failed + excluded.failed, cancelled = c.cancelled + excluded.cancelled;
end
$$;

-- Return the number of jobs in each state. Claimed jobs are counted in the batches; the remaining jobs are pending.
create or replace function stats(wanted_run text) returns table (
  run text, kind text, partition text, pending bigint, claimed bigint, completed bigint, failed bigint, cancelled bigint
) language sql
set search_path from current set jit = off
as $$
  with noted as (
    select lane, remaining, 0::bigint as claimed, completed, failed, cancelled from lane_count
    union all
    select u.lane, u.remaining, 0, u.completed, u.failed, u.cancelled
    from tally t cross join lateral unnest(t.lanes, t.remaining, t.completed, t.failed, t.cancelled)
      u (lane, remaining, completed, failed, cancelled)
    union all
    select u.lane, 0, 1, 0, 0, 0 from batch b cross join lateral unnest(b.lanes) u (lane)
  ), summed as (
    select lane, sum(remaining)::bigint as remaining, sum(claimed)::bigint as claimed, sum(completed)::bigint as completed,
           sum(failed)::bigint as failed, sum(cancelled)::bigint as cancelled
    from noted group by lane
  )
  select f.run, f.kind, l.partition, s.remaining - s.claimed, s.claimed, s.completed, s.failed, s.cancelled
  from summed s join lane l on l.id = s.lane join family f on f.id = l.family
  where (wanted_run is null or f.run = wanted_run) and s.remaining + s.completed + s.failed + s.cancelled > 0
  order by f.run, f.kind, l.partition
$$;

-- Return the names of lanes.
create or replace function lane_names(lanes int[]) returns table (lane int, run text, kind text, partition text)
language sql stable
set search_path from current set jit = off
as $$
  select l.id, f.run, f.kind, l.partition from lane l join family f on f.id = l.family where l.id = any (lanes)
$$;

-- Return the attempts of a job that failed or expired, oldest first.
create or replace function history(wanted bigint) returns table (
  epoch int, worker text, ended_at float8, seconds float8, failure json
) language sql stable
set search_path from current set jit = off
as $$
  select a.epoch, a.worker, date_part('epoch', a.ended_at), a.seconds, a.failure
  from attempt a where a.job = wanted order by a.epoch
$$;
