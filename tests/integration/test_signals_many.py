"""Many signals in one call: checked first, published in parts, within bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tellback import InvalidInput, SignalItem, Tellback
from tellback.client import signal_session
from tellback.client.recall import redact_and_truncate
from tellback.names import Family
from tests.support.signals import Bench, item

MANY = 100_000


def items(number: int, context: str | None = None) -> Iterator[SignalItem]:
    return (item(f"f{i % 50}", f"a@{i % 20}", context=context) for i in range(number))


@pytest.mark.slow
def test_a_hundred_thousand_in_one_call(tb: Tellback, bench: Bench) -> None:
    """They go out in parts of 500, each reported in order; what waits in memory stays far below what is published."""
    reported: list[tuple[int, int]] = []
    held: list[int] = []
    memory = tb.context.publisher._totals[Family.SIGNALS]

    def progress(done: int, of: int) -> None:
        reported.append((done, of))
        held.append(memory.bytes)

    assert tb.bank("b").signal(items(MANY, "x" * 700), session="s", progress=progress) == MANY
    assert reported == [(done, MANY) for done in range(500, MANY + 1, 500)]
    assert max(held) <= 9 << 20 < MANY * 700 / 5
    tb.flush()
    bench.consume()
    stats = tb.bank("b").stats()
    assert (stats.signal_count, stats.facts, stats.clusters) == (MANY, 50, 1)
    assert tb.dead.count() == 0


def test_nothing_is_published_where_the_last_of_many_is_wrong(tb: Tellback, bench: Bench) -> None:
    """A generator is read to its end before anything goes out."""
    reported: list[int] = []
    wrong = (each for part in (items(5_000), [item("f", "a", confidence=float("nan"))]) for each in part)
    with pytest.raises(InvalidInput, match=r"signals\[5000\].confidence is nan"):
        tb.bank("b").signal(wrong, progress=lambda done, of: reported.append(done + of))
    tb.flush()
    assert reported == []
    assert sum(bench.intake.lengths().values()) == 0


def test_a_query_that_comes_with_many_facts_is_redacted_once(
    tb: Tellback, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cached text is never taken for another's."""
    redacted = list[str]()

    def counted(text: str) -> str:
        redacted.append(text)
        return redact_and_truncate(text)

    monkeypatch.setattr(signal_session, "redact_and_truncate", counted)
    monkeypatch.setattr(signal_session, "_CACHED_TEXTS", 2)
    queries = ["a", "b", "password=hunter2", "a", "c"]
    tb.bank("b").signal([item(f"f{i}", query, context=query) for query in queries for i in range(20)], session="s")
    assert len(redacted) == 5
    tb.flush()
    text = str(bench.runtime.database.command("XRANGE", bench.layout.of("b").key("in", "signals"), "-", "+"))
    assert "hunter2" not in text
    assert text.count('"query":"a"') == 40
    bench.runtime.database.command("FLUSHALL")
