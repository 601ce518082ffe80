"""A graph database that speaks Bolt, until its standard input ends. It is run with the packages of `bolt.lock`.

python bolt_server.py FOLDER HTTP_PORT BOLT_PORT PASSWORD
"""

import sys

import arcadedb_embedded


def main() -> None:
    folder, http_port, bolt_port, password = sys.argv[1:]
    server = arcadedb_embedded.create_server(
        root_path=folder,
        root_password=password,
        config={
            "host": "127.0.0.1",
            "http_port": int(http_port),
            "server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
            "bolt_port": int(bolt_port),
        },
    )
    server.start()
    server.create_database("filings")
    print("ready", flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
