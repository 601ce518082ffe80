-- What lies on a shelf, by name: all of it, or what has one of these names; and what time it is.
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

-- Write notes, each where its version is the one that is there: '' for none. A null takes the note away.
-- Returns the new versions in the order given, '' for what was taken away and null where another was faster.
create or replace function write_notes(on_shelf text, names text[], versions text[], contents json[])
returns text[] language plpgsql
set search_path from current set jit = off set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
declare
  answers text[] := array_fill(null::text, array[cardinality(names)]);
  given record;
  made text;
begin
  -- By name, so that two who write the same notes never wait for each other in a circle.
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
