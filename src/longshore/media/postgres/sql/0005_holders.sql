-- A settlement must come from the holder of the job: `settle` has new arguments, and is created again right after this.
drop function if exists settle(
  bigint[], text[], bigint[], int[], json[], float8[], bigint[], int[], bool[], json[], bool[], float8[], int[], float8[],
  text[], text[], text[], int[], int[], text[], json[], int[], text[], float8[], int[], json[], int[]);
