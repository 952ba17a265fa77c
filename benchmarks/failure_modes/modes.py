"""The named failure modes: which tools there are, which fault they have, and how the agent begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from benchmarks.failure_modes.tasks import NOISE, AgentTask
from benchmarks.failure_modes.tools import ARCHIVE, FINAL, RESERVE, SEARCH, Fault, ToolWorld

SEARCHES: Final = ("wikipedia", "duckduckgo_search", "news_search", "map_search")
CAPACITY: Final = {"wikipedia": 5, "map_search": 5, "news_search": 1}  # calls a second, in a stampede
SPREAD: Final = 10.0  # seconds within which the agents of a fleet begin
Begin = Callable[[AgentTask, Random], tuple[str, dict[str, Any]]]


def _search(tool: str, words: Callable[[AgentTask, Random], list[str]]) -> Begin:
    return lambda task, random: (tool, {"query": " ".join(words(task, random))})


def _whole(task: AgentTask, _: Random) -> list[str]:
    return task.words


def _subject(task: AgentTask, _: Random) -> list[str]:
    return task.subject.split()


def _first(task: AgentTask, _: Random) -> list[str]:
    return [*task.subject.split(), next(iter(task.values))]


def _noisy(task: AgentTask, random: Random) -> list[str]:
    return [*task.words, *random.sample(NOISE, 2)]


def _numbered(task: AgentTask, _: Random) -> list[str]:
    return [*task.words, "2019"]


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to fail. `agents` above 1 have one world and one question; `alike`: they try tools in one order."""

    name: str
    what: str
    begin: Begin
    faults: Mapping[str, Fault] | None = None
    aspects: int = 1
    agents: int = 1
    capacity: Mapping[str, int] | None = None
    seats: bool = False
    archive: bool = False
    alike: bool = False

    def world(self, random: Random) -> ToolWorld:
        schemas: dict[str, dict[str, Any]] = dict.fromkeys(SEARCHES, SEARCH)
        if self.archive:
            schemas = {"archive_search": ARCHIVE, "wikipedia": SEARCH}
        if self.seats:
            schemas = {"reserve": RESERVE}
        faults: dict[str, Fault] = dict(self.faults or {})
        if self.archive:
            faults["wikipedia"] = "down"
        free = tuple(random.sample(range(1, 9), 2)) if self.seats else ()
        return ToolWorld({**schemas, "final_answer": FINAL}, faults, dict(self.capacity or {}), free)


def _wrong_name(task: AgentTask, random: Random) -> tuple[str, dict[str, Any]]:
    return random.choice(("wikipedia_search", "web_search", "search")), {"query": " ".join(task.words)}


def _wrong_arguments(task: AgentTask, random: Random) -> tuple[str, dict[str, Any]]:
    return "archive_search", {random.choice(("query", "q", "title")): " ".join(task.words), "limit": "5"}


def _seat(_: AgentTask, random: Random) -> tuple[str, dict[str, Any]]:
    return "reserve", {"seat": random.randrange(1, 9)}


_ALL_STRICT: Final[dict[str, Fault]] = dict.fromkeys(SEARCHES, "strict")
_ALL_PICKY: Final[dict[str, Fault]] = dict.fromkeys(SEARCHES, "picky")

MODES: Final = (
    Mode("success", "the first search has the answer", _search("wikipedia", _whole)),
    Mode("partial", "the search leaves out what is asked; the page is about the place", _search("wikipedia", _subject)),
    Mode("rate_limited", "the tool is limited for 30 s",
         _search("duckduckgo_search", _whole), {"duckduckgo_search": "limited"}),
    Mode("no_results", "words too many in the search, and every tool is strict",
         _search("wikipedia", _noisy), _ALL_STRICT),
    Mode("unavailable", "the tool answers 503 throughout",
         _search("duckduckgo_search", _whole), {"duckduckgo_search": "down"}),
    Mode("other_error", "a number in the search makes every tool raise", _search("wikipedia", _numbered), _ALL_PICKY),
    Mode("unknown_tool", "the agent calls a tool that does not exist", _wrong_name),
    Mode("invalid_arguments", "a name and a type are wrong; the other tool is down", _wrong_arguments, archive=True),
    Mode("search_loops", "two things are asked, vague searches give the same page again",
         _search("wikipedia", _subject), {"wikipedia": "vague", "news_search": "vague"}, aspects=2),
    Mode("repeated_failures", "of eight seats two are free", _seat, seats=True),
    Mode("premature_answer", "two things are asked, the first result has one", _search("wikipedia", _first), aspects=2),
    Mode("stampede", "60 agents with one question lose a tool within 10 s; of the others one is weak",
         _search("duckduckgo_search", _whole), {"duckduckgo_search": "limited"}, agents=60, capacity=CAPACITY),
    Mode("stampede_alike", "the same, and left alone all would take the same one next",
         _search("duckduckgo_search", _whole), {"duckduckgo_search": "limited"}, agents=60, capacity=CAPACITY,
         alike=True),
)  # fmt: skip
BY_NAME: Final = {mode.name: mode for mode in MODES}
