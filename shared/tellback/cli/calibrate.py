"""`tellback calibrate`: from labelled pairs to the threshold from which queries share a context."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import typer

from tellback.cli.common import SIGNALS, TeamOption, UrlOption, client, print_json, reported
from tellback.cli.pictures import drawing, picture_file
from tellback.errors import ConfigurationError, InvalidInput

if TYPE_CHECKING:
    from tellback.cli.calibrate_page import Calibrated
    from tellback.client.connection import Tellback
    from tellback.embedding.encoder import Encoder
    from tellback.signals.pairs import LabelledPairs, Pair
    from tellback.state.thresholds import BankThreshold

_AT_ONCE: Final = 256  # pairs; their vectors take 0.8 MB at 384 dimensions
_MOST_BYTES: Final = 256 << 20


PairsArgument = Annotated[
    str,
    typer.Argument(metavar="PAIRS.csv", help="Two texts and a score a line, CSV or TSV; - reads standard input."),
]
BankOption = Annotated[str | None, typer.Option("--bank", "-b", help="Set the threshold of this bank.")]
SameFromOption = Annotated[
    float | None,
    typer.Option(help="The score from which a pair is the same. Default: 4, or 1 where all scores are 0 or 1."),
]
ColumnsOption = Annotated[
    str | None, typer.Option(metavar="FIRST,SECOND,SCORE", help="Columns, by name or by number from 1.")
]
DelimiterOption = Annotated[
    str | None, typer.Option(help="Between fields: comma, tab, semicolon, pipe or a character. Default: found.")
]
ModelOption = Annotated[str | None, typer.Option(help="The embedding model. Default: the bank's, else TELLBACK_MODEL.")]
ThresholdOption = Annotated[
    float | None, typer.Option(help="Judge this threshold, and with --bank set it in place of the one found.")
]
PlotOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Draw them: into FILE.png, .svg or .pdf (extra `plot`); - is the terminal, as without it.",
    ),
]
OneJsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=SIGNALS)(calibrate)


def calibrate(
    pairs: PairsArgument,
    *,
    bank: BankOption = None,
    same_from: SameFromOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    model: ModelOption = None,
    threshold: ThresholdOption = None,
    plot: PlotOption = None,
    as_json: OneJsonOption = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Find from which cosine on two queries are the same, from pairs that people have judged.

    Prints precision, recall and F1 by threshold, and picks the top of the smoothed F1: the highest of a sample lies on
    a chance peak of it. With --bank the pick becomes the bank's threshold, for all queries from then on; contexts that
    exist stay as they are. A bank that does not exist begins so. Columns, delimiter and a header are found in most
    files. The model computes in this process: install tellback[workers]. Without --bank no Redis is needed.
    """
    with reported():
        picture = picture_file(plot)
        _check(threshold)
        labelled = _read(pairs, columns, delimiter, same_from)
    if bank is None:
        with reported():
            found = _calibrated(labelled, pairs, model, threshold)
            _print(found, as_json=as_json)
    else:
        with client(redis_url, team) as tb:
            found = _of_bank(tb, bank, labelled, pairs, model=model, threshold=threshold)
            try:
                found = _set(tb, bank, found)
            finally:
                _print(found, as_json=as_json)  # what took minutes to find is not lost where Redis has gone
    with reported():
        if picture is not None:
            _draw(found, picture)


def _check(threshold: float | None) -> None:
    if threshold is not None and not 0 < threshold <= 1:
        raise InvalidInput(f"--threshold {threshold:g}: use a cosine above 0, at most 1")


def _read(pairs: str, columns: str | None, delimiter: str | None, same_from: float | None) -> LabelledPairs:
    from tellback.signals.pairs import read_pairs

    try:
        with sys.stdin.buffer if pairs == "-" else Path(pairs).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{pairs}: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise InvalidInput(f"{pairs} is above {_MOST_BYTES >> 20} MiB: a sample of some thousand pairs is enough")
    return read_pairs(
        data, "standard input" if pairs == "-" else pairs, columns=columns, delimiter=delimiter, same_from=same_from
    )


def _of_bank(
    tb: Tellback, bank: str, labelled: LabelledPairs, file: str, *, model: str | None, threshold: float | None
) -> Calibrated:
    """Calibrate with the bank's model, which is looked at before anything long is done."""
    from tellback.signals.models import model_name

    begun = _threshold(tb, bank).begun_with()
    if begun is not None and model is not None and model_name(model) != begun[0]:
        raise ConfigurationError(
            f"bank {bank!r} was begun with the model {begun[0]}, and --model is {model}: leave --model out"
        )
    return _calibrated(labelled, file, begun[0] if begun else model, threshold)


def _set(tb: Tellback, bank: str, found: Calibrated) -> Calibrated:
    from dataclasses import replace

    chosen = found.chosen.threshold
    former = _threshold(tb, bank).set(chosen, model=found.model, dimension=found.dimension, weights=found.weights)
    return replace(found, bank=bank, former=former)


def _threshold(tb: Tellback, bank: str) -> BankThreshold:
    from tellback.state.thresholds import BankThreshold

    name = tb.bank(bank).name  # checked
    return BankThreshold(tb.context.database, tb.context.layout.of(name), name)


def _calibrated(labelled: LabelledPairs, file: str, model: str | None, threshold: float | None) -> Calibrated:
    from tellback.settings import load
    from tellback.signals.models import default_threshold

    try:
        from tellback.cli.calibrate_page import Calibrated
        from tellback.embedding.encoder import encoder_for
        from tellback.signals.calibration import Calibration
    except ImportError as error:
        raise ConfigurationError(
            f"the model is not installed here ({error.name}): pip install 'tellback[workers]'"
        ) from error
    encoder = encoder_for(load(), model)
    encoder.load()
    cosines = _cosines(encoder, labelled.pairs)
    calibration = Calibration(cosines, labelled.same)
    return Calibrated(
        file=file,
        model=encoder.model,
        dimension=encoder.dimension,
        weights=encoder.weights,
        same_from=labelled.same_from,
        calibration=calibration,
        cosines=tuple(cosines),
        same=tuple(labelled.same),
        chosen=calibration.pick() if threshold is None else calibration.at(threshold),
        picked=threshold is None,
        default=calibration.at(default_threshold(encoder.model)),
    )


def _cosines(encoder: Encoder, pairs: Sequence[Pair]) -> list[float]:
    """Each pair's cosine as matching measures it, with a progress bar where standard error is a terminal."""
    from tellback.signals.matching import exact_cosine

    found: list[float] = []
    with _progress(len(pairs)) as advance:
        for start in range(0, len(pairs), _AT_ONCE):
            part = pairs[start : start + _AT_ONCE]
            texts = list(dict.fromkeys(text for pair in part for text in (pair.first, pair.second)))
            rows = dict(zip(texts, encoder.encode(texts), strict=True))
            found += [exact_cosine(rows[pair.first], rows[pair.second]) for pair in part]
            advance(len(part))
    return found


class _Bar(Protocol):
    def __call__(self, done: int) -> None: ...


@contextmanager
def _progress(total: int) -> Generator[_Bar, None, None]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("pairs", total=total)
        yield lambda done: progress.update(task, advance=done)


def _draw(found: Calibrated, path: Path) -> None:
    with drawing(path):
        from tellback.cli.calibrate_plot import draw

        draw(found, path)


def _print(found: Calibrated, *, as_json: bool) -> None:
    from tellback.cli.calibrate_page import as_object, print_page

    if as_json:
        row: dict[str, Any] = as_object(found)
        print_json(row)
    else:
        print_page(found)
