-- Write attempts that did not complete their jobs: the history, the job's row, and its new state. The caller has locked
-- the batch and removes the jobs from it. `verdicts`: true is a failed attempt, false a job that is given back. Returns
-- how many jobs are pending again and how many failed finally.
create or replace function end_attempts(
  jobs bigint[], epochs int[], worker_label text, verdicts bool[], failures json[], retryables bool[], delays float8[],
  limits int[], durations float8[], out returned int, out failed int
) language plpgsql
set search_path from current set jit = off set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  at constant timestamptz := clock_timestamp();
  touched int[];
  lost int[];
begin
  insert into attempt (job, epoch, ended_at, seconds, worker, failure)
    select u.job, u.epoch, at, u.seconds, worker_label, u.failure
    from unnest(jobs, epochs, verdicts, failures, durations) u (job, epoch, failed, failure, seconds)
    where u.failed;
  with ended as (
    update job j set
      epoch = u.epoch,
      attempts = j.attempts + u.failed::int,
      max_attempts = coalesce(u.max_attempts, j.max_attempts),
      not_before = case when u.delay > 0 then at + make_interval(secs => u.delay) end
    from unnest(jobs, epochs, verdicts, retryables, delays, limits, durations)
      u (job, epoch, failed, retryable, delay, max_attempts, seconds)
    where j.id = u.job
    returning j.id, j.family, j.lane, j.priority, j.epoch, j.not_before, host_number(j.host) as host, u.seconds,
      u.failed and (not u.retryable or j.attempts >= j.max_attempts) as gone
  ), now_done as (
    insert into done (job, settled_at, seconds, state, worker)
      select e.id, at, e.seconds, 'failed', worker_label from ended e where e.gone
  ), now_ready as (
    insert into ready (family, lane, priority, epoch, job, host)
      select e.family, e.lane, e.priority, e.epoch + 1, e.id, e.host from ended e where not e.gone and e.not_before is null
  ), not_yet as (
    insert into delayed (family, lane, priority, epoch, job, host, due)
      select e.family, e.lane, e.priority, e.epoch + 1, e.id, e.host, e.not_before
      from ended e where not e.gone and e.not_before is not null
  )
  select array_agg(g.lane), array_agg(g.n), sum(g.n), sum(g.kept) into touched, lost, failed, returned
    from (
      select e.lane, (count(*) filter (where e.gone))::int as n, count(*) filter (where not e.gone) as kept
      from ended e group by e.lane
    ) g;
  if failed > 0 then
    insert into tally
      select touched, array(select -n from unnest(lost) n), z.none, lost, z.none
      from (select array_fill(0, array[cardinality(touched)]) as none) z;
  end if;
end
$$;

-- Settle. `batches` are the expected batches of the jobs; of the workers in `searched`, all batches are searched. A
-- settlement is accepted if its job is held at its epoch by its worker, of which `…_holders` has the position in
-- `holders`: then, and only then, all of it is written. `c_…` are completed jobs, `p_…` the queues through which some of
-- these came, each with the position of its job among the completed jobs, `o_…` all other jobs, `f_…` the follow-on
-- jobs, each with the position of its parent among the completed jobs, the parent's name, and its own depth. Returns the
-- accepted positions of the completed and of the other jobs, and how many follow-on jobs were left out as duplicates.
create or replace function settle(
  batches bigint[], searched text[], holders text[],
  c_jobs bigint[], c_epochs int[], c_holders int[], c_results json[], c_seconds float8[],
  c_versions text[],
  p_positions int[], p_came_from json[],
  o_jobs bigint[], o_epochs int[], o_holders int[], o_failed bool[], o_failures json[], o_retryable bool[], o_delays float8[],
  o_limits int[], o_seconds float8[],
  f_runs text[], f_kinds text[], f_partitions text[], f_parents int[], f_lanes int[], f_keys text[], f_payloads json[],
  f_priorities int[], f_hosts text[], f_not_befores float8[], f_limits int[], f_names json[], f_depths int[],
  out completed int[], out others int[], out duplicates int
) language plpgsql
-- Every join here is between two arrays of unknown length; a nested loop would read their whole product.
set search_path from current set jit = off set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_nestloop = off
as $$
declare
  at constant timestamptz := clock_timestamp();
  b record;
  c record;
  o record;
  left_over record;
  made record;
  lanes int[] := '{}';
begin
  completed := '{}';
  others := '{}';
  duplicates := 0;
  if cardinality(searched) > 0 then
    batches := batches || array(
      select h.id from batch h
      where h.worker = any (array(select w.id from worker w where w.incarnation = any (searched))));
  end if;
  for b in
    select h.id, h.jobs, h.epochs, h.lanes, (select w.label from worker w where w.id = h.worker) as label,
           (select array_position(holders, w.incarnation) from worker w where w.id = h.worker) as holder
    from batch h where h.id = any (batches) order by h.id for update
  loop
    with held as materialized (
      select h.job, h.epoch, h.lane from unnest(b.jobs, b.epochs, b.lanes) h (job, epoch, lane)
    ), accepted as (
      select g.position, h.job, h.lane, g.seconds, g.result, g.version
      from unnest(c_jobs, c_epochs, c_holders, c_results, c_seconds, c_versions)
        with ordinality g (job, epoch, holder, result, seconds, version, position)
      join held h on h.job = g.job and h.epoch = g.epoch
      where g.holder = b.holder
    ), written as (
      insert into done (job, settled_at, seconds, state, worker, result, handler_version)
        select a.job, at, a.seconds, 'completed', b.label, a.result, a.version from accepted a
    )
    select coalesce(array_agg(a.position::int), '{}') as positions, coalesce(array_agg(a.job), '{}') as jobs,
           coalesce(array_agg(a.lane), '{}') as lanes
      into c from accepted a;
    completed := completed || c.positions;
    lanes := lanes || c.lanes;

    if cardinality(o_jobs) > 0 then
      select coalesce(array_agg(g.position::int), '{}') as positions, coalesce(array_agg(g.job), '{}') as jobs,
             array_agg(g.epoch) as epochs, array_agg(g.failed) as failed, array_agg(g.failure) as failures,
             array_agg(g.retryable) as retryable, array_agg(g.delay) as delays, array_agg(g.max_attempts) as limits,
             array_agg(g.seconds) as seconds
        into o
        from unnest(o_jobs, o_epochs, o_holders, o_failed, o_failures, o_retryable, o_delays, o_limits, o_seconds)
          with ordinality g (job, epoch, holder, failed, failure, retryable, delay, max_attempts, seconds, position)
        join unnest(b.jobs, b.epochs) h (job, epoch) on h.job = g.job and h.epoch = g.epoch
        where g.holder = b.holder;
      if cardinality(o.jobs) > 0 then
        perform end_attempts(
          o.jobs, o.epochs, b.label, o.failed, o.failures, o.retryable, o.delays, o.limits, o.seconds);
        others := others || o.positions;
        c.jobs := c.jobs || o.jobs;
      end if;
    end if;

    if cardinality(c.jobs) = cardinality(b.jobs) then
      delete from batch where id = b.id;
    elsif cardinality(c.jobs) > 0 then
      select array_agg(h.job) as jobs, array_agg(h.epoch) as epochs, array_agg(h.lane) as lanes into left_over
        from unnest(b.jobs, b.epochs, b.lanes) h (job, epoch, lane)
        left join unnest(c.jobs) g (job) on g.job = h.job where g.job is null;
      update batch set jobs = left_over.jobs, epochs = left_over.epochs, lanes = left_over.lanes where id = b.id;
    end if;
  end loop;

  if cardinality(lanes) > 0 then
    insert into tally
      select array_agg(g.lane), array_agg(-g.n), array_agg(g.n), array_agg(0), array_agg(0)
      from (select l.lane, count(*)::int as n from unnest(lanes) l (lane) group by l.lane) g;
  end if;
  if cardinality(p_positions) > 0 then
    update job j set came_from = p.came_from
      from unnest(p_positions, p_came_from) p (position, came_from)
      where j.id = c_jobs[p.position] and p.position = any (completed);
  end if;
  if cardinality(f_parents) > 0 and cardinality(completed) > 0 then
    select * into made from lanes_of(f_runs, f_kinds, f_partitions);
    select count(*) - add_jobs(made.families, made.lanes, array_agg(f.lane), array_agg(f.key), array_agg(f.payload),
                               array_agg(f.priority), array_agg(f.host), array_agg(f.not_before),
                               array_agg(f.max_attempts), array_agg(f.name), array_agg(f.depth))
      into duplicates
      from (
        select f.* from unnest(f_parents, f_lanes, f_keys, f_payloads, f_priorities, f_hosts, f_not_befores, f_limits,
                               f_names, f_depths)
          with ordinality
          f (parent, lane, key, payload, priority, host, not_before, max_attempts, name, depth, position)
        join unnest(completed) p (position) on p.position = f.parent
        order by f.position
      ) f
      having count(*) > 0;
    duplicates := coalesce(duplicates, 0);
  end if;
end
$$;
