-- The records that handlers emitted: one row per attempt. A queue that was restored from a backup gives the same epochs
-- out again, also lower ones than those stored here; so no attempt replaces another, and readers ask the queue. The view `record` shows the records of attempts that are marked as settled, one row per
-- record.
--
-- Stored as json and never parsed here: jsonb and all JSON operators refuse \u0000, which pages do contain.
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
    queue text not null default '',  -- the uuid of the queue; empty in rows of an earlier version
    primary key (run, kind, key, queue, job, epoch)
);

-- A table of an earlier version.
alter table emitted add column if not exists queue text not null default '';
alter table emitted drop constraint emitted_pkey, add primary key (run, kind, key, queue, job, epoch);
drop function if exists keep_records(
    text[], text[], text[], text[], bigint[], int[], json[], int[], text[], json[], text[], bigint[]);

-- Serves the marking of attempts as settled, and the search for unsettled attempts.
create index if not exists emitted_unsettled on emitted (job) where not settled;

-- If a job was pruned and submitted again, only the records of the later job are shown. If several attempts of a job are
-- marked, because the queue was restored from a backup, those of the highest epoch are shown; `longshore export` asks the
-- queue instead.
create or replace view record as
select e.run, e.kind as job_kind, e.key, e.epoch, (r.n - 1)::int as n, r.kind, r.data, e.queue
from emitted e, unnest(e.kinds, e.data) with ordinality as r (kind, data, n)
where e.settled
    and not exists (
        select from emitted l
        where l.run = e.run and l.kind = e.kind and l.key = e.key and l.queue = e.queue and l.settled
            and case when l.job = e.job then l.epoch > e.epoch else l.written_at > e.written_at end
    );

-- Write the records of attempts, and mark attempts as settled; atomic and safe to repeat. A revision older than the
-- stored one changes nothing. The records of all attempts come in one array; `lasts` has the last position of each.
-- An attempt may be written and marked in the same call.
create or replace function keep_records(
    runs text[], kinds_ text[], keys text[], queues text[], jobs text[], epochs bigint[], revisions int[],
    rejected_ json[], lasts int[],
    record_kinds text[], record_data json[], settled_queues text[], settled_jobs text[], settled_epochs bigint[]
) returns void language plpgsql set search_path from current as $$
begin
    insert into emitted (run, kind, key, queue, job, epoch, revision, rejected, kinds, data)
    select a.run, a.kind, a.key, a.queue, a.job, a.epoch, a.revision, a.rejected,
        record_kinds[a.first : a.last], record_data[a.first : a.last]
    from (
        select u.*, lag(u.last, 1, 0) over (order by u.n) + 1 as first
        from unnest(runs, kinds_, keys, queues, jobs, epochs, revisions, rejected_, lasts)
            with ordinality as u (run, kind, key, queue, job, epoch, revision, rejected, last, n)
    ) a
    -- Always in the same order, so that two transactions that write the same jobs cannot deadlock.
    order by a.run, a.kind, a.key, a.queue, a.job, a.epoch
    on conflict (run, kind, key, queue, job, epoch) do update set
        revision = excluded.revision,
        kinds = excluded.kinds,
        data = excluded.data,
        rejected = excluded.rejected,
        written_at = clock_timestamp()
    where excluded.revision >= emitted.revision;
    update emitted set settled = true
    from unnest(settled_queues, settled_jobs, settled_epochs) as mark (queue, job, epoch)
    where emitted.queue = mark.queue and emitted.job = mark.job and emitted.epoch = mark.epoch and not emitted.settled;
end
$$;
