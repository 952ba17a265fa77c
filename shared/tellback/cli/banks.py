"""`tellback bank`: what banks hold, what the signals of a fact add up to, and which facts nobody can use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tellback.cli.common import SIGNALS, JsonOption, TeamOption, UrlOption, client, show, warn_of_models
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.contracts.signals import FactStats

_BANK_COLUMNS: Final = (
    *("bank", "facts", "contexts", "signal_count", "average_score", "model", "threshold", "last_signal_at"),
)
_FACT_COLUMNS: Final = ("fact_id", "usefulness_score", "signals", "last_signal_at", "created_at")
_SIGNAL_COLUMNS: Final = ("at", "fact_id", "signal_type", "confidence", "score", "query", "context")
_PRUNE_COLUMNS: Final = ("fact_id", "usefulness_score", "signal_count", "signals", "last_signal_at")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=SIGNALS)(bank)


def bank(
    name: Annotated[str | None, typer.Argument(help="The bank; without one, all banks are listed.")] = None,
    *,
    fact: Annotated[str | None, typer.Option("--fact", help="Show one fact of the bank.")] = None,
    last: Annotated[int | None, typer.Option(help="Show the bank's newest signals.", min=1, max=1000)] = None,
    prune_candidates: Annotated[
        bool,
        typer.Option("--prune-candidates", help="List facts that nobody can use, the worst first. Nothing is deleted."),
    ] = False,
    max_score: Annotated[
        float, typer.Option(min=0, max=1, help="Of --prune-candidates: only facts whose score is at most this.")
    ] = 0.3,
    min_signals: Annotated[
        int, typer.Option(min=0, help="Of --prune-candidates: only facts with so many signals or more.")
    ] = 5,
    against: Annotated[
        float,
        typer.Option(min=0, help="Of --prune-candidates: so many times as often ignored or not helpful as used."),
    ] = 2.0,
    remember: Annotated[
        str | None,
        typer.Option(metavar="FACT", help="Have the bank hold this fact, with the --text that it is found by."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Of --remember: the fact's text; - for standard input.")] = None,
    forget: Annotated[str | None, typer.Option(metavar="FACT", help="Have the bank hold this fact no longer.")] = None,
    remembered: Annotated[
        bool, typer.Option("--remembered", help="List the facts that the bank was told last.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, help="Of --prune-candidates and --remembered: most facts to list.")
    ] = 100,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Banks with their counts; what the signals of one fact add up to; the newest signals; candidates for pruning.

    A bank can also hold facts, for recalls without candidates: --remember, --forget, --remembered.
    """
    from tellback.cli.memories import Holding
    from tellback.state.bank_stats import BankStatistics, PruneRule
    from tellback.state.banks import bank_names

    holding = Holding(remember=remember, text=text, forget=forget, listed=limit if remembered else None)
    with client(redis_url, team) as tb:
        warn_of_models(tb)
        if name is None:
            if fact is not None or last is not None or prune_candidates or holding.given:
                raise InvalidInput("every option but --json, --team and --redis-url needs the name of a bank")
            names = bank_names(tb.context.database, tb.context.layout)
            _show_banks(tb, names, as_json=as_json)
            return
        if holding.given:
            holding.do(tb, name, as_json=as_json)
            return
        found = BankStatistics(tb.context.database, tb.context.layout.of(name), name)
        if fact is not None:
            _print_fact(fact, tb.bank(name).fact_stats(fact), as_json=as_json)
        elif last is not None:
            show(found.newest(last), as_json=as_json, columns=_SIGNAL_COLUMNS, title=f"Signals of {name}")
        elif prune_candidates:
            found.stats()  # a bank that is not there is an error, not an empty list
            rule = PruneRule(max_score=max_score, min_signals=min_signals, against=against)
            rows = [_readable(row, as_json=as_json) for row in found.prune_candidates(rule, limit)]
            show(rows, as_json=as_json, columns=_PRUNE_COLUMNS, title=f"Candidates for pruning in {name}")
        else:
            _show_banks(tb, [name], as_json=as_json)


def _show_banks(tb: Tellback, names: list[str], *, as_json: bool) -> None:
    stats = [tb.bank(name).stats() for name in names]
    rows = stats if as_json else [_readable(each, as_json=False) for each in stats]
    show(rows, as_json=as_json, columns=_BANK_COLUMNS, title="Banks")


def _print_fact(fact_id: str, stats: FactStats, *, as_json: bool) -> None:
    row = {"fact_id": fact_id, **_readable(stats, as_json=as_json)}
    show([row], as_json=as_json, columns=_FACT_COLUMNS, title="Fact")


def _readable(found: Any, *, as_json: bool) -> dict[str, Any]:
    """A struct as a row; for people with rounded scores, and its counts in one cell."""
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(found)
    if as_json:
        return row
    counted = (f"{kind} {count}" for kind, count in row["signal_breakdown"].items() if count)
    scores = {name: f"{row[name]:.4f}" for name in ("usefulness_score", "average_score") if name in row}
    return row | scores | {"signals": ", ".join(counted)}
