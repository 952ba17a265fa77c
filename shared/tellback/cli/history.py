"""`tellback history`: everything kept for one session."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from tellback.cli.common import GUIDANCE, JsonOption, TeamOption, UrlOption, client, show

FIRST: Final = ("event", "sent", "error", "reason", "code", "attempt", "text")
"""What tells a turn's story; a script's fields come in no order, and a cell is cut."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("history", rich_help_panel=GUIDANCE)(history)


def history(
    session: Annotated[str, typer.Argument(help="The session.")],
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Everything kept for a session, in time order."""
    with client(redis_url, team) as tb:
        entries = tb.history(session)
    rows = entries if as_json else [_row(entry) for entry in entries]
    show(rows, as_json=as_json, columns=("at", "kind", "what"), title=f"Session {session}")


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    rest = {
        name: value for name, value in entry.items() if name not in {"at", "kind"} and value not in (None, "", [], {})
    }
    first = [name for name in FIRST if name in rest] if entry["kind"] == "turn" else []
    what = " · ".join(f"{name}: {rest[name]}" for name in dict.fromkeys([*first, *rest]))
    return {"at": int(entry["at"]), "kind": entry["kind"], "what": what}
