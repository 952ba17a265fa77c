"""What labelled pairs tell of thresholds, as a picture."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final, cast

from matplotlib.figure import Figure

from tellback.cli.calibrate_page import Calibrated

_GRID: Final = 200


def draw(found: Calibrated, path: Path) -> None:
    """Write it into `path`; the ending says the format."""
    figure = Figure(figsize=(9, 7), layout="constrained")  # no display is needed
    axes: Any = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))  # matplotlib leaves its keywords unknown
    _curves(axes[0], found)
    _cosines(axes[1], found)
    title = cast("Any", figure.suptitle)  # pyright: ignore[reportUnknownMemberType]  # as above
    title(f"{found.calibration.pairs:,} pairs, {_plain(found.model)}")
    save = cast("Any", figure.savefig)  # pyright: ignore[reportUnknownMemberType]  # as above
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font has not: boxes do
        save(path, dpi=120)


def _curves(axes: Any, found: Calibrated) -> None:
    low = min(0.0, *found.cosines)
    thresholds = [low + (1 - low) * step / _GRID for step in range(_GRID + 1)]
    points = [found.calibration.at(threshold) for threshold in thresholds]
    for name, color in (("precision", "tab:cyan"), ("recall", "tab:purple"), ("f1", "tab:green")):
        label = "F1" if name == "f1" else name
        axes.plot(thresholds, [getattr(point, name) for point in points], color=color, label=label)
    axes.axvline(found.chosen.threshold, color="black", lw=1, label=f"threshold {found.chosen.threshold:g}")
    axes.axvline(found.default.threshold, color="gray", lw=1, ls=":", label=f"default {found.default.threshold:g}")
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False)


def _cosines(axes: Any, found: Calibrated) -> None:
    kinds = [
        [cosine for cosine, same in zip(found.cosines, found.same, strict=True) if same is kind]
        for kind in (True, False)
    ]
    axes.hist(kinds, bins=50, stacked=True, color=["tab:green", "lightgray"], label=["the same", "not"])
    axes.axvline(found.chosen.threshold, color="black", lw=1)
    axes.set_xlabel("cosine")
    axes.set_ylabel("pairs")
    axes.legend(frameon=False)


def _plain(text: str) -> str:
    """Without what matplotlib would take for mathematics, and short."""
    text = "".join(sign if sign.isprintable() else "�" for sign in text).replace("$", r"\$")
    return text if len(text) <= 60 else f"…{text[-59:]}"
