"""`tellback bank`: what banks hold, what the signals of a fact add up to, and which facts nobody can use."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tellback.cli.common import SIGNALS, JsonOption, TeamOption, UrlOption, client, print_json, show, warn_of_models
from tellback.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.contracts.signals import BankStats, FactScore, FactStats

_BANK_COLUMNS: Final = (
    *("bank", "facts", "contexts", "held_facts", "signal_count", "average_score"),
    *("model", "threshold", "last_signal_at"),
)
_BANK_SPARE: Final = ("threshold", "model", "contexts", "held_facts")
_FACT_COLUMNS: Final = ("fact_id", "usefulness_score", "signals", "last_signal_at", "created_at")
_SIGNAL_COLUMNS: Final = ("at", "fact_id", "signal_type", "confidence", "score", "query", "context")
_PRUNE_COLUMNS: Final = ("fact_id", "usefulness_score", "signal_count", "signals", "last_signal_at")


FactOption = Annotated[str | None, typer.Option("--fact", help="Show one fact of the bank.")]
LastOption = Annotated[int | None, typer.Option(help="Show the bank's newest signals.", min=1, max=1000)]
PruneOption = Annotated[
    bool,
    typer.Option("--prune-candidates", help="List facts that nobody can use, the worst first. Nothing is deleted."),
]
MaxScoreOption = Annotated[
    float, typer.Option(min=0, max=1, help="Of --prune-candidates: only facts whose score is at most this.")
]
MinSignalsOption = Annotated[
    int, typer.Option(min=0, help="Of --prune-candidates: only facts with so many signals or more.")
]
AgainstOption = Annotated[
    float, typer.Option(min=0, help="Of --prune-candidates: so many times as often ignored or not helpful as used.")
]
RememberOption = Annotated[
    str | None, typer.Option(metavar="FACT", help="Have the bank hold this fact, with the --text that it is found by.")
]
TextOption = Annotated[str | None, typer.Option(help="Of --remember: the fact's text; - for standard input.")]
ForgetOption = Annotated[str | None, typer.Option(metavar="FACT", help="Have the bank hold this fact no longer.")]
RememberedOption = Annotated[bool, typer.Option("--remembered", help="List the facts that the bank was told last.")]
LimitOption = Annotated[int, typer.Option(min=1, help="Of --prune-candidates and --remembered: most facts to list.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(cls=_BankGroup, help="Banks; `tellback bank reembed` gives one another model.")
    group.command("show")(bank)
    group.command("reembed")(reembed)
    app.add_typer(group, name="bank", rich_help_panel=SIGNALS)


class _BankGroup(TyperGroup):
    """`tellback bank NAME` is `tellback bank show NAME`: a bank that is called as a command is shown by that."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, "--help"}:
            args = ["show", *args]
        return super().parse_args(ctx, args)


def bank(
    name: Annotated[str | None, typer.Argument(help="The bank; without one, all banks are listed.")] = None,
    *,
    fact: FactOption = None,
    last: LastOption = None,
    prune_candidates: PruneOption = False,
    max_score: MaxScoreOption = 0.3,
    min_signals: MinSignalsOption = 5,
    against: AgainstOption = 2.0,
    remember: RememberOption = None,
    text: TextOption = None,
    forget: ForgetOption = None,
    remembered: RememberedOption = False,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Banks with their counts; what the signals of one fact add up to; the newest signals; candidates for pruning.

    A bank can also hold facts, for recalls without candidates: --remember, --forget, --remembered.
    """
    from tellback.cli.memories import Holding
    from tellback.state.banks import bank_names

    holding = Holding(remember=remember, text=text, forget=forget, listed=limit if remembered else None)
    with client(redis_url, team) as tb:
        warn_of_models(tb)
        if name is None:
            if fact is not None or last is not None or prune_candidates or holding.given:
                raise InvalidInput("every option but --json, --team and --redis-url needs the name of a bank")
            _show_banks(tb, bank_names(tb.context.database, tb.context.layout), as_json=as_json)
        elif holding.given:
            holding.do(tb, name, as_json=as_json)
        elif fact is not None:
            _show_fact(fact, tb.bank(name).fact_stats(fact), as_json=as_json)
        elif last is not None:
            _show_signals(tb, name, last, as_json=as_json)
        elif prune_candidates:
            found = tb.bank(name).prune_candidates(
                max_score=max_score, min_signals=min_signals, against=against, limit=limit
            )
            _show_candidates(name, found, as_json=as_json)
        else:
            _show_banks(tb, [name], as_json=as_json)


def _show_signals(tb: Tellback, bank: str, last: int, *, as_json: bool) -> None:
    from tellback.state.bank_stats import BankStatistics

    found = BankStatistics(tb.context.database, tb.context.layout.of(bank), bank).newest(last)
    rows = found if as_json else [_rounded(signal) for signal in found]
    show(
        rows, as_json=as_json, columns=_SIGNAL_COLUMNS, spare=("context", "confidence"), title=f"Signals of {bank}"
    )  # fmt: skip


def _show_candidates(bank: str, candidates: list[FactScore], *, as_json: bool) -> None:
    rows = [_readable(each, as_json=as_json) for each in candidates]
    show(
        rows,
        as_json=as_json,
        columns=_PRUNE_COLUMNS,
        spare=("signal_count",),
        title=f"Candidates for pruning in {bank}",
    )


def reembed(
    name: Annotated[str, typer.Argument(help="The bank.")],
    *,
    model: Annotated[
        str | None, typer.Option(help="A folder, or a name on the hub; default: TELLBACK_MODEL, else the packaged one.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="The bank's threshold from then on; default: the model's.")
    ] = None,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Give a bank another model while it is in use: contexts and held facts are embedded, then it switches at once.

    Signals and recalls go on with the old model until then. Killed, it goes on where it was when it is run again.
    Run it where the model is, on a host of workers; start workers with that model before or after.
    """
    import msgspec

    from tellback.settings import load

    with client(redis_url, team) as tb:
        try:
            from tellback.embedding.encoder import encoder_for
            from tellback.embedding.reembedding import Reembedding
        except ImportError as error:
            raise InvalidInput("the model is not here: pip install 'tellback[workers]'") from error
        context, bank_name = tb.context, tb.bank(name).name
        shard = context.layout.of(bank_name)
        with _progress() as progress:
            run = Reembedding(context.database, shard, bank_name, encoder_for(load(), model))
            done = run.run(threshold=threshold, progress=progress)
    if as_json:
        print_json(msgspec.to_builtins(done))
    elif done.changed:
        held = f" and {done.facts} held facts" if done.facts else ""
        typer.echo(
            f"{done.contexts} contexts{held} of bank {name} embedded with {done.model} in place of "
            f"{done.former_model}, threshold {done.threshold:g}"
        )
    else:
        typer.echo(f"bank {name} has the model {done.model} already")


@contextmanager
def _progress() -> Generator[Callable[[int, int], None], None, None]:
    """A bar on standard error where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("contexts and held facts", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _show_banks(tb: Tellback, names: list[str], *, as_json: bool) -> None:
    stats = [tb.bank(name).stats() for name in names] if len(names) == 1 else list(_there(tb, names))
    rows = stats if as_json else [_readable(each, as_json=False) for each in stats]
    show(rows, as_json=as_json, columns=_BANK_COLUMNS, spare=_BANK_SPARE, title="Banks")


def _there(tb: Tellback, names: list[str]) -> Iterator[BankStats]:
    """The banks' figures; one that held facts alone may have had them forgotten since it was named."""
    for name in names:
        with suppress(NotFound):
            yield tb.bank(name).stats()


def _show_fact(fact_id: str, stats: FactStats, *, as_json: bool) -> None:
    row = {"fact_id": fact_id, **_readable(stats, as_json=as_json)}
    show([row], as_json=as_json, columns=_FACT_COLUMNS, title="Fact")


def _readable(found: Any, *, as_json: bool) -> dict[str, Any]:
    """A struct as a row; for people with rounded scores, and its counts in one cell."""
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(found)
    if as_json:
        return row
    counted = (f"{kind} {count}" for kind, count in row["signal_breakdown"].items() if count)
    return _rounded(row) | {"signals": ", ".join(counted)}


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: f"{row[name]:.4f}" for name in ("score", "usefulness_score", "average_score") if name in row}
