"""`tellback turns`, `tellback outbox`: what users are owed, and what is on its way to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tellback.cli.common import TURNS, JsonOption, TeamOption, UrlOption, client, show

if TYPE_CHECKING:
    from tellback.state.outbox import Delivery, Place
    from tellback.state.turns import TurnView

LISTED: Final = 1_024_000  # the newest 1,000 turns of each of the most shards that a team can have
UNDELIVERED: Final = ("opened_at", "channel", "conversation", "kind", "status", "error", "turn")

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
    late: Annotated[
        bool,
        typer.Option(
            "--late",
            help="Only turns whose answer came after the fallback was out: how late, and what became of it. They are "
            "looked for among the newest 1,000 turns of each shard.",
        ),
    ] = False,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """The newest turns, or those that are open; `overdue` is in seconds past the deadline, `late` after the fallback.

    `delivery` is what is known of the first answer: waiting, sending, delivered, ambiguous, dead, or dropped: its
    conversation had more deliveries than it holds. `late delivery` is what is known of a late one, which may also be
    dropped since it was stale.
    """
    from tellback.state.turns import Turns

    with client(redis_url, team) as tb:
        database = tb.context.database
        store, now = Turns(database, tb.context.layout), database.now_ms()
        if host is not None:
            found = store.handed_to(host, limit)
        else:
            found = store.open_now(limit) if open_ or overdue else store.newest(LISTED if late else limit)
    rows = [_turn_row(turn, now) for turn in found]
    if overdue:
        rows = [row for row in rows if row["overdue"] is not None]
    if late:
        rows = [row for row in rows if row["late"] is not None][-limit:]
    times = ("late", "late_delivery") if late else ("overdue", "delivery")
    columns = ("opened_at", "state", "channel", "conversation", *times, "id")
    show(rows, as_json=as_json, columns=columns, spare=(times[1], "channel"), title="Turns")


def outbox(
    channel: Annotated[str | None, typer.Argument(help="The channel; without one, every channel.")] = None,
    *,
    undelivered: Annotated[
        bool,
        typer.Option(
            "--undelivered",
            help="Instead: what is out of the outbox and did not surely arrive, dead, ambiguous or dropped for "
            "want of room, of the newest 1,000 turns of each shard.",
        ),
    ] = False,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Deliveries that are not settled, in order within each conversation.

    `status` is waiting, taken (by a transport), or ambiguous: it may have been sent, and holds its conversation for
    `TELLBACK_OUTBOX_HOLD`.
    """
    from tellback.client.outbox import open_outbox
    from tellback.state.turns import Turns

    with client(redis_url, team) as tb:
        if undelivered:
            turns = Turns(tb.context.database, tb.context.layout).newest(LISTED)
            lost = [row for turn in turns if channel in {None, turn.channel} for row in _undelivered_rows(turn)]
            show(lost[-limit:], as_json=as_json, columns=UNDELIVERED, title="Undelivered")
            return
        store = open_outbox(tb.context)
        channels = [channel] if channel else store.channels()
        found = [item for name in channels for item in store.pending(name, limit)][:limit]
    rows = [_delivery_row(place, ready_at, delivery) for place, ready_at, delivery in found]
    columns = ("at", "channel", "conversation", "kind", "status", "attempt", "ready_at", "text")
    show(rows, as_json=as_json, columns=columns, spare=("attempt", "ready_at", "channel"), title="Outbox")


def _turn_row(turn: TurnView, now: int) -> dict[str, Any]:
    import msgspec

    past = turn.is_open and turn.deadline is not None and turn.deadline < now
    overdue = round((now - turn.deadline) / 1000, 1) if past and turn.deadline is not None else None
    answered, closed = turn.late_at, turn.closed_at
    late = None if answered is None else round((answered - (closed or answered)) / 1000, 1)
    return {**msgspec.to_builtins(turn), "overdue": overdue, "late": late}


def _undelivered_rows(turn: TurnView) -> list[dict[str, Any]]:
    import msgspec

    found: list[dict[str, Any]] = []
    for kind, status, outcome in (
        ("fallback" if turn.state == "fallback" else "answer", turn.delivery, turn.outcome),
        ("late", turn.late_delivery, turn.late_outcome),
    ):
        if status in {"dead", "ambiguous"} or (status == "dropped" and outcome):  # a stale answer was never in it
            error = msgspec.json.decode(outcome).get("error") if outcome else None
            found.append({
                "opened_at": turn.opened_at,
                "channel": turn.channel,
                "conversation": turn.conversation,
                "turn": turn.id,
                "kind": kind,
                "status": status,
                "error": error,
            })  # fmt: skip
    return found


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
