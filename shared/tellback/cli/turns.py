"""`tellback turns` and `tellback outbox`: list turns that users wait for, and deliveries on their way to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tellback.cli.common import (
    LISTED,
    TURNS,
    JsonOption,
    TeamOption,
    UrlOption,
    given_id,
    given_text,
    listed_team,
    print_json,
    show_rows,
    text_option,
)
from tellback.errors import NotFound

if TYPE_CHECKING:
    from tellback.state.outbox import Delivery, OutboxQueue
    from tellback.state.turn_view import TurnView

_SAID_ABOVE: Final = frozenset({"turn", "channel", "conversation"})
"""Fields of a turn's events that `show` prints of the turn itself."""
MAX_LISTED: Final = 1_024_000  # the newest 1,000 turns of each of the most shards that a team can have
UNDELIVERED_STATES: Final = ("opened_at", "channel", "conversation", "kind", "status", "error", "turn")

HostOption = Annotated[
    str | None,
    text_option("Show only open turns handed over to this host and still with it.", "--host"),
]
LimitOption = Annotated[int, typer.Option(help="Maximum number of rows.", min=1, max=10_000)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(invoke_without_command=True)
    group.callback()(turns)
    group.command("show")(show)
    app.add_typer(group, name="turns", rich_help_panel=TURNS)
    app.command("outbox", rich_help_panel=TURNS)(outbox)


def turns(
    context: typer.Context,
    *,
    open_: Annotated[
        bool, typer.Option("--open", help="Show only turns without an answer, nearest deadline first.")
    ] = False,
    overdue: Annotated[bool, typer.Option("--overdue", help="Show only open turns past their deadline.")] = False,
    host: HostOption = None,
    late: Annotated[
        bool,
        typer.Option(
            "--late",
            help="Show only turns answered after their fallback, with the delay and outcome of the late answer. "
            "Searches the newest 1,000 turns of each shard.",
        ),
    ] = False,
    limit: LimitOption = LISTED,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """List the newest turns, or those that are open; use `show ID` for one turn in full.

    `overdue` is in seconds past the deadline, `late` in seconds after the fallback. `delivery` is the state of the
    first answer: waiting, sending, delivered, ambiguous, dead, or dropped because its conversation's queue was full.
    `late delivery` is the state of a late answer, which may also be dropped because it is stale.
    """
    from tellback.state.turns import Turns

    if context.invoked_subcommand is not None:
        _refuse_options(context, before=context.invoked_subcommand)
        return
    with listed_team(redis_url, team) as tb:
        database = tb.context.database
        store, now = Turns(database, tb.context.layout), database.now_ms()
        if host is not None:
            found = store.handed_over_to(host, limit)
        else:
            found = store.open_now(limit) if open_ or overdue else store.newest(MAX_LISTED if late else limit)
        rows = [_turn_row(turn, now) for turn in found]
        if overdue:
            rows = [row for row in rows if row["overdue"] is not None]
        if late:
            rows = [row for row in rows if row["late"] is not None][-limit:]
        times = ("late", "late_delivery") if late else ("overdue", "delivery")
        columns = ("opened_at", "state", "channel", "conversation", *times, "id")
        show_rows(rows, as_json=as_json, columns=columns, spare=(times[1], "channel"), title="Turns", limit=limit)


def _refuse_options(context: typer.Context, *, before: str) -> None:
    """Refuse options of the listing: `turns --team other show ID` would show a turn of the default team."""
    sources = [context.get_parameter_source(name) for name in context.params]
    if any(source is not None and source.name == "COMMANDLINE" for source in sources):
        context.fail(f"These options list turns; write those of `{before}` after it.")


def show(
    turn_id: Annotated[
        str, typer.Argument(parser=given_id, metavar="turn_id", help="Id of the turn, from `tellback turns`.")
    ],
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Show one turn: its text, state, times and deliveries, and what happened to it, oldest first."""
    from tellback.cli.history import history_row
    from tellback.cli.listing import show_fields
    from tellback.state.readable import reading
    from tellback.state.turns import Turns

    with listed_team(redis_url, team) as tb:
        database = tb.context.database
        store, now = Turns(database, tb.context.layout), database.now_ms()
        found = None
        if store.is_turn_id(turn_id):
            with reading(store.shard(turn_id).key("turn", turn_id)):
                [found] = store.load([turn_id], text=True)
        if found is None:
            raise NotFound(f"no turn {turn_id}; `tellback turns` shows what there is")
        events = [entry for entry in tb.history(found.session) if entry.get("turn") == turn_id]
        turn: dict[str, Any] = _turn_row(found, now) | {"text": found.text}
        if as_json:
            print_json({**turn, "history": events})
            return
        said = {name: _outcome_text(turn[name]) for name in ("outcome", "late_outcome")}
        show_fields(turn | said | {"covers": found.covers or None}, title=f"Turn {turn_id}")
        rows = [
            history_row({name: value for name, value in entry.items() if name not in _SAID_ABOVE}) for entry in events
        ]
        show_rows(rows, as_json=False, columns=("at", "kind", "what"), title="History")


def outbox(
    channel: Annotated[
        str | None, typer.Argument(parser=given_text, metavar="channel", help="Channel to show. Default: all channels.")
    ] = None,
    *,
    undelivered: Annotated[
        bool,
        typer.Option(
            "--undelivered",
            help="Show deliveries that left the outbox and may not have arrived: dead, ambiguous, or dropped because a "
            "queue was full. Searches the newest 1,000 turns of each shard.",
        ),
    ] = False,
    limit: LimitOption = LISTED,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """List unsettled deliveries, in order within each conversation.

    `status` is waiting, taken (by a transport) or ambiguous. An ambiguous delivery may have been sent; it holds its
    conversation for TELLBACK_OUTBOX_HOLD seconds.
    """
    from tellback.client.outbox import open_outbox
    from tellback.state.turns import Turns

    with listed_team(redis_url, team) as tb:
        if undelivered:
            turns = Turns(tb.context.database, tb.context.layout).newest(MAX_LISTED)
            lost = [row for turn in turns if channel in {None, turn.channel} for row in _undelivered_rows(turn)]
            show_rows(lost[-limit:], as_json=as_json, columns=UNDELIVERED_STATES, title="Undelivered", limit=limit)
            return
        store = open_outbox(tb.context)
        channels = [channel] if channel else store.channels()
        found = [item for name in channels for item in store.pending(name, limit)][:limit]
        rows = [_delivery_row(queue, ready_at, delivery) for queue, ready_at, delivery in found]
        columns = ("at", "channel", "conversation", "kind", "status", "attempt", "ready_at", "text")
        show_rows(
            rows,
            as_json=as_json,
            columns=columns,
            spare=("attempt", "ready_at", "channel"),
            title="Outbox",
            limit=limit,
        )


def _turn_row(turn: TurnView, now: int) -> dict[str, Any]:
    import msgspec

    past = turn.is_open and turn.deadline is not None and turn.deadline < now
    overdue = round((now - turn.deadline) / 1000, 1) if past and turn.deadline is not None else None
    answered, closed = turn.late_at, turn.closed_at
    late = None if answered is None else round((answered - (closed or answered)) / 1000, 1)
    fields = {name: value for name, value in msgspec.to_builtins(turn).items() if name != "text"}  # no listing reads it
    outcomes = {"outcome": _outcome_fields(turn.outcome), "late_outcome": _outcome_fields(turn.late_outcome)}
    return {**fields, **outcomes, "overdue": overdue, "late": late}


def _outcome_fields(outcome: str | None) -> dict[str, Any] | None:
    """Return what a transport said of a delivery, None also if it cannot be read."""
    import msgspec

    from tellback.state.readable import readable

    found = readable("outcome", [outcome] if outcome else [], msgspec.json.Decoder(dict[str, Any]).decode)
    return found[0] if found else None


def _outcome_text(fields: dict[str, Any] | None) -> str | None:
    """Return what a transport said of a delivery in words, as `attempted, sent text`, in place of JSON."""
    if not fields:
        return None
    named = {name.replace("_", " "): value for name, value in fields.items() if value}
    return ", ".join(name if value is True else f"{name}: {value}" for name, value in named.items())


def _undelivered_rows(turn: TurnView) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for kind, status, outcome in (
        ("fallback" if turn.state == "fallback" else "answer", turn.delivery, turn.outcome),
        ("late", turn.late_delivery, turn.late_outcome),
    ):
        was_queued = status != "dropped" or outcome  # a stale answer never entered the outbox
        if status in {"dead", "ambiguous", "dropped"} and was_queued:
            error = (_outcome_fields(outcome) or {}).get("error")
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


def _delivery_row(queue: OutboxQueue, ready_at: int, delivery: Delivery) -> dict[str, Any]:
    response = delivery.outgoing
    return {
        "at": delivery.at,
        "channel": queue.channel,
        "conversation": queue.conversation,
        "turn": delivery.turn,
        "idempotency_key": delivery.key,
        "kind": delivery.kind,
        "status": delivery.status,
        "attempt": delivery.attempt,
        "waits": delivery.waits,
        # The steady clock stands still where nobody has observed the server's for long.
        "ready_at": max(ready_at, delivery.at),
        "text": response.text,
        "voice": response.voice,
        "attachments": list(response.attachments),
    }
