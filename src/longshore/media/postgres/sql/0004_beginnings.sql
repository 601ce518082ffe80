-- Where a family begins: every job of it has a greater id. So who looks for a run's jobs steps over none that were
-- submitted before it. 0 where nobody took note.
alter table family add column since bigint not null default 0;
