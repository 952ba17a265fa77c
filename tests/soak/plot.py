"""One picture of a soak: memory, files, threads, Redis and its keys over time, with the phases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from tellback.cli.plots import new_figure
from tests.soak.sampler import SoakSample

REDIS: Final = {"redis.used", "redis.aof", "redis.clients"}
MOST: Final = 9  # lines of one panel, those with the highest values
PANELS: Final[Sequence[tuple[str, Callable[[str], bool]]]] = (
    ("memory of each kind of process (anonymous pages), MiB", lambda name: name.endswith(".memory")),
    ("open files and sockets", lambda name: name.endswith((".files", ".sockets"))),
    ("threads", lambda name: name.endswith(".threads")),
    ("Redis: data and append-only file, MiB; clients", lambda name: name in REDIS),
    ("keys by family", lambda name: name.startswith("keys.")),
)


def draw(samples: Sequence[SoakSample], path: Path, title: str) -> None:
    """Write the picture to `path`."""
    figure = new_figure(11, 2.4 * len(PANELS))
    axes = figure.subplots(len(PANELS), sharex=True)
    minutes = [sample.at / 60 for sample in samples]
    names = {name for sample in samples for name in sample.values}
    for panel, (label, chosen) in zip(axes, PANELS, strict=True):
        series = {name: [sample.values.get(name, 0.0) for sample in samples] for name in names if chosen(name)}
        for name in sorted(series, key=lambda each: -max(series[each]))[:MOST]:
            panel.plot(minutes, series[name], label=name, linewidth=1)
        for before, after in pairwise(samples):
            if before.phase != after.phase:
                panel.axvline(after.at / 60, color="grey", linestyle=":", linewidth=1)
        panel.set_title(label, fontsize=9, loc="left")
        panel.set_ylim(bottom=0)
        panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.suptitle(title, fontsize=10)
    axes[-1].set_xlabel("minutes; dotted: end of the first load, begin of the load, its end")
    figure.savefig(path, dpi=80)
