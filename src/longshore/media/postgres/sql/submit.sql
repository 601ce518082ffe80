-- Return the lanes of these runs, kinds and partitions, in the given order; null for one that does not exist.
create or replace function lanes_known(
  runs text[], kinds text[], partitions text[], out families int[], out lanes int[]
) language plpgsql
-- Planning for each call would take ten times as long as the lookup itself.
set search_path from current set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
begin
  -- Each name is looked up separately. A join would search the lanes by family only, and filter thousands.
  select array_agg(n.family order by n.position),
         array_agg((select l.id from lane l where l.family = n.family and l.partition = n.partition) order by n.position)
    into families, lanes
    from (
      select (select f.id from family f where f.run = u.run and f.kind = u.kind) as family, u.partition, u.position
      from unnest(runs, kinds, partitions) with ordinality u (run, kind, partition, position)
    ) n;
end
$$;

-- Return the same, and create the lanes that do not exist.
create or replace function lanes_of(
  runs text[], kinds text[], partitions text[], out families int[], out lanes int[]
) language plpgsql
set search_path from current set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  select k.families, k.lanes into families, lanes from lanes_known(runs, kinds, partitions) k;
  if array_position(lanes, null) is null then
    return;
  end if;
  -- Sorted, so that two transactions that create the same lanes cannot deadlock.
  -- The ids of a new family's jobs are always taken after this, in every transaction.
  insert into family (run, kind, since)
    select distinct u.run, u.kind, coalesce(pg_sequence_last_value(pg_get_serial_sequence('job', 'id')::regclass), 0)
    from unnest(runs, kinds, families) u (run, kind, family)
    where u.family is null
    order by 1, 2
  on conflict do nothing;
  insert into lane (family, partition)
    select distinct f.id, u.partition
    from unnest(runs, kinds, partitions, lanes) u (run, kind, partition, lane)
    join family f on f.run = u.run and f.kind = u.kind
    where u.lane is null
    order by 1, 2
  on conflict do nothing;
  select k.families, k.lanes into families, lanes from lanes_known(runs, kinds, partitions) k;
end
$$;

-- Insert jobs, add them to `ready` or `delayed`, and count them in `tally`. Returns how many were new. Known and
-- repeated keys are skipped. `parents` and `depths` are null for jobs that are not follow-on jobs.
create or replace function add_jobs(
  family_ids int[], lane_ids int[], which int[], keys text[], payloads json[], priorities int[], hosts text[],
  not_befores float8[], limits int[], parents json[], depths int[]
) returns int language plpgsql
set search_path from current set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  at constant timestamptz := clock_timestamp();
  touched int[];
  added int[];
begin
  with given as (
    insert into job as j (family, lane, priority, max_attempts, submitted_at, not_before, digest, key, host, payload,
                          parent, depth)
      select family_ids[u.which], lane_ids[u.which], u.priority, u.max_attempts, at, to_timestamp(u.not_before),
             substring(sha256(convert_to(u.key, 'UTF8')) for 16), u.key, u.host, u.payload,
             u.parent, coalesce(u.depth, 0)
      from unnest(which, keys, payloads, priorities, hosts, not_befores, limits, parents, depths)
        u (which, key, payload, priority, host, not_before, max_attempts, parent, depth)
    on conflict on constraint job_by_key do nothing
    returning j.id, j.family, j.lane, j.priority, j.not_before, host_number(j.host) as host
  ), now_ready as (
    insert into ready (family, lane, priority, epoch, job, host)
      select g.family, g.lane, g.priority, 1, g.id, g.host from given g where g.not_before is null or g.not_before <= at
  ), not_yet as (
    insert into delayed (family, lane, priority, epoch, job, host, due)
      select g.family, g.lane, g.priority, 1, g.id, g.host, g.not_before from given g where g.not_before > at
  )
  select array_agg(g.lane), array_agg(g.n) into touched, added
    from (select given.lane, count(*)::int as n from given group by given.lane) g;
  if touched is null then
    return 0;
  end if;
  perform note_added(touched, added);
  return (select sum(n) from unnest(added) n);
end
$$;

-- Add jobs; `which` is the position of each job's run, kind and partition. Returns how many were new.
create or replace function submit(
  runs text[], kinds text[], partitions text[],
  which int[], keys text[], payloads json[], priorities int[], hosts text[], not_befores float8[], limits int[]
) returns int language plpgsql
set search_path from current set jit = off
as $$
declare
  l record;
begin
  select * into l from lanes_of(runs, kinds, partitions);
  return add_jobs(l.families, l.lanes, which, keys, payloads, priorities, hosts, not_befores, limits, null, null);
end
$$;

-- The first step of a submission by COPY: return the lanes, and an id for each job. No ids if the first key is known:
-- then the other keys probably are, too, and `submit` is faster.
create or replace function reserve(
  runs text[], kinds text[], partitions text[], jobs int, first_lane int, first_digest bytea,
  out families int[], out lanes int[], out ids bigint[]
) language plpgsql
set search_path from current set jit = off set enable_seqscan = off
as $$
declare
  numbers constant regclass := pg_get_serial_sequence('job', 'id');  -- looked up once, not for each job
begin
  select l.families, l.lanes into families, lanes from lanes_of(runs, kinds, partitions) l;
  if not exists (select from job j where j.family = families[first_lane] and j.digest = first_digest) then
    ids := array(select nextval(numbers) from generate_series(1, jobs));
  end if;
end
$$;

-- The last step: count the new jobs of each lane in `tally`.
create or replace function note_added(lane_ids int[], added int[]) returns void language plpgsql
set search_path from current set jit = off set plan_cache_mode = force_generic_plan
as $$
begin
  insert into tally
    select lane_ids, added, z.none, z.none, z.none from (select array_fill(0, array[cardinality(lane_ids)]) as none) z;
end
$$;
