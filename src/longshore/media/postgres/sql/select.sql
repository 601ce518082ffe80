-- Find the selected jobs, and read them.
--
-- Each state is searched in its own tables: pending jobs in ready and delayed, claimed jobs in the batches, finished
-- jobs in done. So no search skips over jobs in other states. Statements are assembled from the conditions of the
-- selection. Their arguments are always $1 the families, $2 the lanes, $3 the pattern of an error, $4 an age in
-- seconds, $5 the id after which the page begins, $6 the size of the page, and $7 an argument that depends on the
-- statement.

-- Return pending jobs of these families and lanes (null is all), oldest first: the first `most` of them after `after`.
-- No index orders them by age alone (each submission would pay for it), so this reads all pending jobs.
create or replace function waiting_ids(families int[], lanes int[], after bigint, most int) returns setof bigint
language sql stable
set search_path from current set jit = off set enable_indexscan = off set enable_bitmapscan = off
as $$
  select w.job
  from (select job, family, lane from ready union all select job, family, lane from delayed) w
  where w.job > after and (families is null or w.family = any (families)) and (lanes is null or w.lane = any (lanes))
  order by w.job limit most
$$;

-- Return a page of pending jobs. Usually they are near, so the next ids are searched first, and all pending jobs only
-- if the page is not full then. `narrow` and `checks` are conditions on a job j.
create or replace function pending_ids(
  narrow text, checks text, families int[], lanes int[], error_like text, older_than float8, after bigint, page int
) returns bigint[] language plpgsql stable
set search_path from current set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
as $$
declare
  reach constant bigint := after + 10 * page::bigint;
  found bigint[];
  further bigint[];
begin
  execute 'select array(select j.id from job j where j.id > $5 and j.id <= $7' || narrow
    || ' and not exists (select from done d where d.job = j.id and d.job > $5 and d.job <= $7)'
    || ' and j.id not in (select unnest(b.jobs) from batch b)' || checks || ' order by j.id limit $6)'
    into found using families, lanes, error_like, older_than, after, page, reach;
  if cardinality(found) >= page then
    return found;
  end if;
  if checks = '' then
    further := array(select waiting_ids(families, lanes, reach, page - cardinality(found)));
  else
    execute 'select array(select w.id from waiting_ids($1, $2, $5, null) w (id)'
      || ' cross join lateral (select from job j where j.id = w.id' || checks || ' limit 1) k order by w.id limit $6)'
      into further using families, lanes, error_like, older_than, reach, page - cardinality(found);
  end if;
  return found || further;
end
$$;

-- Return the ids of a page of the selected jobs, oldest first.
create or replace function selected_ids(
  wanted_run text, ids bigint[], wanted_kinds text[], wanted_partitions text[], states text[], error_like text,
  older_than float8, after bigint, page int
) returns setof bigint language plpgsql stable
set search_path from current set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
as $$
declare
  small constant int := 1000;  -- a run with at most this many jobs is read completely
  families int[];              -- null is all
  lanes int[];                 -- the same
  start bigint := after;
  narrow text := '';
  checks text := '';
  of_done text;
  found bigint[] := '{}';
  part bigint[];
begin
  if wanted_run is not null or wanted_kinds is not null then
    families := array(
      select f.id from family f
      where (wanted_run is null or f.run = wanted_run) and (wanted_kinds is null or f.kind = any (wanted_kinds)));
    start := greatest(after, (select min(f.since) from family f where f.id = any (families)));
    narrow := ' and j.family = any ($1)';
    -- Without a list of ids, an index alone can answer this.
    if ids is null and not exists (
      select from unnest(families) f (id)
      cross join lateral (select from job j where j.family = f.id order by j.digest limit small + 1) s
      offset small) then
      ids := array(select j.id from job j where j.family = any (families));
    end if;
  end if;
  if wanted_partitions is not null then
    lanes := array(
      select l.id from lane l
      where l.partition = any (wanted_partitions) and (families is null or l.family = any (families)));
    narrow := ' and j.lane = any ($2)';
  end if;
  if families = '{}' or lanes = '{}' then
    return;
  end if;
  if error_like is not null then
    checks := $c$ and (j.epoch > 0 or j.failure is not null) and exists (
      select from (select coalesce(
        (select a.failure from attempt a where a.job = j.id order by a.epoch desc limit 1), j.failure) as failure) k
      -- A job that was only given back has an epoch and no failure: no pattern selects it, not even *.
      where k.failure is not null and (
        lower(k.failure ->> 'error_type') ~ $3 or lower(k.failure ->> 'message') ~ $3
        or lower(coalesce(k.failure ->> 'exception', '')) ~ $3
        or lower(regexp_replace(coalesce(k.failure ->> 'exception', ''), '^.*\.', '')) ~ $3))$c$;
    -- A completed job has no failure.
    states := array_remove(coalesce(states, '{pending,claimed,failed,cancelled}'), 'completed');
  end if;
  of_done := checks;
  if older_than is not null then
    checks := checks || ' and j.submitted_at <= clock_timestamp() - make_interval(secs => $4)';
    of_done := of_done
      || ' and coalesce(d.settled_at, j.submitted_at) <= clock_timestamp() - make_interval(secs => $4)';
  end if;

  if ids is not null or states is null then
    return query execute 'select j.id from job j left join done d on d.job = j.id where j.id > $5' || narrow || of_done
      || case when ids is not null then ' and j.id = any ($7)' else '' end
      || case when states is not null then $c$ and coalesce(d.state::text, case when j.id in (
           select unnest(b.jobs) from batch b) then 'claimed' else 'pending' end) = any ($8)$c$ else '' end
      || ' order by j.id limit $6'
      using families, lanes, error_like, older_than, start, page, ids, states;
    return;
  end if;

  if 'pending' = any (states) then
    found := pending_ids(narrow, checks, families, lanes, error_like, older_than, start, page);
  end if;
  if 'claimed' = any (states) then
    execute 'select array(select h.job from batch b cross join lateral unnest(b.jobs) h (job)'
      || ' cross join lateral (select from job j where j.id = h.job' || narrow || checks || ' limit 1) k'
      || ' where h.job > $5 order by h.job limit $6)'
      into part using families, lanes, error_like, older_than, start, page;
    found := found || part;
  end if;
  if states && '{completed,failed,cancelled}' then
    execute 'select array(select d.job from done d'
      || case when narrow || of_done <> '' then
           ' cross join lateral (select from job j where j.id = d.job' || narrow || of_done || ' limit 1) k' else '' end
      || ' where d.job > $5 and d.state::text = any ($7)'
      || case when 'completed' = any (states) then '' else $c$ and d.state <> 'completed'$c$ end
      || ' order by d.job limit $6)'
      into part using families, lanes, error_like, older_than, start, page, states;
    found := found || part;
  end if;
  return query select f.id from unnest(found) f (id) order by f.id limit page;
end
$$;

-- Return a page of the selected jobs, oldest first.
create or replace function selected(
  wanted_run text, ids bigint[], wanted_kinds text[], wanted_partitions text[], states text[], error_like text,
  older_than float8, after bigint, page int
) returns setof known language plpgsql stable
set search_path from current set jit = off
as $$
begin
  -- Planned again for the ids that were found.
  return query execute 'select k.* from known k where k.id = any ($1) order by k.id'
    using array(select selected_ids(
      wanted_run, ids, wanted_kinds, wanted_partitions, states, error_like, older_than, after, page));
end
$$;
