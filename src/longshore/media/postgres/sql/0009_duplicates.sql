-- `settle` also returns how many follow-on jobs it left out; it is created again right after this.
drop function if exists settle(
  bigint[], text[], text[], bigint[], int[], int[], json[], float8[], text[], int[], json[], bigint[], int[], int[], bool[],
  json[], bool[], float8[], int[], float8[], text[], text[], text[], int[], int[], text[], json[], int[], text[], float8[],
  int[], json[], int[]);
