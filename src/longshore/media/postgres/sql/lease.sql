-- Extend all leases of a worker in one write, and return the jobs that it holds. `words`, if given, is the worker's
-- description, and registers it as present.
create or replace function renew(worker_incarnation text, worker_label text, lease float8, words json)
returns table (job bigint, epoch int) language plpgsql
set search_path from current set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  holder int;
begin
  insert into worker as w (incarnation, label, deadline, about)
    values (worker_incarnation, worker_label, clock_timestamp() + make_interval(secs => lease), words)
    on conflict (incarnation) do update set deadline = excluded.deadline, about = coalesce(excluded.about, w.about)
    returning w.id into holder;
  return query select u.job, u.epoch from batch b cross join lateral unnest(b.jobs, b.epochs) u (job, epoch)
    where b.worker = holder order by b.id, u.job;
end
$$;

-- Remove a worker from the registry; it keeps its leases.
create or replace function sign_out(worker_incarnation text) returns void language sql
set search_path from current set jit = off set enable_seqscan = off
as $$
  update worker set about = null where incarnation = worker_incarnation
$$;

-- Return the registered workers that are alive.
create or replace function present() returns table (label text, incarnation text, about json) language sql stable
set search_path from current set jit = off
as $$
  select w.label, w.incarnation, w.about from worker w where w.about is not null and w.deadline >= clock_timestamp()
  order by w.label, w.incarnation
$$;

-- Take back the jobs of silent workers. A worker that claims or renews at this moment has its row locked and is alive.
create or replace function reap(out returned int, out failed int) language plpgsql
set search_path from current set jit = off set enable_seqscan = off
as $$
declare
  w record;
  b record;
  n int;
  ended record;
  held_on bool;
begin
  returned := 0;
  failed := 0;
  for w in select id, label from worker where deadline < clock_timestamp() order by id for update skip locked loop
    for b in select id, jobs, epochs from batch where worker = w.id order by id for update skip locked loop
      n := cardinality(b.jobs);
      select * into ended from end_attempts(
        b.jobs, b.epochs, w.label, array_fill(true, array[n]),
        array_fill(json_build_object(
          'error_type', 'crash', 'message', format('worker %s went silent and its lease expired', w.label),
          'exception', 'longshore.errors.CrashedError'), array[n]),
        array_fill(true, array[n]), array_fill(0::float8, array[n]), array_fill(null::int, array[n]),
        array_fill(null::float8, array[n]));
      returned := returned + ended.returned;
      failed := failed + ended.failed;
      delete from batch where id = b.id;
    end loop;
    -- A batch that another transaction is settling at this moment is kept, and so is its worker.
    select exists (select from batch where worker = w.id) into held_on;
    if not held_on then
      delete from worker where id = w.id;
    end if;
  end loop;
end
$$;
