-- Move due jobs from `delayed` to `ready`. Returns how many.
create or replace function promote(at timestamptz) returns bigint language sql
set search_path from current set jit = off set enable_seqscan = off
as $$
  with due as (
    delete from delayed where job = any (array(
      select d.job from delayed d where d.due <= at order by d.due limit 10000 for update skip locked
    ))
    returning family, lane, priority, epoch, job, host
  ), moved as (
    insert into ready (family, lane, priority, epoch, job, host)
      select family, lane, priority, epoch, job, host from due returning 1
  )
  select count(*) from moved
$$;

-- Return the families that may have jobs of this run and these kinds. Without a run it steps from one family with
-- ready jobs to the next, so that finished runs cost nothing.
create or replace function families_wanted(wanted_run text, wanted_kinds text[]) returns int[] language plpgsql
set search_path from current set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
begin
  if wanted_run is not null then
    return array(
      select id from family where run = wanted_run and (wanted_kinds is null or kind = any (wanted_kinds)));
  end if;
  return array(
    with recursive hop (family) as (
      (select r.family from ready r order by r.family limit 1)
      union all
      select (select r.family from ready r where r.family > hop.family order by r.family limit 1)
      from hop where hop.family is not null
    )
    select f.id from hop join family f on f.id = hop.family
    where wanted_kinds is null or f.kind = any (wanted_kinds));
end
$$;

-- Return the lanes of these families and partitions. Each is looked up by its full name; a join would search by family
-- only.
create or replace function lanes_wanted(families int[], wanted_partitions text[]) returns int[] language plpgsql
set search_path from current set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
begin
  return array_remove(array(
    select (select l.id from lane l where l.family = f.id and l.partition = p.name)
    from unnest(families) f (id) cross join unnest(wanted_partitions) p (name)), null);
end
$$;

-- Return how many pages of `ready` this session has read, according to the statistics that it has not reported yet.
-- Only the difference of two calls in one transaction is meaningful.
create or replace function pages_read() returns bigint language plpgsql
as $$
begin
  return pg_stat_get_xact_blocks_fetched('ready'::regclass) + pg_stat_get_xact_blocks_fetched('ready_to_claim'::regclass)
    + pg_stat_get_xact_blocks_fetched('ready_to_claim_by_lane'::regclass);
end
$$;

-- Claim up to `wanted` jobs for a worker: choose and lock them, delete them from `ready`, and insert a batch.
--
-- Without a partition filter the searched lines are families, with one they are lanes; each has an index in exactly the
-- order of the claim, so that a claim skips over neither the backlog nor the jobs of other partitions.
-- `unwanted` are the numbers of excluded hosts, sorted; `behind` is the host after which the turns begin, and `turn`
-- the host that had the last turn. `mark_…`, if given, are the only strands to search, each from a job on.
-- `looked` is the duration of the search in seconds, and `pages`, if `counted`, the number of pages it read.
create or replace function claim(
  worker_incarnation text, worker_label text, lease float8, wanted int,
  wanted_run text, wanted_kinds text[], wanted_partitions text[],
  unwanted bigint[], behind bigint, counted bool,
  mark_lines int[], mark_priorities int[], mark_hosts bigint[], mark_jobs bigint[]
) returns table (
  batch bigint, deadline float8, looked float8, pages bigint, turn bigint, job bigint, epoch int,
  family int, lane int, key text, payload json, priority int, host text, attempts int, max_attempts int,
  submitted_at float8, parent json, depth int, failure json, came_from json
) language plpgsql
set search_path from current set jit = off set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  at constant timestamptz := clock_timestamp();
  until constant timestamptz := at + make_interval(secs => lease);
  holder worker;
  lines int[];
  got record;
  made bigint;
begin
  select * into holder from worker w where w.incarnation = worker_incarnation for key share;
  if not found then
    insert into worker as w (incarnation, label, deadline) values (worker_incarnation, worker_label, until)
      on conflict (incarnation) do update set deadline = excluded.deadline returning * into holder;
  -- A busy worker claims hundreds of times a second. Its row is written only when that moves the deadline by more than
  -- a fiftieth of the lease; otherwise dead versions of the row would accumulate while any old snapshot is open.
  elsif abs(extract(epoch from holder.deadline - until)) > lease / 50 then
    update worker w set deadline = until where w.id = holder.id;
  end if;

  if exists (select from delayed d where d.due <= at) then
    perform promote(at);
  end if;

  if counted then
    pages := pages_read();
  end if;
  if mark_lines is null then
    lines := families_wanted(wanted_run, wanted_kinds);
    if wanted_partitions is not null then
      lines := lanes_wanted(lines, wanted_partitions);
    end if;
  end if;
  if wanted_partitions is null then
    select * into got
      from pick_by_family(lines, wanted, unwanted, mark_lines, mark_priorities, mark_hosts, mark_jobs, behind);
  else
    select * into got
      from pick_by_lane(lines, wanted, unwanted, mark_lines, mark_priorities, mark_hosts, mark_jobs, behind);
  end if;
  if got.jobs is null then
    return;
  end if;

  looked := date_part('epoch', clock_timestamp() - at);
  if counted then
    pages := pages_read() - pages;
  end if;

  -- The rows are locked, so their addresses stay valid.
  delete from ready r where r.ctid = any (got.addresses);
  insert into batch as b (worker, jobs, epochs, lanes) values (holder.id, got.jobs, got.epochs, got.lanes)
    returning b.id into made;
  return query
    select made, date_part('epoch', until), looked, pages, got.turn, j.id, u.epoch, j.family, j.lane, j.key, j.payload,
           j.priority, j.host, j.attempts, j.max_attempts, date_part('epoch', j.submitted_at), j.parent, j.depth,
           coalesce(last.failure, j.failure), j.came_from
    from unnest(got.jobs, got.epochs) with ordinality u (job, epoch, position)
    join job j on j.id = u.job
    left join lateral (
      select a.failure from attempt a where u.epoch > 1 and a.job = u.job order by a.epoch desc limit 1
    ) last on true
    order by u.position;
end
$$;

-- Return whether a job can be claimed now, and if not, in how many seconds the next delayed job is due.
create or replace function claimable(
  wanted_run text, wanted_kinds text[], wanted_partitions text[], unwanted bigint[],
  out ready_now bool, out due_in float8
) language plpgsql
set search_path from current set jit = off set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  at constant timestamptz := clock_timestamp();
  lines int[];
begin
  if exists (select from delayed d where d.due <= at) then
    perform promote(at);
  end if;
  lines := families_wanted(wanted_run, wanted_kinds);
  if wanted_partitions is null then
    ready_now := any_by_family(lines, unwanted);
  else
    ready_now := any_by_lane(lanes_wanted(lines, wanted_partitions), unwanted);
  end if;
  -- The next of all delayed jobs: a process that wakes up for a job it does not want reads again and sleeps on.
  select date_part('epoch', d.due - at) into due_in from delayed d where d.due > at order by d.due limit 1;
end
$$;
