"""Whether a task may end: what is missing before a final answer, and words that ask the agent to look once more.

Source: actionable-feedback, "Priority Order" (success verification prompts).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from tellback.guidance.observations.catalog import Catalog
from tellback.guidance.observations.emptiness import acts
from tellback.guidance.observations.memory import ObservationMemory
from tellback.guidance.observations.suggesting import held_text
from tellback.guidance.observations.values import one_line
from tellback.guidance.observations.words import carried, content_words

MAX_REFUSALS: Final = 2
LISTED: Final = 10
_ITEM: Final = 200
_QUESTION_WORDS: Final = 24
_SHORT: Final = 200


class Missing(msgspec.Struct, frozen=True):
    """One thing that is missing. `kind`: "empty", "placeholder", "todo", "tool", "failed" or "words"."""

    kind: Literal["empty", "placeholder", "todo", "tool", "failed", "words"]
    name: str
    text: str


class AnswerCheck(msgspec.Struct, frozen=True):
    """What `prompt.check_answer` found; `passed` also when it has refused often enough: it does not hold for ever."""

    passed: bool
    missing: tuple[Missing, ...] = ()
    title: str = ""

    def render(self) -> str:
        """What is missing, as a list for the agent; "" where nothing is."""
        return "\n".join([self.title, "", *(f"- {item.text}" for item in self.missing)]) if self.missing else ""


def check(
    answer: str,
    *,
    question: str,
    memory: ObservationMemory,
    catalog: Catalog,
    required_tools: Iterable[str] = (),
    todo: Iterable[str] = (),
    max_refusals: int = MAX_REFUSALS,
) -> AnswerCheck:
    """What is missing, and whether to let the agent end; counts its refusals in `memory`."""
    found = [
        *_answer(answer, catalog),
        *(_item(catalog, "todo", item, item=one_line(item, _ITEM)) for item in todo),
        *_tools(memory, catalog, tuple(required_tools)),
        *_words(answer, question, memory, catalog),
    ][:LISTED]
    passed = not found or memory.refusals >= max_refusals
    memory.refusals = 0 if not found else memory.refusals + (not passed)
    return AnswerCheck(passed, tuple(found), catalog.text("check", "refused"))


def verification(*, question: str, memory: ObservationMemory, catalog: Catalog, todo: Sequence[str] = ()) -> str:
    """What to ask an agent that is about to answer: the question again, what is in hand, what nothing mentions yet."""
    lines: list[str] = []
    if question:
        lines.append(catalog.text("check", "question", question=one_line(question, 400)))
    if memory.held:
        lines.append(catalog.text("check", "held", held=held_text(memory.held)))
    lines += [item.text for item in _tools(memory, catalog, ())]
    lines += [item.text for item in _words("", question, memory, catalog)] if memory.held else []
    lines += [catalog.text("check", "todo", item=one_line(item, _ITEM)) for item in todo][:LISTED]
    lines.append(catalog.text("check", "verify"))
    return "\n".join([catalog.text("check", "title"), "", *(f"- {line}" for line in lines)])


def _item(catalog: Catalog, kind: Literal["todo", "tool", "failed", "words"], name: str, **values: object) -> Missing:
    return Missing(kind, one_line(name, _ITEM), one_line(catalog.text("check", kind, **values), 2 * _ITEM))


def _answer(answer: str, catalog: Catalog) -> list[Missing]:
    plain = " ".join(answer[: 4 * _SHORT].split()).strip(" .\"'")
    if not plain:
        return [Missing("empty", "", catalog.text("check", "empty"))]
    for name in ("extracted", "summary"):
        if plain.casefold() == catalog.text("answer", name).casefold():
            return [Missing("placeholder", plain, catalog.text("check", "placeholder", text=plain))]
    return []


def _tools(memory: ObservationMemory, catalog: Catalog, required: Sequence[str]) -> list[Missing]:
    """Required tools that have not succeeded; tools whose last call failed and was not made good.

    A search that failed is made good by any later result; a tool that acts only by its own success.
    """
    found = [
        _item(catalog, "tool", tool, tool=one_line(tool, 100))
        for tool in required
        if memory.last.get(tool) not in ("ok", "partial")
    ]
    for tool, code in memory.last.items():
        bad = code not in ("ok", "partial", "no_results", "unknown_tool") and tool not in required
        if bad and (acts(tool) or memory.failed_at.get(tool, 0) > memory.succeeded_at):
            found.append(_item(catalog, "failed", tool, tool=one_line(tool, 100)))
    return found


def _words(answer: str, question: str, memory: ObservationMemory, catalog: Catalog) -> list[Missing]:
    words = content_words(question)
    if not words or len(words) > _QUESTION_WORDS:
        return []
    known = carried(words, answer) | set(memory.carried)
    left = [word.text for word in words if word.stem not in known]
    if not left or (not answer.strip() and not memory.held):
        return []
    listed = ", ".join(one_line(word, 60) for word in left[:LISTED])
    return [_item(catalog, "words", listed, words=listed)]
