"""No reading is followed by a write that depends on it, outside a script: between the two another process acts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.direct_writes import elsewhere_in, unexplained

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = sorted(path for folder in ("shared", "workers", "beat") for path in (ROOT / folder).rglob("*.py"))

FIRSTS: Final = """
class Outbox:
    def _read_firsts(self, places):
        heads = self._db.pipeline([("LINDEX", place.queue, 0) for place in places])
        gone = [place for place, head in zip(places, heads, strict=True) if head is None]
        self._db.pipeline([("ZREM", key, place.conversation) for place in gone for key in (place.out, place.ambiguous)])
        return [(place, _decode(head)) for place, head in zip(places, heads, strict=True) if head is not None]
"""


def test_every_direct_write_says_why_it_loses_nothing() -> None:
    sources = {path.relative_to(ROOT): path.read_text("utf-8") for path in SOURCES}
    others = elsewhere_in(sources.values())
    problems = [f"{path}:{problem}" for path, source in sources.items() for problem in unexplained(source, others)]
    assert not problems, "move these into a script, or say why not (tests/support/direct_writes.py):\n" + "\n".join(
        problems
    )


def test_a_removal_after_a_reading_is_refused() -> None:
    """The outbox once had such a removal: an answer that came between the two was in no index."""
    assert unexplained(FIRSTS) == ["6: ZREM in _read_firsts: no reason"]


def test_a_write_after_a_reading_is_not_unconditional() -> None:
    said = FIRSTS.replace('[("ZREM"', '[  # unconditional: I say that it is so\n("ZREM"')
    assert unexplained(said) == ["7: ZREM in _read_firsts: called unconditional, and the function reads before it"]
    assert unexplained(said.replace("unconditional:", "race:")) == []


@pytest.mark.parametrize(
    ("line", "problems"),
    [
        ('db.command("DEL", key)', 1),
        ('db.command("DEL", key)  # unconditional:', 1),
        ('db.command("DEL", key)  # unconditional: of this process alone', 0),
        ('db.command("DEL", key)  # noqa: X1 - why; unconditional: of this process alone', 0),
        ('db.pipeline([("SET", key, 1), ("GET", key)])  # unconditional: of this process alone', 0),
        ('db.pipeline([("GET", key), ("SET", key, 1)])  # unconditional: of this process alone', 1),
        ('db.blocking(1, "XREAD", key); run(("XADD", stream, "*"))', 1),
        ("client.zrem(key, member)", 1),
        ("client.lindex(key, 0); client.zrem(key, 1)  # unconditional: of this process alone", 1),
        ("path.unlink()", 0),
        ('print("SET")', 0),
        ('db.command("GET", key)', 0),
        ('db.command("del", key)', 1),
        ('verb = "DEL"; self._db.command(verb, key)', 1),
        ('self._database.command("DEL" if key else "EXPIRE", key)', 1),
        ('db.blocking(1.0, f"B{key}", key)', 1),
        ('run(small_write("zrem", key, member))', 1),
        ('db.pipeline([["DEL"] + key])', 1),
        ('db.command("EVAL", "return redis.call(1)", 1, key)', 1),
        ('db.command("ZRANGEBYSCORE", key, 0, 1); db.command("DEL", key)  # unconditional: of this process alone', 1),
        ('group.command("show")(show)', 0),
        ('db.command("TIME")', 0),
        ("db.command(*parts)", 0),
    ],
)
def test_what_counts_as_a_direct_write(line: str, problems: int) -> None:
    assert len(unexplained(f"def f(db, key):\n    {line}\n")) == problems


def test_a_reading_below_a_write_in_a_loop_comes_before_it_in_the_next_round() -> None:
    source = (
        'def f(db, keys):\n    while keys:\n        db.command("DEL", *keys)  # unconditional: of this process alone\n'
        '        keys = db.command("LRANGE", "k", 0, 9)\n'
    )
    assert unexplained(source) == ["3: DEL in f: called unconditional, and the function reads before it"]
    assert unexplained(source.replace("while keys:", "with keys:")) == []


def test_a_reading_through_another_function_of_the_module_counts() -> None:
    source = (
        'def read(db):\n    return db.command("LLEN", "k")\n\ndef between(db):\n    return read(db)\n\n'
        'def f(db):\n    if not between(db):\n        db.command("DEL", "k")  # unconditional: of this process alone\n'
    )
    assert unexplained(source) == ["9: DEL in f: called unconditional, and the function reads before it"]
    assert unexplained(source.replace("return read(db)", "return 0")) == []


STORE: Final = """
class Store:
    def heads(self):
        return self._db.command("LRANGE", self._key, 0, -1)

    def forget(self, name):
        self._db.command("ZREM", self._key, name)  # unconditional: whoever needs it adds it again
"""
CALLER: Final = """
def sweep(store, db):
    for name in store.heads():
        db.command("DEL", name)  # unconditional: of this process alone
"""


def test_a_reading_in_another_module_counts() -> None:
    assert unexplained(CALLER, elsewhere_in([STORE, CALLER])) == [
        "4: DEL in sweep: called unconditional, and the function reads before it"
    ]
    assert unexplained(CALLER.replace("unconditional:", "race:"), elsewhere_in([STORE, CALLER])) == []


@pytest.mark.parametrize("called", ["store.forget(name)", "forgotten(store, name)"])
def test_a_write_in_another_function_that_is_called_unconditional_needs_a_reason_where_it_follows_a_reading(
    called: str,
) -> None:
    helper = 'def forgotten(store, name):\n    store.db.command("DEL", name)  # unconditional: of this process alone\n'
    caller = CALLER.replace('db.command("DEL", name)  # unconditional: of this process alone', called)
    others = elsewhere_in([STORE, caller, helper])
    assert unexplained(caller, others) == [
        "4: a call of a function whose write is called unconditional in sweep: no reason"
    ]
    assert (
        unexplained(caller.replace(called, f"{called}  # race: a name that is added since is added again"), others)
        == []
    )
    assert unexplained(caller.replace("store.heads()", "store"), others) == []


def test_functions_of_other_modules_whose_name_several_have_are_not_seen() -> None:
    """They are known by name alone: this is what the check misses."""
    other = "class Memory:\n    def heads(self):\n        return []\n"
    assert unexplained(CALLER, elsewhere_in([STORE, CALLER, other])) == []


def test_a_write_outside_every_function_counts() -> None:
    assert unexplained('class C:\n    drop = lambda db, key: db.command("DEL", key)\n') == [
        "2: DEL in the module: no reason"
    ]


def test_a_function_within_another_counts_once() -> None:
    source = 'def outer(db):\n    db.command("GET", 1)\n\n    def inner():\n        db.command("DEL", 1)\n'
    assert unexplained(source) == ["5: DEL in outer: no reason"]
