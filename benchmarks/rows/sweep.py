"""A sweep of 100 due turns among 1,000,000 open ones against the same among 1,000; and what an open turn takes."""

from __future__ import annotations

import contextlib
import io
import random
import time
from statistics import median

from benchmarks.measure import RowResult, spread
from benchmarks.system import BenchmarkSystem
from tellback import connect
from tellback.settings import Settings
from tellback.state.database import Database
from tellback.state.keys import Layout, lifetime_ms
from tellback.state.turns import Turns
from tellback_workers.sweep_turns import sweep

FEW = 1_000
MANY = 1_000_000
DUE = 100
ROUNDS = 40
RUNS = 5
TEMPLATES = 40  # really opened, in every shard
LIFE_MS = lifetime_ms("turn")
BATCH = 500  # turns that one call builds: a few milliseconds

# As many copies of an open turn as ARGV names, all of its shard: the keys that hold it while it is open, as `open_turn`
# writes them. What the opening leaves besides, its reply and the session's history, goes or is capped by itself.
BUILD = """
local fields = redis.call('HGETALL', KEYS[2])
local deadline = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[2]))
for number = 4, #ARGV do
  local id = ARGV[number]
  local key = ARGV[1] .. id
  redis.call('HSET', key, unpack(fields))
  redis.call('HSET', key, 'id', id, 'conversation', 'c' .. id, 'message_id', 'm' .. id, 'session', 's' .. id)
  redis.call('PEXPIRE', key, ARGV[3])
  redis.call('ZADD', KEYS[1], deadline + number, id)
end
"""


def measure(system: BenchmarkSystem) -> RowResult:
    few, many = Team(system, "few"), Team(system, "many")
    few.build(FEW - TEMPLATES)
    before, start = used_memory(system.database), time.perf_counter()
    many.build(MANY)
    built = time.perf_counter() - start
    each = (used_memory(system.database) - before) / MANY
    ratios: list[float] = []
    small: list[float] = []
    large: list[float] = []
    for _ in range(RUNS):
        times = [(few.once(), many.once()) for _ in range(ROUNDS)]
        small.append(median(time for time, _ in times) * 1e3)
        large.append(median(time for _, time in times) * 1e3)
        ratios.append(large[-1] / small[-1])
    return RowResult(
        name="sweep",
        what=f"a sweep of {DUE} due turns with {MANY:,} open against {FEW:,}",
        ratios=ratios,
        budget=1.1,
        sense="at most",
        details=[
            f"milliseconds with {FEW:,}: {spread(small, 1)};  with {MANY:,}: {spread(large, 1)}",
            f"fallbacks a second, one sweeper with {MANY:,} open: {spread([DUE / ms * 1e3 for ms in large])}",
            f"an open turn takes {each:,.0f} bytes (all of its keys); {MANY:,} were built in {built:.0f} s",
        ],
    )


def used_memory(database: Database) -> int:
    text = database.command("INFO", "memory").decode()
    return next(int(line[12:]) for line in text.splitlines() if line.startswith("used_memory:"))


class Team:
    """A team with open turns, of which some become due."""

    def __init__(self, system: BenchmarkSystem, name: str) -> None:
        self._db = system.database
        self._settings = Settings(redis_url=system.settings.redis_url, data_dir=system.settings.data_dir, team=name)
        with connect(settings=self._settings) as tb:
            self._layout: Layout = tb.context.layout
            templates = [
                tb.open_turn(
                    channel="chat",
                    conversation=f"c{number}",
                    message_id="m",
                    text="Can you tell me where my order is?",
                    language="en",
                    answer_within=3_600,
                )
                for number in range(TEMPLATES)
            ]
        self._turns = Turns(self._db, self._layout)
        self._template = {self._turns.shard(turn.id).index: turn.id for turn in templates}
        self._open: list[str] = []
        self._random = random.Random(1)

    def build(self, count: int) -> None:
        """Add so many open turns, spread over the shards."""
        shards = self._layout.all
        left = count
        while left:
            for shard in shards:
                ids = [f"t{shard.index}-{self._random.getrandbits(96):024x}" for _ in range(min(BATCH, left))]
                left -= len(ids)
                template = self._template[shard.index]
                keys = (shard.key("due"), shard.key("turn", template))
                self._db.command("EVAL", BUILD, 2, *keys, shard.key("turn", ""), template, LIFE_MS, *ids)
                self._open += ids

    def once(self) -> float:
        """Seconds of a sweep over turns that have just become due, any of those that are open; as many are reopened."""
        for _ in range(DUE):
            place = self._random.randrange(len(self._open))
            turn, self._open[place] = self._open[place], self._open[-1]
            self._open.pop()
            shard = self._turns.shard(turn)
            self._db.pipeline(
                [("HSET", shard.key("turn", turn), "deadline", 1), ("ZADD", shard.key("due"), "XX", 1, turn)]
            )
        with contextlib.redirect_stdout(io.StringIO()):  # a log line each
            start = time.perf_counter()
            done = sweep(self._turns, self._settings)
            seconds = time.perf_counter() - start
        assert done == (DUE, DUE), done
        self.build(DUE)
        return seconds
