"""`tellback calibrate`: find the similarity threshold above which two queries belong to the same query cluster.

The model runs in this process, so that calibrating needs no worker and, without --bank, no Redis.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tellback.cli.common import (
    SIGNALS,
    OneJsonOption,
    TeamOption,
    UrlOption,
    client,
    plot_path,
    print_json,
    progress_bar,
    report_errors,
    reporting_plot_errors,
)
from tellback.cli.input_file import input_name, open_input
from tellback.errors import ConfigurationError, InvalidInput

if TYPE_CHECKING:
    from tellback.cli.calibrate_report import CalibrationReport
    from tellback.client.connection import Tellback
    from tellback.embedding.encoder import Encoder
    from tellback.signals.pairs import LabelledPairs, Pair
    from tellback.state.bank_models import BankThreshold

_ENCODE_BATCH: Final = 256  # pairs; their vectors take 0.8 MB at 384 dimensions
_MAX_FILE_BYTES: Final = 256 << 20  # the file is read whole, so that the format can be detected


PairsArgument = Annotated[
    str,
    typer.Argument(metavar="PAIRS.csv", help="CSV or TSV file: two texts and a score per line; - for standard input."),
]
BankOption = Annotated[str | None, typer.Option("--bank", "-b", help="Set the threshold of this bank.")]
SameFromOption = Annotated[
    float | None,
    typer.Option(help="Minimum score of a matching pair. Default: 4, or 1 if all scores are 0 or 1."),
]
ColumnsOption = Annotated[
    str | None, typer.Option(metavar="FIRST,SECOND,SCORE", help="Columns to read, by name or by number (from 1).")
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(help="Field delimiter: comma, tab, semicolon, pipe or a character. Default: detected."),
]
ModelOption = Annotated[str | None, typer.Option(help="Embedding model. Default: the bank's, or TELLBACK_MODEL.")]
ThresholdOption = Annotated[
    float | None, typer.Option(help="Evaluate this threshold; with --bank, set it instead of the recommended one.")
]
PlotOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Draw the curves to FILE.png, .svg or .pdf (needs the extra `plot`), or - for the terminal (default).",
    ),
]


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
    """Find the similarity threshold at which two queries count as the same, from pairs that people have labelled.

    Prints precision, recall and F1 by threshold, and recommends the maximum of the smoothed F1, since the raw maximum
    of a sample is often a chance peak. With --bank the recommendation becomes the bank's threshold for new queries;
    existing clusters don't change. A bank that does not exist is created. Columns, delimiter and header are detected
    in most files. The model runs in this process (the extra `workers`). Without --bank no Redis is needed.
    """
    with report_errors():
        picture = plot_path(plot)
        check_threshold(threshold)
        labelled = _read_pairs(pairs, columns, delimiter, same_from)
    if bank is None:
        with report_errors():
            found = _calibrate_model(labelled, pairs, model, threshold)
            _print_report(found, as_json=as_json)
    else:
        with client(redis_url, team) as tb:
            found = _calibrate_bank(tb, bank, labelled, pairs, model=model, threshold=threshold)
            try:
                found = _set_threshold(tb, bank, found)
            finally:
                _print_report(found, as_json=as_json)  # a result of several minutes must not be lost with Redis
    with report_errors():
        if picture is not None:
            _draw_report(found, picture)


def check_threshold(threshold: float | None) -> None:
    """Check a --threshold.

    Raises:
        InvalidInput: it is out of range: at 0 or below, nearly all queries would count as the same.
    """
    if threshold is not None and not 0 < threshold <= 1:
        raise InvalidInput(f"--threshold {threshold:g}: use a cosine above 0 and at most 1")


def _read_pairs(pairs: str, columns: str | None, delimiter: str | None, same_from: float | None) -> LabelledPairs:
    from tellback.signals.pairs import read_pairs

    try:
        with open_input(pairs) as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:  # of the read, as of a disk that fails
        raise InvalidInput(f"can't read {pairs}: {error.strerror}") from error
    if len(data) > _MAX_FILE_BYTES:
        raise InvalidInput(f"{pairs} is larger than {_MAX_FILE_BYTES >> 20} MiB: use a sample of a few thousand pairs")
    return read_pairs(data, input_name(pairs), columns=columns, delimiter=delimiter, same_from=same_from)


def _calibrate_bank(
    tb: Tellback, bank: str, labelled: LabelledPairs, file: str, *, model: str | None, threshold: float | None
) -> CalibrationReport:
    """Calibrate with the bank's model; a wrong --model fails before minutes of encoding, not after."""
    begun = _bank_threshold(tb, bank).created_with()
    if begun is not None:
        name, weights, _ = begun
        if model is not None and not _is_model(model, name, weights):
            raise ConfigurationError(f"bank {bank!r} uses the model {name}, but --model is {model}: omit --model")
        model = model or name
    return _calibrate_model(labelled, file, model, threshold)


def _is_model(model: str, name: str, weights: str) -> bool:
    """Check whether --model is the bank's, by its name or, in another folder, by the digest of its files."""
    from tellback.embedding.weights import fingerprint
    from tellback.signals.models import model_name

    folder = Path(model).expanduser()
    return model_name(model) == name or bool(weights and folder.is_dir() and fingerprint(folder) == weights)


def _set_threshold(tb: Tellback, bank: str, found: CalibrationReport) -> CalibrationReport:
    from dataclasses import replace

    chosen = found.chosen.threshold
    former = _bank_threshold(tb, bank).set(chosen, model=found.model, dimension=found.dimension, weights=found.weights)
    return replace(found, bank=bank, former=former)


def _bank_threshold(tb: Tellback, bank: str) -> BankThreshold:
    from tellback.state.bank_models import BankThreshold

    name = tb.bank(bank).name  # checked
    return BankThreshold(tb.context.database, tb.context.layout.of(name), name)


def _calibrate_model(
    labelled: LabelledPairs, file: str, model: str | None, threshold: float | None
) -> CalibrationReport:
    from tellback.settings import load
    from tellback.signals.models import default_threshold

    try:
        from tellback.cli.calibrate_report import CalibrationReport
        from tellback.embedding.encoder import encoder_for
        from tellback.signals.calibration import Calibration
    except ImportError as error:
        raise ConfigurationError(
            f"the embedding model is not installed ({error.name} is missing): pip install 'tellback[workers]'"
        ) from error
    encoder = encoder_for(load(), model)
    encoder.load()
    cosines = _pair_cosines(encoder, labelled.pairs)
    calibration = Calibration(cosines, labelled.same)
    return CalibrationReport(
        file=file,
        model=encoder.model,
        dimension=encoder.dimension,
        weights=encoder.weights,
        same_from=labelled.same_from,
        calibration=calibration,
        cosines=tuple(cosines),
        same=tuple(labelled.same),
        chosen=calibration.recommended() if threshold is None else calibration.score_at(threshold),
        picked=threshold is None,
        default=calibration.score_at(default_threshold(encoder.model)),
    )


def _pair_cosines(encoder: Encoder, pairs: Sequence[Pair]) -> list[float]:
    """Return each pair's cosine, computed as cluster matching does; show progress if standard error is a terminal."""
    from tellback.signals.matching import exact_cosine

    found: list[float] = []
    with progress_bar("pairs", len(pairs)) as update:
        for start in range(0, len(pairs), _ENCODE_BATCH):
            part = pairs[start : start + _ENCODE_BATCH]
            texts = list(dict.fromkeys(text for pair in part for text in (pair.first, pair.second)))
            rows = dict(zip(texts, encoder.encode(texts), strict=True))
            found += [exact_cosine(rows[pair.first], rows[pair.second]) for pair in part]
            update(advance=len(part))
    return found


def _draw_report(found: CalibrationReport, path: Path) -> None:
    with reporting_plot_errors(path):
        from tellback.cli.plots import draw_calibration

        draw_calibration(found, path)


def _print_report(found: CalibrationReport, *, as_json: bool) -> None:
    from tellback.cli.calibrate_report import print_calibration, report_as_dict

    if as_json:
        row: dict[str, Any] = report_as_dict(found)
        print_json(row)
    else:
        print_calibration(found)
