"""`tellback bank`: inspect banks, manage the facts that they store, and re-embed a bank with another model.

`tellback bank NAME` is short for `tellback bank show NAME`; its options choose one of several views.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tellback.cli.common import (
    LISTED,
    SIGNALS,
    JsonOption,
    TeamOption,
    UrlOption,
    client,
    echo,
    existing_team,
    listed_team,
    print_json,
    progress_bar,
    report_errors,
    report_losses,
    show_rows,
    warn_of_models,
)
from tellback.cli.signals import shorten_text
from tellback.errors import InvalidInput, NotFound, StateConflict, Unavailable
from tellback.wording import count_phrase

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.contracts.signals import BankStats, FactScore, FactStats

_BANK_COLUMNS: Final = (
    *("bank", "facts", "clusters", "stored_facts", "signal_count", "average_score"),
    *("model", "threshold", "last_signal_at"),
)

_BANK_SPARE: Final = ("threshold", "model", "clusters", "stored_facts")

_FACT_COLUMNS: Final = ("fact_id", "usefulness_score", "signals", "last_signal_at", "created_at")

_SIGNAL_COLUMNS: Final = ("at", "fact_id", "signal_type", "confidence", "score", "query", "context")

_PRUNE_COLUMNS: Final = ("fact_id", "usefulness_score", "signal_count", "signals", "last_signal_at")

FactOption = Annotated[str | None, typer.Option("--fact", help="Show the score and signals of one fact.")]

LastOption = Annotated[int | None, typer.Option(help="Show this many of the newest signals.", min=1, max=1000)]

PruneOption = Annotated[
    bool,
    typer.Option("--prune-candidates", help="List low-scoring facts worth deleting, worst first. Deletes nothing."),
]

MaxScoreOption = Annotated[float, typer.Option(min=0, max=1, help="With --prune-candidates: maximum usefulness score.")]

MinSignalsOption = Annotated[int, typer.Option(min=0, help="With --prune-candidates: minimum number of signals.")]

AgainstOption = Annotated[
    float, typer.Option(min=0, help="With --prune-candidates: minimum ratio of negative to positive signals.")
]

RememberOption = Annotated[
    str | None, typer.Option(metavar="FACT", help="Store a fact under this id. Requires --text, which recalls search.")
]

TextOption = Annotated[str | None, typer.Option(help="With --remember: the fact's text, or - for standard input.")]

ForgetOption = Annotated[str | None, typer.Option(metavar="FACT", help="Delete this stored fact. Keeps its scores.")]

RememberedOption = Annotated[bool, typer.Option("--remembered", help="List the facts stored most recently.")]

LimitOption = Annotated[
    int, typer.Option(min=1, max=1_000_000, help="With --prune-candidates or --remembered: maximum number of facts.")
]


_HELP: Final = """Inspect banks and their facts, or re-embed a bank with another model.

`tellback bank NAME` is short for `tellback bank show NAME`: its --help has the options."""


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(cls=_BankGroup, help=_HELP)
    group.command("show")(bank)
    group.command("reembed")(reembed)
    app.add_typer(group, name="bank", rich_help_panel=SIGNALS)


class _BankGroup(TyperGroup):
    """A group whose default command is `show`; a bank named like a command needs `tellback bank show NAME`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["show", *args]
        return super().parse_args(ctx, args)


def bank(
    name: Annotated[str | None, typer.Argument(help="Bank to show. Lists all banks if omitted.")] = None,
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
    limit: LimitOption = LISTED,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Show banks with their counts, one fact's scores, the newest signals, or candidates for pruning.

    Use --remember, --forget and --remembered to manage the facts that a bank stores for recalls without candidates.
    """
    publishes = remember is not None or forget is not None
    views = {"--fact": fact, "--last": last, "--prune-candidates": prune_candidates or None}
    views |= {"--remember": remember, "--forget": forget, "--remembered": remembered or None}
    with report_errors():
        _check_options(name, [option for option, value in views.items() if value is not None], text)
    with (client if publishes else listed_team)(redis_url, team) as tb:
        with suppress(Unavailable):  # a reading below raises it again, and what is published goes to the spool
            warn_of_models(tb)
        if name is None:
            _show_banks(tb, None, as_json=as_json)
        elif remember is not None:
            _remember_fact(tb, name, remember, text)
        elif forget is not None:
            _forget_fact(tb, name, forget)
        elif remembered:
            _list_facts(tb, name, limit, as_json=as_json)
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
            _show_banks(tb, name, as_json=as_json)


def _check_options(name: str | None, views: list[str], text: str | None) -> None:
    if len(views) > 1:
        raise InvalidInput(f"use one of {' and '.join(views)}")
    if name is None and (views or text is not None):
        raise InvalidInput("name a bank: without one, only --json, --team and --redis-url are allowed")
    if text is not None and "--remember" not in views:
        raise InvalidInput("--text goes with --remember")


def _show_signals(tb: Tellback, bank: str, last: int, *, as_json: bool) -> None:
    from tellback.state.bank_stats import BankStatistics

    tb.bank(bank).stats()  # raises NotFound: an empty list for a misspelt name would look like a bank at rest
    found = BankStatistics(tb.context.database, tb.context.layout.of(bank), bank).newest_signals(last)
    rows = found if as_json else [_round_scores(signal) for signal in found]
    show_rows(
        rows, as_json=as_json, columns=_SIGNAL_COLUMNS, spare=("context", "confidence"), title=f"Signals of {bank}"
    )  # fmt: skip


def _show_candidates(bank: str, candidates: list[FactScore], *, as_json: bool) -> None:
    rows = [_display_row(each, as_json=as_json) for each in candidates]
    show_rows(
        rows,
        as_json=as_json,
        columns=_PRUNE_COLUMNS,
        spare=("signal_count",),
        title=f"Candidates for pruning in {bank}",
    )


def reembed(
    name: Annotated[str, typer.Argument(help="Bank to re-embed.")],
    *,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model folder, or name on the Hugging Face hub. Default: TELLBACK_MODEL, or the packaged model."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="New similarity threshold, above 0 and at most 1. Default: the model's."),
    ] = None,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Re-embed a bank's query clusters and stored facts with another model, then switch in one step.

    Signals and recalls use the old model until the switch. If the command is interrupted, run it again to resume.
    Run it on a host that has the model, and start workers with that model before or after.
    """
    from tellback.cli.calibrate import check_threshold
    from tellback.settings import load

    with existing_team(redis_url, team) as tb:
        check_threshold(threshold)
        try:
            from tellback.embedding.encoder import encoder_for
            from tellback.embedding.reembedding import Reembedding
        except ImportError as error:
            raise InvalidInput("the embedding model is not installed: pip install 'tellback[workers]'") from error
        context, bank_name = tb.context, tb.bank(name).name
        shard = context.layout.of(bank_name)
        with progress_bar("clusters and stored facts") as update:
            run = Reembedding(context.database, shard, bank_name, encoder_for(load(), model))
            done = run.run(threshold=threshold, progress=lambda done, of: update(completed=done, total=of))
    if as_json:
        print_json(done)
    elif done.changed:
        held = f" and {count_phrase(done.facts, 'stored fact')}" if done.facts else ""
        echo(
            f"re-embedded {count_phrase(done.clusters, 'cluster')}{held} of bank {name}: "
            f"{done.former_model} -> {done.model}, threshold {done.threshold:g}"
        )
    else:
        kept = "" if threshold is None else f"; its threshold stays {done.threshold:g}: set one by `tellback calibrate`"
        echo(f"bank {name} already uses the model {done.model}{kept}")


def _show_banks(tb: Tellback, name: str | None, *, as_json: bool) -> None:
    from tellback.state.banks import bank_names

    names = bank_names(tb.context.database, tb.context.layout) if name is None else [name]
    unread: list[str] = []
    stats = [tb.bank(each).stats() for each in names] if len(names) == 1 else list(_existing_banks(tb, names, unread))
    rows = stats if as_json else [_display_row(each, as_json=False) for each in stats]
    show_rows(rows, as_json=as_json, columns=_BANK_COLUMNS, spare=_BANK_SPARE, title="Banks")
    report_losses(unread)
    if unread:
        raise typer.Exit(1)


def _existing_banks(tb: Tellback, names: list[str], unread: list[str]) -> Iterator[BankStats]:
    """Yield the banks, and add what is wrong with those that cannot be read to `unread`."""
    from tellback.state.database import WrongType
    from tellback.state.quarantine import advice_of

    for name in names:
        try:
            yield tb.bank(name).stats()
        except NotFound:
            continue  # without signals it exists only while it stores facts; the last one may just have been forgotten
        except StateConflict as error:
            unread.append(str(error))
        except WrongType as error:
            unread.append(advice_of(error.keys))


def _show_fact(fact_id: str, stats: FactStats, *, as_json: bool) -> None:
    row = {"fact_id": fact_id, **_display_row(stats, as_json=as_json)}
    show_rows([row], as_json=as_json, columns=_FACT_COLUMNS, title="Fact")


def _display_row(found: Any, *, as_json: bool) -> dict[str, Any]:
    """Return a struct as a row; unless it is for JSON, with rounded scores and all signal counts in one cell."""
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(found)
    if as_json:
        return row
    counted = (f"{kind} {count}" for kind, count in row["signal_breakdown"].items() if count)
    return _round_scores(row) | {"signals": ", ".join(counted)}


def _round_scores(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: f"{row[name]:.4f}" for name in ("score", "usefulness_score", "average_score") if name in row}


_STORED_COLUMNS: Final = ("at", "fact_id", "text")


def _remember_fact(tb: Tellback, bank: str, fact_id: str, text: str | None) -> None:
    if text is None:
        raise InvalidInput("--remember requires the fact's text: --text TEXT, or --text - for standard input")
    tb.bank(bank).remember(fact_id, _read_stdin() if text == "-" else text)
    _flush_published(tb, f"fact {fact_id} will be stored in bank {bank}")


def _forget_fact(tb: Tellback, bank: str, fact_id: str) -> None:
    from tellback.signals.validation import check_id
    from tellback.state.stored_facts import FactStore

    store = FactStore(tb.context.database, tb.context.layout.of(bank), bank)
    with suppress(Unavailable):  # the spool takes the change
        if not store.texts([check_id(fact_id, "fact_id")]):  # no refusal: a worker may be about to store it
            echo(f"tellback: bank {bank} stores no fact {fact_id} now; check both names", err=True)
    tb.bank(bank).forget(fact_id)
    _flush_published(tb, f"fact {fact_id} will be deleted from bank {bank}", "; its scores stay")


def _list_facts(tb: Tellback, bank: str, limit: int, *, as_json: bool) -> None:
    from tellback.state.stored_facts import FactStore

    tb.bank(bank).stats()  # raises NotFound, as for --last
    found = FactStore(tb.context.database, tb.context.layout.of(bank), bank).newest(limit)
    rows = [
        {"at": fact.at, "fact_id": fact.fact_id, "text": fact.text if as_json else shorten_text(fact.text)}
        for fact in found
    ]
    show_rows(rows, as_json=as_json, columns=_STORED_COLUMNS, title=f"Facts of {bank}", limit=limit)


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"standard input is not UTF-8: byte {error.start + 1}") from None


def _flush_published(tb: Tellback, done: str, then: str = "") -> None:
    tb.flush()
    if why := tb.context.publisher.refusal:
        echo(f"tellback: {why}. The change is saved on this host's disk; the next client sends it", err=True)
    echo(f"{done} once a worker applies the change{then}")
