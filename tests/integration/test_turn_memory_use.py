"""The memory of an open turn, as docs/loops/turns.md promises it: all its keys together."""

from __future__ import annotations

from tellback import Tellback
from tellback.state.database import Database
from tests.support.turns import opened

WORST = "é" * 256  # 512 bytes, which stand in keys as 1,536


def taken(database: Database) -> int:
    """Bytes of every key of turns, the fixed few of a team left out."""
    keys = [key for key in database.command("KEYS", "tb:*") if b":team" not in key]
    return sum(database.command("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys)


def test_an_open_turn_takes_what_the_docs_say(tb: Tellback, database: Database) -> None:
    """500 turns are measured, each in a conversation of its own: only the sets of a shard are shared."""
    for characters, bound in ((100, 1_900), (1_000, 3_800)):
        database.command("FLUSHALL")
        for number in range(500):
            opened(tb, channel="telegram", conversation=f"{number:013}", text="x" * characters, language="en")
        assert taken(database) / 500 <= bound


def test_no_open_turn_takes_more_than_the_bound(tb: Tellback, database: Database) -> None:
    """It has the longest text and names, after all that may happen to a turn that stays open."""
    names = {"channel": WORST, "conversation": WORST, "session": WORST}
    turn = opened(tb, text="x" * 200_000, message_id=WORST, language="x" * 35, **names)
    assert taken(database) <= 96 << 10
    cover = opened(tb, text="x" * 200_000, message_id="2", **names)
    tb.merge_turns([turn], into=cover)
    cover.defer(seconds=60)
    cover.hand_over(to=WORST)
    assert taken(database) <= 2 * (96 << 10), "and merging, deferring and handing over add little"
