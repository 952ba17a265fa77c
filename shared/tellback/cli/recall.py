"""`tellback recall`: what a bank remembers, or what your own search has found, ranked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tellback.cli.common import JsonOption, TeamOption, UrlOption, client, show
from tellback.errors import InvalidInput

if TYPE_CHECKING:
    from tellback.contracts.signals import RecallHit

_COLUMNS: Final = ("fact_id", "score", "semantic", "usefulness", "scope")
_SHOWN: Final = 80  # characters of a text in a table


CandidateOption = Annotated[
    list[str] | None,
    typer.Option("--candidate", "-c", help="FACT=SCORE of your own search; repeat it. Without: the bank's facts."),
]
ExplorationOption = Annotated[
    float, typer.Option(help="Share of the places that facts of fewer than five signals are to have, 0 to 1.")
]
PenaltyFloorOption = Annotated[float, typer.Option(help="Count no fact as less useful than this, 0 to 1.")]
PenaltyAfterOption = Annotated[
    int, typer.Option(help="Count no fact as less useful than 0.5 before it has so many signals.")
]
WaitOption = Annotated[
    float, typer.Option(help="Seconds to wait for a worker; then candidates are ranked by global scores.")
]


def recall(
    query: Annotated[str, typer.Argument(help="What is looked for.")],
    *,
    bank: Annotated[str, typer.Option("--bank", "-b", help="The bank.")],
    candidate: CandidateOption = None,
    boost: Annotated[bool, typer.Option(help="Rank by usefulness too.")] = True,
    weight: Annotated[float, typer.Option(help="Weight of usefulness, 0 to 1.")] = 0.3,
    min_usefulness: Annotated[float, typer.Option(help="Leave out what is less useful; unknown facts have 0.5.")] = 0.0,
    exploration: ExplorationOption = 0.0,
    penalty_floor: PenaltyFloorOption = 0.0,
    penalty_after: PenaltyAfterOption = 0,
    limit: Annotated[int, typer.Option(help="Most hits.")] = 10,
    wait: WaitOption = 5.0,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Rank facts for a query by relevance and by what signals say of them.

    They are the candidates that you bring, else those that the bank remembers, with their texts. A worker answers, or
    this process where TELLBACK_RECALL_IN_PROCESS is set.

    Exit code 0: there is an answer, if only of global scores, which standard error says. 1: there is none, since Redis
    or, for facts of the bank, a worker did not answer. 2: an option is wrong, or the bank has another model.
    """
    with client(redis_url, team) as tb:
        hits = tb.bank(bank).recall(
            query,
            [_candidate(text) for text in candidate] if candidate else None,
            limit=limit,
            boost_by_usefulness=boost,
            usefulness_weight=weight,
            min_usefulness=min_usefulness,
            exploration=exploration,
            penalty_floor=penalty_floor,
            penalty_after=penalty_after,
            wait=wait,
        )
    if any(hit.degraded for hit in hits):
        typer.echo("tellback: no worker answered in time; these are global scores", err=True)
    rows = hits if as_json else [_readable(hit) for hit in hits]
    columns = _COLUMNS if candidate else (*_COLUMNS, "text")
    show(rows, as_json=as_json, columns=columns, title=f"Bank {bank}")


def _readable(hit: RecallHit) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(hit)
    rounded = {name: f"{value:.4f}" if isinstance(value, float) else value for name, value in row.items()}
    return rounded | {"text": shortened(hit.text or "")}


def shortened(text: str) -> str:
    """A text as one cell of a table."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _candidate(text: str) -> tuple[str, float]:
    fact_id, equals, score = text.rpartition("=")
    try:
        return fact_id, float(score if equals else "")
    except ValueError:
        raise InvalidInput(f"--candidate {text!r}: use FACT=SCORE, such as f1=0.8") from None
