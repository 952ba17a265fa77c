"""The result of a calibration, printed on a terminal or as one JSON object."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tellback.cli.common import plain_text
from tellback.signals.calibration import MIN_PAIRS, Calibration, ThresholdScore
from tellback.wording import count_phrase

if TYPE_CHECKING:
    from collections.abc import Iterable

CELLS: Final = 40  # of the plot: one for each 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationReport:
    """The result of one file of pairs and one model.

    `chosen` is the recommended threshold, or the one given by --threshold if `picked` is False. If `bank` is set, the
    bank now uses it; `former` is its previous threshold, or None if the bank was just created.
    """

    file: str
    model: str
    dimension: int
    weights: str
    same_from: float
    calibration: Calibration
    cosines: tuple[float, ...]
    same: tuple[bool, ...]
    chosen: ThresholdScore
    picked: bool
    default: ThresholdScore
    bank: str | None = None
    former: float | None = None


def points_to_show(found: CalibrationReport) -> list[ThresholdScore]:
    """Return the scores at 0.5 to 1 in steps of 0.05, at each hundredth near the chosen threshold, and at itself."""
    near = round(found.chosen.threshold * 100)
    hundredths = {*range(50, 101, 5), *(h for h in range(near - 3, near + 4) if 0 < h <= 100)}
    thresholds = {*(hundredth / 100 for hundredth in hundredths), found.chosen.threshold}
    return [found.calibration.score_at(threshold) for threshold in sorted(thresholds)]


def report_as_dict(found: CalibrationReport) -> dict[str, Any]:
    """Return the report for JSON: the chosen threshold, the ones to compare it with, and a point per hundredth."""
    return {
        "file": found.file,
        "model": found.model,
        "dimension": found.dimension,
        "weights": found.weights,
        "pairs": found.calibration.pairs,
        "same": found.calibration.same,
        "same_from": found.same_from,
        **asdict(found.chosen),
        "picked": found.picked,
        "highest": asdict(found.calibration.best_f1()),
        "default": asdict(found.default),
        "bank": found.bank,
        "former_threshold": found.former,
        "points": [asdict(found.calibration.score_at(hundredth / 100)) for hundredth in range(101)],
    }


def print_calibration(found: CalibrationReport) -> None:
    """Print the curves as a table with a plot, then the chosen threshold."""
    console = Console()
    calibration = found.calibration
    console.print(
        plain_text(
            f"{count_phrase(calibration.pairs, 'pair')}, {calibration.same:,} matching (score {found.same_from:g} or "
            f"more), {found.model}\n"
        )
    )
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in ("threshold", "precision", "recall", "F1"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(Text.assemble("F1 ", ("█", "green"), "  precision ", ("P", "cyan"), "  recall ", ("R", "magenta")))
    table.add_column("", no_wrap=True)
    for point in points_to_show(found):
        chosen = point == found.chosen
        figures = (f"{point.threshold:g}", *(f"{each:.3f}" for each in (point.precision, point.recall, point.f1)))
        table.add_row(*figures, _plot_cell(point), "◀" if chosen else "", style="bold" if chosen else "")
    console.print(table)
    console.print()
    for line in _summary_lines(found):
        console.print(plain_text(line), soft_wrap=True)


def _plot_cell(point: ThresholdScore) -> Text:
    cells = ["█" if place < round(point.f1 * CELLS) else "·" for place in range(CELLS)]
    styles = ["green" if cell == "█" else "bright_black" for cell in cells]
    for share, sign, style in ((point.recall, "R", "bold magenta"), (point.precision, "P", "bold cyan")):
        place = min(round(share * CELLS), CELLS - 1)
        both = cells[place] == "R"
        cells[place], styles[place] = ("B" if both else sign), style
    return Text.assemble(*zip(cells, styles, strict=True))


def _summary_lines(found: CalibrationReport) -> Iterable[str]:
    chosen, highest = found.chosen, found.calibration.best_f1()
    what = "recommended threshold" if found.picked else "your threshold"
    yield (
        f"{what} {chosen.threshold:g}: precision {chosen.precision:.2f}, recall {chosen.recall:.2f}, "
        f"F1 {chosen.f1:.3f}; the highest F1 of these pairs is {highest.f1:.3f}, at {highest.threshold:.3f}"
    )
    yield f"the model's default {found.default.threshold:g}: F1 {found.default.f1:.3f}"
    kinds = {"matching": found.calibration.same, "differing": found.calibration.pairs - found.calibration.same}
    for kind, count in kinds.items():
        if count < MIN_PAIRS:
            few = count_phrase(count, f"{kind} pair")
            yield f"only {few}: use at least {MIN_PAIRS} of each kind for a precise threshold"
    if found.bank is None:
        yield "no bank was changed; use --bank NAME to set its threshold"
    elif found.former is None:
        yield f"bank {found.bank} was created with this threshold"
    elif found.former == chosen.threshold:
        yield f"bank {found.bank} already has this threshold"
    else:
        yield f"bank {found.bank} now has this threshold (was {found.former:g}); existing clusters don't change"
