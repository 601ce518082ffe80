"""`longshore keys`: make, list and revoke the API keys of the server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.server.auth.keys import KeyStore


def keys(
    action: Annotated[str, typer.Argument(metavar="add|list|revoke", help="The action.")],
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A name for people; for revoke, also an id.", show_default=False),
    ] = None,
    scope: Annotated[
        str | None,
        typer.Option(metavar="S,…", help="The rights of the key: submit, work, read, admin.", show_default=False),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="R,…", help="Only these runs exist for the key.", show_default=False)
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="K,…", help="Only these kinds exist for the key.", show_default=False)
    ] = None,
    json: options.Json = False,
    debug: options.Debug = None,
) -> None:
    """Make, list or revoke the keys of the server that 'longshore serve' runs from this folder.

    'longshore keys add NAME --scope work' prints a new key once; only its hash is stored. A worker needs the scope
    work, which also shows it the jobs; for records and the page it needs read. A running server takes a change at once.
    """
    from longshore.server.auth.keys import KeyStore
    from longshore.settings import resolve

    store = KeyStore.in_folder(Path(resolve({"debug": debug}).data_folder))
    match action:
        case "add":
            _add(store, _given(name, "add"), scope, _names(run), _names(kind), json)
        case "list":
            _list(store, json)
        case "revoke":
            _revoke(store, _given(name, "revoke"))
        case _:
            raise UsageError(f"longshore keys takes add, list or revoke, not '{action}'.")


def _given(name: str | None, action: str) -> str:
    if not name:
        raise UsageError(f"longshore keys {action} needs a name: longshore keys {action} NAME")
    return name


def _names(given: str | None) -> list[str] | None:
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def _add(
    store: KeyStore, name: str, scope: str | None, runs: list[str] | None, kinds: list[str] | None, as_json: bool
) -> None:
    from longshore.clock import SystemClock
    from longshore.server.auth.keys import Scope
    from longshore.ui.output import note, write, write_json

    known = [each.value for each in Scope]
    scopes = _names(scope) or []
    if not scopes or not set(scopes) <= set(known):
        raise UsageError(f"--scope takes one or more of: {', '.join(known)}. A worker needs --scope work.")
    key = store.add(name, map(Scope, scopes), SystemClock().now(), runs=runs, kinds=kinds)
    if as_json:
        write_json({"name": name, "key": key, "scopes": scopes})
        return
    write(key)
    note("This is the key. It is shown only now: give it to its user as LONGSHORE_API_KEY.")


def _list(store: KeyStore, as_json: bool) -> None:
    from longshore.ui.output import write, write_json
    from longshore.ui.tables import write_table

    columns = ("id", "name", "scopes", "runs", "kinds", "state")
    rows = [
        (
            key.id,
            key.name,
            ",".join(key.scopes),
            "all" if key.runs is None else ",".join(key.runs),
            "all" if key.kinds is None else ",".join(key.kinds),
            "valid" if key.revoked_at is None else "revoked",
        )
        for key in store.all()
    ]
    if as_json:
        write_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif not rows:
        write("There are no keys yet: longshore keys add NAME --scope work")
    else:
        write_table(columns, rows, keep=("id", "name"))


def _revoke(store: KeyStore, name: str) -> None:
    from longshore.clock import SystemClock
    from longshore.ui.output import write

    key = store.revoke(name, SystemClock().now())
    write(f"The key '{key.name}' ({key.id}) is revoked.")
