"""Check whether a task may end: list what is missing before a final answer, or ask the agent to verify it.

Requirement G-72.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from tellback.guidance.observations.catalog import Catalog
from tellback.guidance.observations.memory import ObservationMemory
from tellback.guidance.observations.situation import QUESTION_WORDS, unresolved_tools
from tellback.guidance.observations.suggesting import held_results_text
from tellback.guidance.observations.words import content_words, mentioned_stems
from tellback.quoting import quote_value
from tellback.truncation import single_line

LISTED: Final = 10
_ITEM: Final = 200
_SHORT: Final = 200


class MissingItem(msgspec.Struct, frozen=True):
    """One missing item. `kind`: "empty", "placeholder", "todo", "tool", "failed" or "words"."""

    kind: Literal["empty", "placeholder", "todo", "tool", "failed", "words"]
    name: str
    text: str


class AnswerCheck(msgspec.Struct, frozen=True):
    """The result of `prompt.check_answer`; `passed` is also True once it has refused often enough in a row."""

    passed: bool
    missing: tuple[MissingItem, ...] = ()
    title: str = ""

    def render(self) -> str:
        """Return what is missing as a list for the agent, or "" if nothing is."""
        lines = [f"- {quote_value(item.text)}" for item in self.missing]
        return "\n".join([self.title, "", *lines]) if lines else ""


def check_completion(
    answer: str,
    *,
    question: str,
    memory: ObservationMemory,
    catalog: Catalog,
    required_tools: Iterable[str],
    todo: Iterable[str],
    max_refusals: int,
) -> AnswerCheck:
    """List what is missing and decide whether the agent may end; counts refusals in `memory`."""
    found = [
        *_check_answer_text(answer, catalog),
        *(_missing_item(catalog, "todo", item, item=single_line(item, _ITEM)) for item in todo),
        *_check_tools(memory, catalog, tuple(required_tools)),
        *_check_words(answer, question, memory, catalog),
    ][:LISTED]
    passed = not found or memory.refusals >= max_refusals
    memory.refusals = 0 if not found else memory.refusals + (not passed)
    return AnswerCheck(passed, tuple(found), catalog.text("check", "refused"))


def verification_text(*, question: str, memory: ObservationMemory, catalog: Catalog, todo: Sequence[str] = ()) -> str:
    """Return what to ask an agent before it answers: the question, the results in hand, and what is still missing."""
    lines: list[str] = []
    if question:
        lines.append(catalog.text("check", "question", question=single_line(question, 400)))
    if memory.held:
        lines.append(catalog.text("check", "held", held=held_results_text(memory.held)))
    lines += [item.text for item in _check_tools(memory, catalog, ())]
    lines += [item.text for item in _check_words("", question, memory, catalog)] if memory.held else []
    lines += [catalog.text("check", "todo", item=single_line(item, _ITEM)) for item in todo][:LISTED]
    lines.append(catalog.text("check", "verify"))
    return "\n".join([catalog.text("check", "title"), "", *(f"- {quote_value(line)}" for line in lines)])


def _missing_item(
    catalog: Catalog, kind: Literal["todo", "tool", "failed", "words"], name: str, **values: object
) -> MissingItem:
    return MissingItem(kind, single_line(name, _ITEM), single_line(catalog.text("check", kind, **values), 2 * _ITEM))


def _check_answer_text(answer: str, catalog: Catalog) -> list[MissingItem]:
    plain = " ".join(answer[: 4 * _SHORT].split()).strip(" .\"'")
    if not plain:
        return [MissingItem("empty", "", catalog.text("check", "empty"))]
    # Agents copy the placeholders of our own suggestions ("summarize what you found") into the final call.
    for name in ("extracted", "summary"):
        if plain.casefold() == catalog.text("answer", name).casefold():
            return [MissingItem("placeholder", plain, catalog.text("check", "placeholder", text=plain))]
    return []


def _check_tools(memory: ObservationMemory, catalog: Catalog, required: Sequence[str]) -> list[MissingItem]:
    """Return required tools without success, and tools whose last call failed and was not made up for."""
    found = [
        _missing_item(catalog, "tool", tool, tool=single_line(tool, 100))
        for tool in required
        if memory.last.get(tool) not in ("ok", "partial")
    ]
    failed = unresolved_tools(memory, required)
    return found + [_missing_item(catalog, "failed", tool, tool=single_line(tool, 100)) for tool in failed]


def _check_words(answer: str, question: str, memory: ObservationMemory, catalog: Catalog) -> list[MissingItem]:
    words = content_words(question)
    if not words or len(words) > QUESTION_WORDS:
        return []
    known = mentioned_stems(words, answer) | set(memory.carried)
    left = [word.text for word in words if word.stem not in known]
    if not left or (not answer.strip() and not memory.held):
        return []
    listed = ", ".join(single_line(word, 60) for word in left[:LISTED])
    return [_missing_item(catalog, "words", listed, words=listed)]
