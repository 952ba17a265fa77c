"""A plot of one day shows that day, not the four years that matplotlib makes of a single point."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest


@pytest.mark.parametrize("shown", [[date(2026, 3, 1)], [datetime(2026, 3, 1, 12, tzinfo=UTC)] * 2])
def test_one_point_in_time_spans_two_days(shown: list[Any]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    from matplotlib.figure import Figure

    from tellback.cli.plots import _finish_bank_axes

    axes: Any = Figure().subplots()
    axes.plot(shown, [1] * len(shown), "o")
    _finish_bank_axes(axes, "x", shown, times=True)
    low, high = axes.get_xlim()
    assert high - low == pytest.approx(timedelta(days=2).days)
