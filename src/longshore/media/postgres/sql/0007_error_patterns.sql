-- The error `*` selected jobs that never failed. The function is created again right after this; no table changes.
drop function if exists selected_ids;
