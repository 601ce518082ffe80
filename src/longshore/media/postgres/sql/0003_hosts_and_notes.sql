-- Claims by host, and shared state (`note`).

-- The number of a host: the first eight bytes of its name's SHA-256. Clients compute it, too.
create function host_number(host text) returns bigint language sql stable parallel safe
as $$
  select ('x' || encode(substring(sha256(convert_to(host, 'UTF8')) for 8), 'hex'))::bit(64)::bigint
$$;

-- Truncated and filled again, not recreated: so it keeps its privileges and has no dead rows.
create table ready_before as
  select r.family, r.lane, r.priority, r.epoch, r.job, host_number(j.host) as host
  from ready r join job j on j.id = r.job
  order by r.family, r.priority, host, r.job;
truncate ready;
drop index ready_to_claim;
drop index ready_to_claim_by_lane;
alter table ready add column host bigint not null;
insert into ready (family, lane, priority, epoch, job, host)
  select family, lane, priority, epoch, job, host from ready_before;
drop table ready_before;
-- A claim searches a line, finds its first priority, and steps from host to host: each step is one index descent.
create index ready_to_claim on ready (family, priority, host, job);
create index ready_to_claim_by_lane on ready (lane, priority, host, job);

alter table delayed add column host bigint not null default 0;
update delayed d set host = host_number(j.host) from job j where j.id = d.job;
alter table delayed alter column host drop default;

create table note (
  shelf    text collate "C" not null,
  name     text collate "C" not null,
  version  bigint generated always as identity,  -- one sequence for all entries: no version is ever reused
  value    json not null,
  primary key (shelf, name)
) with (
  -- Written and read several times a second; the fill factor leaves space for a new row version on the same page.
  fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0
);

-- Functions whose arguments or columns change; they are created again right after this. A new schema has none yet.
drop function if exists claim(text, text, float8, int, text, text[], text[], int[], int[], bigint[]);
drop function if exists pick_by_family(int[], int[], bigint[], int);
drop function if exists pick_by_lane(int[], int[], bigint[], int);
drop function if exists claimable(text, text[], text[]);
