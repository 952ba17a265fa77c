"""Signals of the rows: published by one host, applied by one worker with four threads, counted."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from benchmarks.measure import Work
from benchmarks.system import BenchmarkSystem, cpu_seconds
from tellback import SignalItem, Tellback
from tellback.contracts.signal_types import KINDS, SignalType
from tellback.names import Family
from tellback.signals.models import PACKAGE
from tellback.state.keys import stream_of

BANKS = tuple(f"bank-{n}" for n in range(8))
_VERBS = ("rotate", "configure", "monitor", "restore", "migrate", "encrypt", "deploy", "audit", "cache", "index")
_THINGS = ("the database pool", "our login tokens", "a search index", "the billing service", "user uploads", "TLS keys")
_PLACES = ("in staging", "for the mobile team", "without downtime", "after an outage", "on the second region")
_COUNT = itertools.count()

Signal = tuple[str, str, SignalType, str]
"""The bank, the fact, the type and the query of a signal."""


def queries(number: int) -> list[str]:
    """Questions of some ten words, none of which any other call returns."""
    chosen = itertools.islice(itertools.cycle(itertools.product(_VERBS, _THINGS, _PLACES)), number)
    return [f"How do we {verb} {thing} {place}, ticket {next(_COUNT)}?" for verb, thing, place in chosen]


def signals(asked: Sequence[str], facts: int) -> list[Signal]:
    """Signals of so many facts for each query, over the banks and types by turns."""
    return [
        (BANKS[n % len(BANKS)], f"fact-{n % 7}-{fact}", KINDS[(n + fact) % len(KINDS)], query)
        for n, query in enumerate(asked)
        for fact in range(facts)
    ]


@cache
def model() -> Any:
    """The shipped model, bare."""
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - seconds to import

    return SentenceTransformer(str(files(PACKAGE) / "model"))


def encode(texts: Sequence[str], batch: int) -> Any:
    return model().encode(
        list(texts), batch_size=batch, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
    )


def start_worker(system: BenchmarkSystem, *options: str) -> None:
    system.worker("tellback_workers.app", "signals", "-E", "--pool=threads", "--concurrency=4", *options)


def start_recalls(system: BenchmarkSystem) -> None:
    system.worker("tellback_workers.app", "recalls", "-E", "--pool=threads", "--concurrency=2")


def apply(tb: Tellback, given: Sequence[Signal]) -> Work:
    """The work from the first publish until the last signal is applied."""
    before = _applied(tb)
    by_bank: dict[str, list[SignalItem]] = {}
    for bank, fact, kind, query in given:
        by_bank.setdefault(bank, []).append(SignalItem(fact_id=fact, signal_type=kind, query=query))
    start, cpu = time.perf_counter(), cpu_seconds()
    for bank, items in by_bank.items():
        tb.bank(bank).signal(items)
    tb.flush()
    streams = [("XLEN", stream_of(shard, Family.SIGNALS)) for shard in tb.context.layout.all]
    while any(tb.context.database.pipeline(streams)):  # an entry leaves with its effect
        time.sleep(0.02)  # the model needs every core: who looks more often takes of it what is measured
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    assert _applied(tb) - before == len(given), "a signal was lost or counted twice"
    return Work(len(given) / seconds, cpu / len(given) * 1e6)


def _applied(tb: Tellback) -> int:
    keys = [tb.context.layout.of(bank).key("bank", bank) for bank in BANKS]
    found = tb.context.database.pipeline([("HMGET", key, *KINDS) for key in keys])
    return sum(int(count or 0) for counts in found for count in counts)
