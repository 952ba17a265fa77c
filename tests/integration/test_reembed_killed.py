"""`tellback bank reembed` as it is run: a process of its own, real models, killed in the middle, run to the end."""

from __future__ import annotations

import json
import signal as signals
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import cast

import pytest

from tellback import SignalItem, Tellback
from tellback.embedding.encoder import encoder_for
from tellback.embedding.weights import fingerprint
from tellback.settings import Settings
from tellback.state.keys import Layout
from tellback.state.thresholds import BankThreshold
from tests.support.models import make_model
from tests.support.signals import Angles, Bench, recall, signal
from tests.support.waiting import wait_until
from tests.support.workers import environment

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.faults, pytest.mark.timeout(300)]

CONTEXTS = 8_000
SAME = "0.99999"  # of random models all texts are alike; a text is the same as itself alone


def text(number: int) -> str:
    """A query of its own, long enough that a process which embeds thousands can be caught at it."""
    return sha256(str(number).encode()).hexdigest()


def used(numbers: range) -> list[SignalItem]:
    return [SignalItem(fact_id=f"f{number}", signal_type="used", query=text(number)) for number in numbers]


def worker(settings: Settings, layout: Layout, model: Path) -> Bench:
    return Bench(settings, layout, cast("Angles", encoder_for(settings, str(model))))


def test_killed_in_the_middle_and_run_again_it_loses_and_repeats_nothing(
    tb: Tellback, settings: Settings, layout: Layout, tmp_path: Path
) -> None:
    """The bank is in use all along: signals before, between the kill and the second run, and after the switch."""
    before, after = make_model(tmp_path / "before", seed=1), make_model(tmp_path / "after", dimension=48, seed=2)
    database, shard = tb.context.database, layout.of("b")
    old, new = worker(settings, layout, before), worker(settings, layout, after)
    known = BankThreshold(database, shard, "b")
    known.set(float(SAME), model=str(before), dimension=32, weights=fingerprint(before))
    signal(tb, old, used(range(CONTEXTS)))
    assert tb.bank("b").stats().contexts == CONTEXTS
    command = [sys.executable, "-c", "from tellback.cli.app import main; main()", "bank", "reembed", "b", "--json"]
    command += ["--model", str(after), "--threshold", SAME]

    def embedded() -> int:
        return int(database.command("HLEN", shard.key("nextvec", "b")))

    process = subprocess.Popen(command, env=environment(settings), stdout=subprocess.DEVNULL)
    wait_until(lambda: process.poll() is not None or embedded() > 0, "it is at work", 120)
    process.kill()
    assert process.wait() == -signals.SIGKILL
    done_before = embedded()
    assert 0 < done_before < CONTEXTS, "it was killed in the middle"
    assert tb.bank("b").stats().model == str(before)

    signal(tb, old, used(range(CONTEXTS - 50, CONTEXTS + 50)))  # some of contexts that there are, some begin one
    last = subprocess.run(command, env=environment(settings), capture_output=True, check=True)
    told = json.loads(last.stdout)
    assert (told["changed"], told["contexts"], told["dimension"]) == (True, CONTEXTS + 50, 48)
    assert embedded() == 0

    signal(tb, new, used(range(100)))
    stats = tb.bank("b").stats()
    assert (stats.model, stats.contexts) == (str(after), CONTEXTS + 50)
    assert stats.signal_count == CONTEXTS + 200
    assert tb.dead.count() == 0
    twice = {*range(100), *range(CONTEXTS - 50, CONTEXTS)}
    for number in (0, 99, 100, done_before - 1, done_before, CONTEXTS - 51, CONTEXTS - 50, CONTEXTS, CONTEXTS + 49):
        [hit] = recall(new, tb.bank("b"), text(number), [(f"f{number}", 0.5)])
        expected = 0.7 if number in twice else 0.6
        assert (hit.scope, round(hit.usefulness, 4)) == ("context", expected), number
        assert tb.bank("b").fact_stats(f"f{number}").signal_count == (2 if number in twice else 1)
    old.close()
    new.close()
