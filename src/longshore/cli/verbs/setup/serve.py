"""`longshore serve`: offer a queue over HTTP."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from longshore.cli import options

_OBJECTS_PER_COLLECTION = 5_000


def serve(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Listen on this address; 0.0.0.0 is all networks of the machine.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Listen on this port; 0 is a free one.")
    ] = 8000,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Serve over TLS with this certificate.", show_default=False)
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The private key of the certificate.", show_default=False)
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A host name under which the server is reached; repeatable.", show_default=False
        ),
    ] = None,
    read_only: Annotated[
        bool | None, typer.Option("--read-only", metavar="", help=options.meaning("read_only"), show_default=False)
    ] = None,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Offer the queue over HTTP: to workers that have a URL and a key, in any language, on any machine.

    The first start makes an admin key. 'longshore keys add' makes a key for each worker or team. Ctrl-C stops the
    server; no job is lost, and workers go on when it is started again.
    """
    from longshore.observe.logs import configure
    from longshore.runs.open_queue import check_shared, check_there
    from longshore.server.needed import check_installed
    from longshore.settings import resolve
    from longshore.ui.output import note, write
    from longshore.url import mask_url

    settings = resolve({"queue": queue, "read_only": read_only, "debug": debug})
    configure(format=settings.log_format, level="debug" if settings.debug else "warning")  # type: ignore[arg-type]
    check_shared(settings)
    check_installed()
    if settings.read_only:
        asyncio.run(check_there(settings))
    from longshore.clock import SystemClock
    from longshore.server.auth.keys import KeyStore, admin_key_made, check_keys_made
    from longshore.server.process import Listening, event_loop
    from longshore.server.process import serve as run_server
    from longshore.server.traces.trace_store import TraceStore

    listening = Listening(host, port, tls_certificate, tls_key, tuple(allowed_host or ()))
    folder = Path(settings.data_folder)
    keys = KeyStore.in_folder(folder)
    if not listening.is_local:
        check_keys_made(keys, host)
    traces = TraceStore(folder, records_database=settings.records_database, bundles=settings.bundles)
    made = admin_key_made(keys, SystemClock().now())

    def ready(url: str, login: str | None) -> None:
        write(f"Serving {mask_url(settings.queue)} at {url}/api. Ctrl-C stops.")
        if login is not None:
            write(f"The page: {login} (this link works once, within 15 minutes; later, log in with a key)")
        if made is not None:
            write(f"An admin key was made. It is in {made}; only you can read that file.")
        if settings.read_only:
            write("The server is read-only: it shows the queue, and refuses every request that writes.")
        else:
            write("A worker needs a key of its own: longshore keys add NAME --scope work. Then, on its machine:")
            write(f"  LONGSHORE_API_KEY=… longshore work HANDLERS.py --queue {url}/api")
            write("  (without HANDLERS.py if this queue carries them: longshore publish HANDLERS.py)")
        if listening.scheme == "http" and not listening.is_local:
            note("Without TLS everyone on the network can read the keys: give --tls-certificate and --tls-key.")
        sys.stdout.flush()  # programs that start a server wait for these lines

    # Imported modules stay, and requests leave no reference cycles: frequent garbage collections find nothing.
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(run_server(settings.queue, keys, traces, listening, ready, read_only=settings.read_only))
