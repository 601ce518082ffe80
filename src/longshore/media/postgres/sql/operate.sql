-- Record in `tally` how the number of finished jobs changed: `cancelled` and `failed` are added to each lane.
create or replace function note(
  lane_ids int[], remaining_each int, completed_each int[], failed_each int[], cancelled_each int[]
) returns void language sql
set search_path from current set jit = off
as $$
  insert into tally
    select array_agg(g.lane), array_agg(g.n * remaining_each), array_agg(g.completed), array_agg(g.failed),
           array_agg(g.cancelled)
    from (
      select u.lane, count(*)::int as n, sum(u.completed)::int as completed, sum(u.failed)::int as failed,
             sum(u.cancelled)::int as cancelled
      from unnest(lane_ids, completed_each, failed_each, cancelled_each) u (lane, completed, failed, cancelled)
      group by u.lane
    ) g
    having count(*) > 0
$$;

-- Make the failed and cancelled jobs among these pending again, with no attempt used. Returns how many.
create or replace function retry_jobs(ids bigint[]) returns int language plpgsql
set search_path from current set jit = off set enable_seqscan = off
as $$
declare
  found record;
begin
  with undone as (
    delete from done d where d.job = any (ids) and d.state <> 'completed' returning d.job, d.state
  ), opened as (
    update job j set attempts = 0, not_before = null from undone u where j.id = u.job
    returning j.id, j.family, j.lane, j.priority, j.epoch, j.host, u.state
  ), now_ready as (
    insert into ready (family, lane, priority, epoch, job, host)
      select o.family, o.lane, o.priority, o.epoch + 1, o.id, host_number(o.host) from opened o
  )
  select count(*)::int as n, array_agg(o.lane) as lanes, array_agg(0) as zeros,
         array_agg(-(o.state = 'failed')::int) as failed, array_agg(-(o.state = 'cancelled')::int) as cancelled
    into found from opened o;
  if found.n > 0 then
    perform note(found.lanes, 1, found.zeros, found.failed, found.cancelled);
  end if;
  return found.n;
end
$$;

-- Remove jobs that are no longer held from a batch that the caller has locked, and the batch if none is left in it.
create or replace function leave_batch(batch_id bigint, gone bigint[]) returns void language plpgsql
set search_path from current set jit = off set enable_seqscan = off
as $$
declare
  kept record;
begin
  select array_agg(h.job) as jobs, array_agg(h.epoch) as epochs, array_agg(h.lane) as lanes into kept
    from batch b cross join lateral unnest(b.jobs, b.epochs, b.lanes) h (job, epoch, lane)
    left join unnest(gone) g (job) on g.job = h.job
    where b.id = batch_id and g.job is null;
  if kept.jobs is null then
    delete from batch where id = batch_id;
  else
    update batch set jobs = kept.jobs, epochs = kept.epochs, lanes = kept.lanes where id = batch_id;
  end if;
end
$$;

-- Make the claimed jobs among these pending; no attempt counts. Returns how many.
create or replace function release_jobs(ids bigint[]) returns int language plpgsql
set search_path from current set jit = off set enable_seqscan = off
as $$
declare
  b record;
  c record;
  total int := 0;
begin
  for b in
    select h.id, h.jobs, h.epochs, (select w.label from worker w where w.id = h.worker) as label
    from batch h
    where h.id = any (array(
      select distinct x.id from batch x cross join lateral unnest(x.jobs) u (job) join unnest(ids) i (job) on i.job = u.job))
    order by h.id for update
  loop
    select array_agg(h.job) as jobs, array_agg(h.epoch) as epochs, count(*)::int as n into c
      from unnest(b.jobs, b.epochs) h (job, epoch) join unnest(ids) i (job) on i.job = h.job;
    if c.n > 0 then
      perform end_attempts(
        c.jobs, c.epochs, b.label, array_fill(false, array[c.n]), array_fill(null::json, array[c.n]),
        array_fill(true, array[c.n]), array_fill(0::float8, array[c.n]), array_fill(null::int, array[c.n]),
        array_fill(null::float8, array[c.n]));
      perform leave_batch(b.id, c.jobs);
      total := total + c.n;
    end if;
  end loop;
  return total;
end
$$;

-- Cancel the pending and claimed jobs among these. Returns how many.
create or replace function cancel_jobs(ids bigint[]) returns int language plpgsql
set search_path from current set jit = off set enable_seqscan = off
as $$
declare
  at constant timestamptz := clock_timestamp();
  b record;
  c record;
  total int := 0;
begin
  -- A job may be claimed or given back during this function, so pending jobs are searched both before and after.
  for round in 1..2 loop
    with waiting as (
      delete from ready r using job j
        where j.id = any (ids) and r.family = j.family and r.priority = j.priority and r.host = host_number(j.host)
          and r.job = j.id
      returning r.job, r.lane
    ), later as (
      delete from delayed d where d.job = any (ids) returning d.job, d.lane
    ), gone as (
      select * from waiting union all select * from later
    ), written as (
      insert into done (job, settled_at, state) select g.job, at, 'cancelled' from gone g
    )
    select count(*)::int as n, array_agg(g.lane) as lanes, array_agg(0) as zeros, array_agg(1) as ones into c from gone g;
    if c.n > 0 then
      perform note(c.lanes, -1, c.zeros, c.zeros, c.ones);
      total := total + c.n;
    end if;
    exit when round = 2;

    for b in
      select h.id, h.jobs, h.epochs, h.lanes, (select w.label from worker w where w.id = h.worker) as label
      from batch h
      where h.id = any (array(
        select distinct x.id from batch x cross join lateral unnest(x.jobs) u (job)
        join unnest(ids) i (job) on i.job = u.job))
      order by h.id for update
    loop
      with held as (
        select h.job, h.epoch, h.lane from unnest(b.jobs, b.epochs, b.lanes) h (job, epoch, lane)
        join unnest(ids) i (job) on i.job = h.job
      ), marked as (
        update job j set epoch = h.epoch from held h where j.id = h.job
      ), written as (
        insert into done (job, settled_at, state, worker) select h.job, at, 'cancelled', b.label from held h
      )
      select coalesce(array_agg(h.job), '{}') as jobs, array_agg(h.lane) as lanes, array_agg(0) as zeros,
             array_agg(1) as ones into c from held h;
      if cardinality(c.jobs) > 0 then
        perform note(c.lanes, -1, c.zeros, c.zeros, c.ones);
        total := total + cardinality(c.jobs);
        perform leave_batch(b.id, c.jobs);
      end if;
    end loop;
  end loop;
  return total;
end
$$;

-- Delete the finished jobs among these with all their rows. Returns how many.
create or replace function prune_jobs(ids bigint[]) returns int language plpgsql
set search_path from current set jit = off set enable_seqscan = off
as $$
declare
  found record;
begin
  with gone as (
    delete from done d where d.job = any (ids) returning d.job, d.state
  ), forgotten as (
    delete from attempt a where a.job = any (array(select job from gone))
  ), removed as (
    delete from job j using gone g where j.id = g.job returning j.lane, g.state
  )
  select count(*)::int as n, array_agg(r.lane) as lanes, array_agg(-(r.state = 'completed')::int) as completed,
         array_agg(-(r.state = 'failed')::int) as failed, array_agg(-(r.state = 'cancelled')::int) as cancelled
    into found from removed r;
  if found.n > 0 then
    perform note(found.lanes, 0, found.completed, found.failed, found.cancelled);
  end if;
  return found.n;
end
$$;
