#!/bin/bash
# Make the database on the first start, as the official image does, and run the server.
set -eu
data=/var/lib/postgresql/data
if ! test -s "$data/PG_VERSION"; then
  initdb --pgdata "$data" --username "$POSTGRES_USER" --pwfile <(printf '%s' "$POSTGRES_PASSWORD") --auth scram-sha-256 --encoding UTF8 --locale C.UTF-8
  echo "host all all all scram-sha-256" >> "$data/pg_hba.conf"
  printf "%s\n" "listen_addresses = '*'" "unix_socket_directories = '/tmp'" "max_connections = 200" >> "$data/postgresql.conf"
  echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$data" postgres
fi
exec postgres -D "$data"
