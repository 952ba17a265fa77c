"""Calibrating with the packaged model on pairs that people have judged: the STS benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from tellback.cli import calibrate
from tellback.cli.app import app
from tellback.embedding.encoder import encoder_for
from tellback.settings import Settings
from tellback.signals.calibration import Calibration
from tellback.signals.pairs import read_pairs
from tests.support.outside_data import recorded

PAIRS = Path(__file__).parents[1] / "data" / "pairs.csv"
HALVES = 100

pytestmark = [pytest.mark.model, pytest.mark.slow]  # one test, of ten seconds of work


def test_the_threshold_separates_pairs_that_were_written_for_it() -> None:
    row = _calibrated(PAIRS)
    assert (row["pairs"], row["same"], row["model"]) == (64, 28, "all-MiniLM-L6-v2")
    assert 0.74 < row["threshold"] < 0.85
    assert row["highest"]["f1"] - row["f1"] < 0.02
    assert row["highest"]["f1"] - row["default"]["f1"] < 0.02, "the model's default is calibrated"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_threshold_of_one_half_is_good_for_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each half's pick is judged by F1 on all pairs and on the other half, beside the best that any threshold has.

    The best of a half is that of its chance peak too: no fixed threshold comes nearer than 0.008 on average.
    """
    data = recorded("stsb_pairs.csv")
    labelled = read_pairs(data.read_bytes(), str(data))
    cosines = calibrate._pair_cosines(encoder_for(Settings()), labelled.pairs)

    def known(*_: object) -> list[float]:
        return cosines

    monkeypatch.setattr(calibrate, "_pair_cosines", known)
    row = _calibrated(data)
    assert (row["pairs"], row["same"], row["model"]) == (1_500, 264, "all-MiniLM-L6-v2")
    assert 0.79 < row["threshold"] < 0.82
    assert row["highest"]["f1"] - row["f1"] < 0.01
    assert row["highest"]["f1"] - row["default"]["f1"] < 0.02, "the model's default is calibrated"
    short, held_back = _over_halves(np.array(cosines), np.array(labelled.same))
    assert max(short) < 0.02
    assert np.mean(short) < 0.006
    assert np.mean(held_back) < 0.016


def _calibrated(pairs: Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["calibrate", str(pairs), "--json"])
    assert done.exit_code == 0, done.output
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def _over_halves(cosines: NDArray[np.float64], same: NDArray[np.bool_]) -> tuple[list[float], list[float]]:
    everything = Calibration(cosines.tolist(), same.tolist())
    random = np.random.default_rng(1)
    short: list[float] = []
    held_back: list[float] = []
    for _ in range(HALVES):
        halves = np.array_split(random.permutation(len(same)), 2)
        one, other = (Calibration(cosines[half].tolist(), same[half].tolist()) for half in halves)
        threshold = one.recommended().threshold
        short.append(everything.best_f1().f1 - everything.score_at(threshold).f1)
        held_back.append(other.best_f1().f1 - other.score_at(threshold).f1)
    return short, held_back
