"""What labelled pairs tell of thresholds, on a terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tellback.signals.calibration import FEW, Calibration, Point

if TYPE_CHECKING:
    from collections.abc import Iterable

CELLS: Final = 40  # of the plot: one for each 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """What was found with one file of pairs and one model, and what was done with it.

    `chosen` is the threshold picked or, where `picked` is False, the one that was asked for. With a `bank`, that has it
    now; `former` is what it had before, None where it has just begun.
    """

    file: str
    model: str
    dimension: int
    weights: str
    same_from: float
    calibration: Calibration
    cosines: tuple[float, ...]
    same: tuple[bool, ...]
    chosen: Point
    picked: bool
    default: Point
    bank: str | None = None
    former: float | None = None


def shown_points(found: Calibrated) -> list[Point]:
    """Thresholds from 0.5 up in steps of 0.05, each hundredth near the chosen one, and that itself."""
    near = round(found.chosen.threshold * 100)
    hundredths = {*range(50, 101, 5), *(h for h in range(near - 3, near + 4) if 0 < h <= 100)}
    thresholds = {*(hundredth / 100 for hundredth in hundredths), found.chosen.threshold}
    return [found.calibration.at(threshold) for threshold in sorted(thresholds)]


def as_object(found: Calibrated) -> dict[str, Any]:
    """One JSON object: the choice, what to compare it with, and the curves at every hundredth."""
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
        "highest": asdict(found.calibration.highest()),
        "default": asdict(found.default),
        "bank": found.bank,
        "former_threshold": found.former,
        "points": [asdict(found.calibration.at(hundredth / 100)) for hundredth in range(101)],
    }


def print_page(found: Calibrated, console: Console | None = None) -> None:
    """The curves as a table with a plot, the choice beneath."""
    console = console or Console()
    calibration = found.calibration
    console.print(
        f"{calibration.pairs:,} pairs, {calibration.same:,} the same (score {found.same_from:g} and more), "
        f"{found.model}\n",
        markup=False,
        highlight=False,
    )
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in ("threshold", "precision", "recall", "F1"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(Text.assemble("F1 ", ("█", "green"), "  precision ", ("P", "cyan"), "  recall ", ("R", "magenta")))
    table.add_column("", no_wrap=True)
    for point in shown_points(found):
        chosen = point == found.chosen
        figures = (f"{point.threshold:g}", *(f"{each:.3f}" for each in (point.precision, point.recall, point.f1)))
        table.add_row(*figures, _plotted(point), "◀" if chosen else "", style="bold" if chosen else "")
    console.print(table)
    console.print()
    for line in _summary(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _plotted(point: Point) -> Text:
    cells = ["█" if place < round(point.f1 * CELLS) else "·" for place in range(CELLS)]
    styles = ["green" if cell == "█" else "bright_black" for cell in cells]
    for share, sign, style in ((point.recall, "R", "bold magenta"), (point.precision, "P", "bold cyan")):
        place = min(round(share * CELLS), CELLS - 1)
        both = cells[place] == "R"
        cells[place], styles[place] = ("B" if both else sign), style
    return Text.assemble(*zip(cells, styles, strict=True))


def _summary(found: Calibrated) -> Iterable[str]:
    chosen, highest = found.chosen, found.calibration.highest()
    what = "threshold" if found.picked else "the threshold that you gave"
    yield (
        f"{what} {chosen.threshold:g}: precision {chosen.precision:.2f}, recall {chosen.recall:.2f}, "
        f"F1 {chosen.f1:.3f}; the highest F1 of these pairs is {highest.f1:.3f}, at {highest.threshold:.3f}"
    )
    yield f"the model's default {found.default.threshold:g}: F1 {found.default.f1:.3f}"
    kinds = {"the same": found.calibration.same, "not": found.calibration.pairs - found.calibration.same}
    for kind, count in kinds.items():
        if count < FEW:
            yield f"only {count} pairs are {kind}: the threshold is rough below {FEW} of either kind"
    if found.bank is None:
        yield "no bank was changed: --bank NAME sets it"
    elif found.former is None:
        yield f"bank {found.bank} begins with it"
    elif found.former == chosen.threshold:
        yield f"bank {found.bank} had it already"
    else:
        yield f"bank {found.bank} has it now, {found.former:g} before; the contexts that it has stay as they are"
