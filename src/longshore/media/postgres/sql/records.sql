-- The records that handlers emitted: a row for each job, so that what a later attempt found takes the place of what an
-- earlier one did, whole. The view `record` shows what counts, a row for each record.
--
-- As json and in columns of its own, never looked into here: jsonb, and every operator, refuses \u0000, which pages do
-- contain.
create table if not exists emitted (
    run text not null,
    kind text not null,
    key text not null,
    job text not null,
    epoch bigint not null,
    revision int not null,
    settled boolean not null default false,
    kinds text[] not null,
    data json[] not null,
    rejected json not null,
    written_at timestamptz not null default clock_timestamp(),
    primary key (run, kind, key, job)
);

-- Serves the marks, and the question which attempts have none.
create index if not exists emitted_unsettled on emitted (job) where not settled;

-- Of a job that was removed and submitted again, the later one counts.
create or replace view record as
select e.run, e.kind as job_kind, e.key, e.epoch, (r.n - 1)::int as n, r.kind, r.data
from emitted e, unnest(e.kinds, e.data) with ordinality as r (kind, data, n)
where e.settled
    and not exists (
        select from emitted l
        where l.run = e.run and l.kind = e.kind and l.key = e.key and l.settled and l.written_at > e.written_at
    );

-- Keep the records of attempts, and mark others as settled; all or nothing, and safe to repeat. An attempt older than
-- the one that is there changes nothing. The records of all attempts come in one row; `lasts` says where each one's end.
-- A mark may be for an attempt of the same call.
create or replace function keep_records(
    runs text[], kinds_ text[], keys text[], jobs text[], epochs bigint[], revisions int[], rejected_ json[], lasts int[],
    record_kinds text[], record_data json[], settled_jobs text[], settled_epochs bigint[]
) returns void language plpgsql set search_path from current as $$
begin
    insert into emitted (run, kind, key, job, epoch, revision, rejected, kinds, data)
    select a.run, a.kind, a.key, a.job, a.epoch, a.revision, a.rejected,
        record_kinds[a.first : a.last], record_data[a.first : a.last]
    from (
        select u.*, lag(u.last, 1, 0) over (order by u.n) + 1 as first
        from unnest(runs, kinds_, keys, jobs, epochs, revisions, rejected_, lasts)
            with ordinality as u (run, kind, key, job, epoch, revision, rejected, last, n)
    ) a
    -- In one order for all, so that two who write the same jobs wait for one another instead of both.
    order by a.run, a.kind, a.key, a.job
    on conflict (run, kind, key, job) do update set
        epoch = excluded.epoch,
        revision = excluded.revision,
        kinds = excluded.kinds,
        data = excluded.data,
        rejected = excluded.rejected,
        settled = emitted.settled and emitted.epoch = excluded.epoch,
        written_at = clock_timestamp()
    where (excluded.epoch, excluded.revision) >= (emitted.epoch, emitted.revision);
    update emitted set settled = true
    from unnest(settled_jobs, settled_epochs) as mark (job, epoch)
    where emitted.job = mark.job and emitted.epoch = mark.epoch and not emitted.settled;
end
$$;
