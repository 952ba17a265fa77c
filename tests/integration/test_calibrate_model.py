"""Calibrating with the packaged model on pairs that people have judged: the STS benchmark."""

from __future__ import annotations

import json
from pathlib import Path

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

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "stsb_pairs.csv"
HALVES = 100

pytestmark = [
    pytest.mark.slow,
    pytest.mark.model,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not DATA.exists(), reason="the pairs of the STS benchmark (../shared/data) are not here"),
]


def test_the_threshold_of_one_half_is_good_for_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each half's pick: F1 on all pairs, and on the half held back, beside the best that any threshold has there.

    The best of a half is that of its chance peak too: no fixed threshold comes nearer than 0.008 on average.
    """
    labelled = read_pairs(DATA.read_bytes(), str(DATA))
    cosines = calibrate._cosines(encoder_for(Settings()), labelled.pairs)

    def known(*_: object) -> list[float]:
        return cosines

    monkeypatch.setattr(calibrate, "_cosines", known)
    done = CliRunner().invoke(app, ["calibrate", str(DATA), "--json"])
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout)
    assert (row["pairs"], row["same"], row["model"]) == (1_500, 264, "all-MiniLM-L6-v2")
    assert 0.79 < row["threshold"] < 0.82
    assert row["highest"]["f1"] - row["f1"] < 0.01
    assert row["highest"]["f1"] - row["default"]["f1"] < 0.02, "the model's default is calibrated"
    short, held_back = _over_halves(np.array(cosines), np.array(labelled.same))
    assert max(short) < 0.02
    assert np.mean(short) < 0.006
    assert np.mean(held_back) < 0.016


def _over_halves(cosines: NDArray[np.float64], same: NDArray[np.bool_]) -> tuple[list[float], list[float]]:
    everything = Calibration(cosines.tolist(), same.tolist())
    random = np.random.default_rng(1)
    short: list[float] = []
    held_back: list[float] = []
    for _ in range(HALVES):
        halves = np.array_split(random.permutation(len(same)), 2)
        one, other = (Calibration(cosines[half].tolist(), same[half].tolist()) for half in halves)
        threshold = one.pick().threshold
        short.append(everything.highest().f1 - everything.at(threshold).f1)
        held_back.append(other.highest().f1 - other.at(threshold).f1)
    return short, held_back
