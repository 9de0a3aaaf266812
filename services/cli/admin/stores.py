"""The commands `towpath storage`: the stores of the blobs, and the move from one store to another."""

from typing import Annotated, Any

import typer
from rich.filesize import decimal
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1.store_service_pb2 import Copy, Store

from services.cli.admin.records import store_record
from services.cli.connection import Administration, Target
from services.cli.options import Data, Json, Server, Yes, confirm, rate_option
from services.cli.output import show_record, show_records, show_removal

app = typer.Typer(help="Add and remove stores, and move all objects from one to another.", no_args_is_help=True)

_COLUMNS = ("name", "url", "primary", "objects", "bytes", "lacking", "copy_of", "problem", "oldest_check")
_INTERRUPTED = 130

Name = Annotated[str, typer.Argument(metavar="NAME", help="The store's name.", show_default=False)]


@app.command("add")
def add_store(
    name: Name,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="Where it is, as in TOWPATH_STORAGE_URL.", show_default=False)
    ],
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Add an empty store, once every storage service has credentials for it. Nothing is written to it yet."""
    response = Target(data, server).ask(lambda admin: admin.CreateStore, pb.CreateStoreRequest(name=name, url=url))
    _show(response.store, as_json=as_json)


@app.command("list")
def list_stores(data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List all stores by name, what they have, what they lack that another has, and their oldest check of bytes."""
    response = Target(data, server).ask(lambda admin: admin.ListStores, pb.ListStoresRequest())
    show_records(map(store_record if as_json else _shown, response.stores), _COLUMNS, as_json=as_json)


@app.command("copy")
def copy_store(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The store to read.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TO", help="The store to fill.", show_default=False)],
    parallel: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=64,
            help="How many objects are on their way at once; by default as the service likes.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[int, rate_option(shown_default="0")] = 0,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Start the copy, and do not wait for its end.")] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Make a store a copy of another, and show how far it has come until it lacks nothing.

    From now on what is written goes to the primary and to the copy; what the copy lacks comes in the background. The
    storage services do this, also when this command ends, and go on after a restart. The same command again shows it
    again, with the --parallel and --rate that are then given.
    """
    request = pb.StartCopyRequest(from_store=source, to_store=target, parallel=parallel or 0, bytes_per_second=rate)
    started = False

    async def work(admin: Administration) -> Store:
        nonlocal started
        store = (await admin.call(admin.stub.StartCopy, request)).store
        started = True
        return store if no_wait else await _follow(admin, target, hidden=as_json)

    try:
        store = Target(data, server).run(work)
    except KeyboardInterrupt:
        if not started:
            raise
        typer.echo(f"The copy goes on; {_ways(target)}.", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    if no_wait or as_json:
        _show(store, as_json=as_json)
    if as_json:
        return
    if store.lacking_count:
        typer.echo(f"The copy goes on in the background; {_ways(target)}.")
        return
    typer.echo(f"{target} lacks nothing: it has {_amount(store.object_count, store.object_bytes)}.")
    typer.echo(f"It stays a copy. `towpath storage set-primary {target}` makes it the primary.")


@app.command("stop-copy")
def stop_copy(name: Name, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """Let a store be no copy any more; it keeps what it has, and a later `copy` goes on from there."""
    response = Target(data, server).ask(lambda admin: admin.StopCopy, pb.StopCopyRequest(name=name))
    _show(response.store, as_json=as_json)


@app.command("set-primary")
def set_primary(name: Name, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """Let what is written from now on go to this store, which must lack nothing. The other keeps what it has."""
    response = Target(data, server).ask(lambda admin: admin.SetPrimaryStore, pb.SetPrimaryStoreRequest(name=name))
    _show(response.store, as_json=as_json)


@app.command("remove")
def remove_store(name: Name, yes: Yes = False, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """Forget a store that nothing needs any more. Its bytes stay where they are, and are yours to delete."""
    confirm(f"Forget the store {name}?", yes=yes)
    Target(data, server).ask(lambda admin: admin.DeleteStore, pb.DeleteStoreRequest(name=name))
    show_removal(f"the store {name}", {"name": name}, as_json=as_json)
    if not as_json:
        typer.echo("If TOWPATH_STORAGE_URL names it, set that to the URL of the primary before the next restart.")


async def _follow(admin: Administration, name: str, *, hidden: bool) -> Store:
    # Import it here: no other command needs it, and its import is slow.
    from services.cli.admin.watch_copy import copy_bar, watch

    async def ask() -> list[Store]:
        return list((await admin.call(admin.stub.ListStores, pb.ListStoresRequest())).stores)

    with copy_bar(hidden=hidden) as bar:
        return await watch(ask, name, bar)


def _show(store: Store, *, as_json: bool) -> None:
    show_record(store_record(store) if as_json else _shown(store), as_json=as_json)


def _shown(store: Store) -> dict[str, Any]:
    """Return the fields of a store in the output for people."""
    shown = {
        "name": store.name,
        "url": store_record(store).get("url", "(TOWPATH_STORAGE_URL)"),
        "primary": store.is_primary,
        "objects": store.object_count,
        "bytes": decimal(store.object_bytes),
        "lacking": _amount(store.lacking_count, store.lacking_bytes) if store.lacking_count else "nothing",
    }
    if store.HasField("copy"):
        shown["copy_of"] = _copy(store.copy)
    if store.copy.problem:
        shown["problem"] = store.copy.problem
    if store.HasField("oldest_check_at"):
        shown["oldest_check"] = f"{store.oldest_check_at.ToDatetime():%Y-%m-%d}"
    return shown


def _copy(copy: Copy) -> str:
    limit = f", at most {decimal(copy.bytes_per_second)}/s" if copy.bytes_per_second else ""
    return f"{copy.from_store} ({copy.parallel} at once{limit})"


def _amount(count: int, size: int) -> str:
    return f"{count} {'object' if count == 1 else 'objects'}, {decimal(size)}"


def _ways(name: str) -> str:
    return f"`towpath storage list` tells how far it is, `towpath storage stop-copy {name}` stops it"
