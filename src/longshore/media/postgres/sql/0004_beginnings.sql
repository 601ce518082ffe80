-- A lower bound of a family's job ids: each of its jobs has a greater id. So a search for a run's jobs skips all jobs
-- that were submitted before it. 0 if unknown.
alter table family add column since bigint not null default 0;
