"""The scripted agent: one policy, that guidance may interrupt.

Without guidance, after each result: it answers if it has read all that is asked. Having read something else it may be
hasty and answer with that. Otherwise it repeats the call, waits and repeats it, changes its arguments at random, takes
another tool, or gives up, by weights that differ from agent to agent. It remembers the calls it made, and mostly avoids
them when it changes something. A change is a guess, or, as often as the agent's `sense` has it, one in the direction of
the question and of the tool's schema.

With guidance the policy is the same and draws the same numbers, save that with probability `compliance` it does as
the text says: it takes the first call or advice that it can parse from the observation, waits as long as it says, does
not repeat a call after a nudge, and does not answer when the check before the answer says that something is missing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from benchmarks.failure_modes.tasks import NOISE, AgentTask

# Mean weights of what an agent does after a result that does not help; each agent's own are drawn around them.
WEIGHTS: Final = {"repeat": 0.30, "wait": 0.10, "change": 0.30, "other": 0.25, "give_up": 0.05}
HASTE: Final = 0.35  # chance to answer with what was read, though it is not all
AVOIDS: Final = 0.7  # chance that a change avoids what was tried
WAIT: Final = 5.0  # seconds that an agent waits by its own idea
CONCENTRATION: Final = 12.0
_CALL: Final = re.compile(r"→ (\w+)\((.*)\)\s*(?:\(.*\))?$")
_SECONDS: Final = re.compile(r"\b(\d+) seconds and retry|in (\d+) seconds")
_PARTS: Final = re.compile(r'(\w+): ("(?:[^"\\]|\\.)*"|[^,]+)(?:, |$)')


@dataclass(frozen=True, slots=True)
class Move:
    """The agent's next step: a call (after `wait` seconds), or an answer."""

    tool: str = ""
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    answer: str | None = None
    wait: float = 0.0


class Agent:
    """One agent at one task."""

    def __init__(self, task: AgentTask, tools: list[str], seed: str, compliance: float, *, alike: bool = False) -> None:
        """Keep the tools in the order of the prompt; agents that are `alike` try them in it, others at random."""
        self.task = task
        self._tools = [tool for tool in tools if tool != "final_answer"]
        self._random = Random(f"policy {seed}")
        self._obeys = Random(f"obeys {seed}")
        self._compliance = compliance
        self._weights = _around(self._random)
        self._sense = self._random.random()
        self._alike = alike
        self._tried: set[str] = set()
        self._read: dict[str, str] = {}
        self.taken = 0

    def begin(self, move: Move) -> Move:
        return self._noted(move)

    def next(self, last: Move, text: str, *, helped: bool, nudged: bool = False) -> Move:
        """Choose the step after reading `text`; `helped`: it is a page, and not a failure."""
        self._read |= self.task.found(text)
        own = self._policy(last, helped=helped)  # drawn in any case, so that guidance changes no later draw
        calmer = self._calmer(last)
        if len(self._read) == len(self.task.values):
            return Move(answer=self._answer())
        if self._complies():
            advice = self._advised(text, last)
            if advice is not None:
                self.taken += 1
                return self._noted(advice)
            if nudged and own.tool == last.tool and own.args == last.args:
                return self._noted(calmer)
        return own if own.answer is not None else self._noted(own)

    def refused(self, last: Move) -> Move | None:
        """Choose a step after the check before its answer found something missing; None: it answers all the same."""
        change = self._calmer(last)
        return self._noted(change) if self._complies() else None

    def _complies(self) -> bool:
        return self._obeys.random() < self._compliance

    def _policy(self, last: Move, *, helped: bool) -> Move:
        hasty = self._random.random() < HASTE
        kinds = list(self._weights)
        kind = self._random.choices(kinds, list(self._weights.values()))[0]
        changed, other = self._changed(last), self._other(last)
        if (helped and hasty) or kind == "give_up":
            return Move(answer=self._answer())
        if kind == "repeat":
            return Move(last.tool, last.args)
        if kind == "wait":
            return Move(last.tool, last.args, wait=WAIT)
        return changed if kind == "change" else other

    def _calmer(self, last: Move) -> Move:
        return self._changed(last) if self._random.random() < 0.5 else self._other(last)

    def _answer(self) -> str:
        if not self._read:
            return "I could not find it."
        return ", ".join(f"the {aspect} of {self.task.subject} is {value}" for aspect, value in self._read.items())

    def _changed(self, last: Move) -> Move:
        """The same tool with something of its arguments changed."""
        options = [Move(last.tool, args) for args in self._variants(last.args)]
        sensible = [move for move in options if self._distance(move.args) < self._distance(last.args)]
        thinks = self._random.random() < self._sense
        return self._picked(sensible if thinks and sensible else options) or last

    def _distance(self, args: dict[str, Any]) -> int:
        """Count how far arguments are from the question's words and the schema's demands, both of which it has read."""
        words = set(str(args.get("query", args.get("title", args.get("q", "")))).split())
        wrong = len(words ^ set(self.task.words)) if words else 0
        if "limit" in args or "title" in args:
            wrong += ("title" not in args) + (not isinstance(args.get("limit", 5), int))
        return wrong

    def _other(self, last: Move) -> Move:
        options = [Move(tool, last.args) for tool in self._tools if tool != last.tool]
        if self._alike:
            options = [move for move in options if _key(move) not in self._tried][:1] or options
        return self._picked(options) or self._changed(last)

    def _picked(self, options: list[Move]) -> Move | None:
        avoids = self._random.random() < AVOIDS
        fresh = [move for move in options if _key(move) not in self._tried]
        pool = fresh if avoids and fresh else options
        choice = self._random.random()
        return pool[int(choice * len(pool))] if pool else None

    def _variants(self, args: dict[str, Any]) -> list[dict[str, Any]]:
        """One word more or less, another name or type of an argument, another seat."""
        found: list[dict[str, Any]] = []
        for name, value in args.items():
            if name == "seat":
                found += [{"seat": seat} for seat in range(1, 9) if seat != value]
            elif name == "limit":
                found += [{**args, "limit": 5}, {key: item for key, item in args.items() if key != "limit"}]
            else:
                words = str(value).split()
                pool = [*self.task.words, *NOISE[:2]]
                texts = [[*words, word] for word in pool if word not in words]
                texts += [words[:n] + words[n + 1 :] for n in range(len(words)) if len(words) > 1]
                found += [{**args, name: " ".join(text)} for text in texts]
                if "limit" in args:
                    rest = {key: item for key, item in args.items() if key != name}
                    found += [{**rest, other: value} for other in ("query", "title", "q") if other != name]
        return found

    def _advised(self, text: str, last: Move) -> Move | None:
        """The first line of advice that the agent can follow; what begins with "If" leaves it to its own judgement."""
        for line in _advice_lines(text):
            if line.startswith("If "):
                continue
            move = _parsed(line)
            if move is not None and move.tool != "final_answer":
                return move
            if move is None and re.search(r"argument|approach|terms|Change|Add the|Remove", line):
                return self._changed(last)
        return None

    def _noted(self, move: Move) -> Move:
        self._tried.add(_key(move))
        return move


def _around(random: Random) -> dict[str, float]:
    return {kind: random.gammavariate(mean * CONCENTRATION, 1.0) for kind, mean in WEIGHTS.items()}


def _key(move: Move) -> str:
    return f"{move.tool} {json.dumps(move.args, sort_keys=True)}"


def _advice_lines(text: str) -> list[str]:
    """The list under the last heading of the observation."""
    parts = (text.rpartition(f"\n{heading}\n") for heading in ("NEXT STEPS:", "ALTERNATIVES:"))
    listed = min((tail for _, found, tail in parts if found), key=len, default="")
    return [line.removeprefix("- ") for line in listed.splitlines() if line.startswith("- ")]


def _parsed(line: str) -> Move | None:
    found = _CALL.search(line)
    if found is None:
        return None
    args: dict[str, Any] = {}
    for name, raw in _PARTS.findall(found.group(2)):
        try:
            args[name] = json.loads(raw)
        except ValueError:
            args[name] = raw
    seconds = _SECONDS.search(line)
    wait = float(next(filter(None, seconds.groups()))) if seconds else (WAIT if "retry" in line.lower() else 0.0)
    return Move(found.group(1), args, wait=wait)
