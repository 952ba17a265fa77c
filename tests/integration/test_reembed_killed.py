"""`tellback bank reembed` as it is run: a process of its own, real models, killed in the middle, run to the end."""

from __future__ import annotations

import json
import signal as signals
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tellback import SignalItem, Tellback
from tellback.embedding.encoder import encoder_for
from tellback.embedding.weights import fingerprint
from tellback.settings import Settings
from tellback.state.bank_models import BankThreshold
from tellback.state.keys import Layout
from tellback.state.stored_facts import FactStore
from tests.support.models import make_model
from tests.support.redis_server import RedisServer
from tests.support.signals import Angles, Bench, recall, signal
from tests.support.vector_sets import KINDS, settings_with
from tests.support.workers import environment

pytestmark = [pytest.mark.slow, pytest.mark.model, pytest.mark.faults, pytest.mark.timeout(300)]

CLUSTERS = 8_000
FACTS = 2_000
SAME = "0.99999"  # of random models all texts are alike; a text is the same as itself alone


def text(number: int) -> str:
    """A query of its own."""
    return sha256(str(number).encode()).hexdigest()


def used(numbers: range) -> list[SignalItem]:
    return [SignalItem(fact_id=f"f{number}", signal_type="used", query=text(number)) for number in numbers]


def worker(settings: Settings, layout: Layout, model: Path) -> Bench:
    return Bench(settings, layout, cast("Angles", encoder_for(settings, str(model))))


def command(model: Path) -> list[str]:
    run = [sys.executable, "-c", "from tellback.cli.app import main; main()", "bank", "reembed", "b", "--json"]
    return [*run, "--model", str(model), "--threshold", SAME]


# A timer of the kernel ends the process without a word, at any instruction from the next part on, and before the one
# after that. A kill from here would come whenever this process gets a core, by when a fast host has embedded all.
EMBED_AND_DIE = """
import random, signal, sys
from tellback.cli.app import main
from tellback.state.bank_models import ModelSwitch

pending, least = ModelSwitch.pending_clusters, int(sys.argv.pop(1))

def die_soon_and_embed(switch):
    if signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0):
        signal.pause()
    if switch.count_embedded(switch.pending_facts().info) > least:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.03))
    return pending(switch)

ModelSwitch.pending_clusters = die_soon_and_embed
main()
"""


def killed(settings: Settings, model: Path, least: int) -> None:
    """Run it, and have it die soon after so many texts are embedded."""
    _, option, _, *arguments = command(model)
    dying = [sys.executable, option, EMBED_AND_DIE, str(least), *arguments]
    died = subprocess.run(dying, env=environment(settings), stdout=subprocess.DEVNULL, check=False)
    assert died.returncode == -signals.SIGALRM


def finished(settings: Settings, model: Path) -> dict[str, Any]:
    last = subprocess.run(command(model), env=environment(settings), capture_output=True, check=True)
    reported: dict[str, Any] = json.loads(last.stdout)
    return reported


def test_killed_in_the_middle_and_run_again_it_loses_and_repeats_nothing(
    tb: Tellback, settings: Settings, layout: Layout, tmp_path: Path
) -> None:
    """The bank is in use all along: signals before, between the kill and the second run, and after the switch."""
    before, after = make_model(tmp_path / "before", seed=1), make_model(tmp_path / "after", dimension=48, seed=2)
    database, shard = tb.context.database, layout.of("b")
    old, new = worker(settings, layout, before), worker(settings, layout, after)
    known = BankThreshold(database, shard, "b")
    known.set(float(SAME), model=str(before), dimension=32, weights=fingerprint(before))
    signal(tb, old, used(range(CLUSTERS)))
    assert tb.bank("b").stats().clusters == CLUSTERS

    def embedded() -> int:
        return int(database.command("HLEN", shard.key("nextvec", "b")))

    killed(settings, after, 0)
    done_before = embedded()
    assert 0 < done_before < CLUSTERS, "it was killed in the middle"
    assert tb.bank("b").stats().model == str(before)

    signal(tb, old, used(range(CLUSTERS - 50, CLUSTERS + 50)))  # some of clusters that there are, some begin one
    reported = finished(settings, after)
    assert (reported["changed"], reported["clusters"], reported["dimension"]) == (True, CLUSTERS + 50, 48)
    assert embedded() == 0

    signal(tb, new, used(range(100)))
    stats = tb.bank("b").stats()
    assert (stats.model, stats.clusters) == (str(after), CLUSTERS + 50)
    assert stats.signal_count == CLUSTERS + 200
    assert tb.dead.count() == 0
    twice = {*range(100), *range(CLUSTERS - 50, CLUSTERS)}
    for number in (0, 99, 100, done_before - 1, done_before, CLUSTERS - 51, CLUSTERS - 50, CLUSTERS, CLUSTERS + 49):
        [hit] = recall(new, tb.bank("b"), text(number), [(f"f{number}", 0.5)])
        expected = 0.7 if number in twice else 0.6
        assert (hit.scope, round(hit.usefulness, 4)) == ("cluster", expected), number
        assert tb.bank("b").fact_stats(f"f{number}").signal_count == (2 if number in twice else 1)
    old.close()
    new.close()


@pytest.mark.parametrize("vector_sets", list(KINDS))
def test_reembedding_of_stored_facts_is_killed_again_and_again(
    tb: Tellback, settings: Settings, redis_server: RedisServer, layout: Layout, tmp_path: Path, vector_sets: str
) -> None:
    """Meanwhile facts are stored, stored again and forgotten: each ends with its last text and the vector of that."""
    before, after = make_model(tmp_path / "before", seed=1), make_model(tmp_path / "after", dimension=48, seed=2)
    held = settings_with(redis_server, settings, vector_sets)
    database, shard, bank = tb.context.database, layout.of("b"), tb.bank("b")
    old, kept = worker(held, layout, before), dict[str, str]()

    def store_texts(numbers: range, words: str) -> None:
        for number in numbers:
            kept[f"f{number}"] = f"{words} {text(number)}"
            bank.remember(f"f{number}", kept[f"f{number}"])
        tb.flush()
        old.consume()

    def forget(numbers: range) -> None:
        for number in numbers:
            bank.forget(f"f{number}")
            del kept[f"f{number}"]
        tb.flush()
        old.consume()

    def embedded() -> int:
        if vector_sets == "none":
            return int(database.command("HLEN", shard.key("factnextvec", "b")))
        return int(database.command("VCARD", shard.key("factnextset", "b")))

    store_texts(range(FACTS), "first")
    for time in range(3):
        killed(held, after, time * FACTS // 3)
        assert 0 < embedded() < len(kept), "it was killed in the middle"
        assert bank.stats().dimension == 32
        store_texts(range(100 * time, 100 * time + 50), f"again {time}")  # of those embedded already
        store_texts(range(FACTS + 100 * time, FACTS + 100 * time + 50), "late")
        forget(range(100 * time + 50, 100 * time + 70))
        forget(range(FACTS - 40 * time - 20, FACTS - 40 * time))
    done = finished(held, after)
    assert (done["changed"], done["facts"], done["dimension"]) == (True, len(kept), 48)
    assert {memory.fact_id: memory.text for memory in FactStore(database, shard, "b").newest(2 * FACTS)} == kept
    count = ("HLEN", shard.key("factvec", "b")) if vector_sets == "none" else ("VCARD", shard.key("factset", "b"))
    assert database.command(*count) == len(kept), "what was forgotten meanwhile has no vector"
    new = encoder_for(held, str(after))
    new.load()
    expected = new.encode(list(kept.values()))  # at once: one by one takes minutes on a busy machine
    for fact_id, wanted in zip(kept, expected, strict=True):
        if vector_sets == "none":
            vector = np.frombuffer(database.command("HGET", shard.key("factvec", "b"), fact_id), np.float32)
        else:
            vector = np.array(database.command("VEMB", shard.key("factset", "b"), fact_id), np.float32)
        assert vector @ wanted == pytest.approx(1.0, abs=1e-4), fact_id
    assert tb.dead.count() == 0
    old.close()
