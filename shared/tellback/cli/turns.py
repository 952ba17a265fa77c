"""`tellback turns`, `tellback outbox`: what users are owed, and what is on its way to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellback.cli.common import TURNS, JsonOption, TeamOption, UrlOption, client, show

if TYPE_CHECKING:
    from tellback.state.outbox import Delivery, Place
    from tellback.state.turns import TurnView

LimitOption = Annotated[int, typer.Option(help="Rows at most.", min=1, max=10_000)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("turns", rich_help_panel=TURNS)(turns)
    app.command("outbox", rich_help_panel=TURNS)(outbox)


def turns(
    *,
    open_: Annotated[
        bool, typer.Option("--open", help="Only turns whose user still waits, nearest deadline first.")
    ] = False,
    overdue: Annotated[bool, typer.Option("--overdue", help="Only open turns past their deadline.")] = False,
    host: Annotated[
        str | None, typer.Option("--host", help="Only open turns that were handed over to this host, and are with it.")
    ] = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """The newest turns, or those that are open. `overdue` is in seconds."""
    from tellback.state.turns import Turns

    with client(redis_url, team) as tb:
        database = tb.context.database
        store, now = Turns(database, tb.context.layout), database.now_ms()
        if host is not None:
            found = store.handed_to(host, limit)
        else:
            found = store.open_now(limit) if open_ or overdue else store.newest(limit)
    rows = [_turn_row(turn, now) for turn in found]
    if overdue:
        rows = [row for row in rows if row["overdue"] is not None]
    columns = ("opened_at", "state", "channel", "conversation", "overdue", "delivery", "id")
    show(rows, as_json=as_json, columns=columns, title="Turns")


def outbox(
    channel: Annotated[str | None, typer.Argument(help="The channel; without one, every channel.")] = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Deliveries that are not settled, in order within each conversation."""
    from tellback.client.outbox import open_outbox

    with client(redis_url, team) as tb:
        store = open_outbox(tb.context)
        channels = [channel] if channel else store.channels()
        found = [item for name in channels for item in store.pending(name, limit)][:limit]
    rows = [_delivery_row(place, ready_at, delivery) for place, ready_at, delivery in found]
    columns = ("at", "channel", "conversation", "kind", "status", "attempt", "ready_at", "text")
    show(rows, as_json=as_json, columns=columns, title="Outbox")


def _turn_row(turn: TurnView, now: int) -> dict[str, Any]:
    import msgspec

    late = turn.is_open and turn.deadline is not None and turn.deadline < now
    overdue = round((now - turn.deadline) / 1000, 1) if late and turn.deadline is not None else None
    return {**msgspec.to_builtins(turn), "overdue": overdue}


def _delivery_row(place: Place, ready_at: int, delivery: Delivery) -> dict[str, Any]:
    response = delivery.outgoing
    return {
        "at": delivery.at,
        "channel": place.channel,
        "conversation": place.conversation,
        "turn": delivery.turn,
        "idempotency_key": delivery.key,
        "kind": delivery.kind,
        "status": delivery.status,
        "attempt": delivery.attempt,
        "waits": delivery.waits,
        "ready_at": ready_at,
        "text": response.text,
        "voice": response.voice,
        "attachments": list(response.attachments),
    }
