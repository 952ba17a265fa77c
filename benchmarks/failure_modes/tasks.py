"""Questions about invented places, the documents that answer them, and how a text is searched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Final

ASPECTS: Final = ("population", "founder", "architect", "elevation", "mayor", "area", "climate", "dialect")
SYLLABLES: Final = ("vel", "mor", "tan", "dra", "kes", "lun", "bri", "oth", "sar", "nim", "gol", "fey")
PLACES: Final = ("Castle", "Valley", "Harbour", "Abbey", "Bridge", "Island")
NOISE: Final = ("official", "definitive", "2019", "overview", "complete", "report", "latest")


@dataclass(frozen=True, slots=True)
class AgentTask:
    """A question about one or two aspects of a place; `values` are right."""

    subject: str
    values: dict[str, str]

    @property
    def question(self) -> str:
        return f"What is the {' and the '.join(self.values)} of {self.subject}?"

    @property
    def words(self) -> list[str]:
        """The words that an agent may put into a search: those of the question that mean something."""
        return [*self.subject.split(), *self.values]

    def found(self, text: str) -> dict[str, str]:
        """Read the values that a text states; it states none but right ones."""
        pattern = rf"{re.escape(self.subject)}'s (\w+) is ([A-Z]\d+)"
        return {aspect: value for aspect, value in re.findall(pattern, text) if aspect in self.values}

    def answer_page(self, *aspects: str) -> str:
        facts = " ".join(f"{self.subject}'s {aspect} is {self.values[aspect]}." for aspect in aspects)
        return f"## {self.subject}\n{facts} It has been described by several travellers."

    def general_page(self) -> str:
        return f"## {self.subject}\n{self.subject} lies in the north and is known for markets, mills and old roads."


def task(random: Random, aspects: int = 1) -> AgentTask:
    """A task drawn at random."""
    name = "".join(random.choice(SYLLABLES) for _ in range(3)).capitalize()
    chosen = random.sample(ASPECTS, aspects)
    values = {aspect: f"{random.choice('ABCDEFGH')}{random.randrange(100, 1000)}" for aspect in chosen}
    return AgentTask(f"{name} {random.choice(PLACES)}", values)


def words_of(query: str) -> set[str]:
    return {word.lower() for word in re.findall(r"\w+", query)}
