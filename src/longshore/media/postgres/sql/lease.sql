-- Extend all leases of a worker in one write, and say what it holds.
create or replace function renew(worker_incarnation text, worker_label text, lease float8)
returns table (job bigint, epoch int) language plpgsql
set search_path from current set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  holder int;
begin
  insert into worker as w (incarnation, label, deadline)
    values (worker_incarnation, worker_label, clock_timestamp() + make_interval(secs => lease))
    on conflict (incarnation) do update set deadline = excluded.deadline returning w.id into holder;
  return query select u.job, u.epoch from batch b cross join lateral unnest(b.jobs, b.epochs) u (job, epoch)
    where b.worker = holder order by b.id, u.job;
end
$$;

-- Bring back what silent workers held. A worker that claims or renews at this moment has its row locked and is alive.
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
    -- A batch that somebody is settling at this moment is left, and its worker with it.
    select exists (select from batch where worker = w.id) into held_on;
    if not held_on then
      delete from worker where id = w.id;
    end if;
  end loop;
end
$$;
