-- Return the entries of a namespace (`shelf`), ordered by name: all, or only those with these names; and the time.
create or replace function read_notes(
  wanted_shelf text, wanted_names text[], out at float8, out names text[], out versions text[], out contents json[]
) language plpgsql
set search_path from current set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
begin
  at := date_part('epoch', clock_timestamp());
  if wanted_names is null then
    select array_agg(n.name), array_agg(n.version::text), array_agg(n.value) into names, versions, contents
      from (select * from note where shelf = wanted_shelf order by name) n;
  else
    select array_agg(n.name), array_agg(n.version::text), array_agg(n.value) into names, versions, contents
      from (select * from note where shelf = wanted_shelf and name = any (wanted_names) order by name) n;
  end if;
end
$$;

-- Compare-and-swap entries: write each one whose version is the stored one ('' if there is none). A null value deletes
-- it. Returns the new versions in the given order: '' for a deleted entry, null if the stored version was another one.
create or replace function write_notes(on_shelf text, names text[], versions text[], contents json[])
returns text[] language plpgsql
set search_path from current set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
declare
  answers text[] := array_fill(null::text, array[cardinality(names)]);
  given record;
  made text;
begin
  -- Ordered by name, so that two transactions that write the same entries cannot deadlock.
  for given in
    select u.* from unnest(names, versions, contents) with ordinality u (name, version, value, position) order by 1
  loop
    made := null;
    if given.version <> '' and given.value is not null then
      update note n set value = given.value, version = default
        where n.shelf = on_shelf and n.name = given.name and n.version::text = given.version
        returning n.version::text into made;
    elsif given.version <> '' then
      delete from note n where n.shelf = on_shelf and n.name = given.name and n.version::text = given.version
        returning '' into made;
    elsif given.value is not null then
      insert into note as n (shelf, name, value) values (on_shelf, given.name, given.value)
        on conflict do nothing returning n.version::text into made;
    elsif not exists (select from note n where n.shelf = on_shelf and n.name = given.name) then
      made := '';
    end if;
    answers[given.position] := made;
  end loop;
  return answers;
end
$$;
