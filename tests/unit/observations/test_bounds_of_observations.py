"""Whatever is passed, observing neither raises nor grows without bound."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tellback import Evidence
from tellback.guidance.observations import evidence_builder, values
from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.observer import ToolObserver
from tellback.guidance.observations.values import BUDGET, SHOWN_BYTES, display_text, trim_and_redact, trim_value
from tellback.redaction import redact_value
from tests.support.examples import examples
from tests.support.waiting import wait_until

LONGEST = SHOWN_BYTES + 8_000
KEY = "github_pat_" + "11ABCDEFG0aB1cD2eF3gH4" + "_" + "iJ5kL6mN7oP8qR9sT0uV1wX2yZ3aB4cD5eF6gH7iJ8kL9mN0oP1qR2sT3uV"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@dataclass
class Point:
    x: int
    y: float = math.nan


class Hostile:
    def __repr__(self) -> NoReturn:
        raise RuntimeError("no repr")

    def __str__(self) -> NoReturn:
        raise RuntimeError("no str")

    def __eq__(self, other: object) -> NoReturn:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]  # on purpose: it cannot be a key

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(name)


class HostileError(Exception):
    def __str__(self) -> NoReturn:
        raise RuntimeError("no str")


def _circular() -> dict[str, Any]:
    made: dict[str, Any] = {"a": 1}
    made["self"] = made
    return made


def _deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(5_000):
        made = [made]
    return made


WEIRD: list[Any] = [
    b"\xff\xfe bytes", bytearray(b"x"), memoryview(b"x"), Point(1), math.nan, math.inf, _circular(), _deep(), Hostile(),
    {1: 2, (3,): 4}, {"\ud800": "\udfff"}, "\ud800 lone", object(), ..., {1, 2}, range(9), Exception, ValueError("v"),
    HostileError(), lambda: 1, 10**5_000, "\x00\x1b[31m", [Hostile()], {"error": Hostile()}, {"results": _circular()},
    {"isError": True, "content": [Hostile(), 3, None]}, {"content": _deep(), "is_error": True}, -0.0, "{" * 50_000,
    "[" * 50_000, "<" * 50_000, "<script" * 20_000, '"' * 50_000, "error" * 30_000, "no " * 30_000, " " * 200_000 + "x",
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WEIRD)))
def test_weird_objects(number: int) -> None:
    observer = ToolObserver(tools=["search", "other_search"], question="What is the street address?")
    weird = WEIRD[number]
    ways: list[dict[str, Any]] = [
        {"result": weird}, {"error": weird}, {"params": {"query": weird}}, {"metadata": {"headers": weird}}
    ]  # fmt: skip
    for given_ in ways:
        seen = observer.observe("search", **given_)
        text = seen.to_observation()
        text.encode()
        assert len(text.encode()) <= LONGEST
        assert len(json.dumps(seen.suggestions)) < 8_000
    hostile: Any = weird
    observer.observe(hostile, params=hostile, status=hostile, http_status=hostile, headers=hostile, metadata=hostile)
    observer.check_answer(weird)


def test_hostile_texts_of_programs_and_editors() -> None:
    texts = [weird for weird in WEIRD if isinstance(weird, str)]
    texts += ["Traceback (most recent call last):\n" * 2_000, "a.go:1:" * 9_000, "\n" * 60_000, "FAIL\t" * 9_000]
    for text in texts:
        for tool, params in (("Bash", {"command": "make"}), ("Bash", {"command": text}), ("Edit", {"path": "a"})):
            assert classify(Evidence(tool=tool, params=params, result=text, text=text), {}).code


FIELDS = ("error", "results", "isError", "content", "code", "status", "detail", "data")

_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=60) | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=8)
            | st.sampled_from(["error", "results", "isError", "content", "code", "status", "detail", "data"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=examples(400))
@given(st.text(max_size=20), _json, _json, _json, st.integers() | st.none(), st.text(max_size=30))
def test_no_input_raises_or_prints_an_unbounded_text(
    tool: str, params: Any, result: Any, error: Any, status: int | None, header: str
) -> None:
    observer = ToolObserver(tools=["search", "wiki_search", "final_answer"], question="Where is the street?")
    headers = {"Retry-After": header, header: header}
    seen = observer.observe(tool, params=params, result=result, error=error, http_status=status, headers=headers)
    text = seen.to_observation()
    assert text[0] in "✓⚠✗"
    assert len(text.encode()) <= LONGEST
    assert seen.envelope is not None
    assert seen.envelope.outcome.code
    assert (
        ToolObserver().observe("t", result=result).to_observation()
        == ToolObserver().observe("t", result=result).to_observation()
    )


def test_ten_megabytes_keep_head_and_tail_with_a_marker() -> None:
    big = "HEAD " + "word " * 2_000_000 + " TAIL"
    text = ToolObserver().observe("read", result=big).to_observation()
    assert len(text.encode()) <= LONGEST
    assert text.split("\n\n")[1].startswith("HEAD word")
    assert "bytes left out]…" in text
    assert "TAIL" in text
    same = ToolObserver().observe("read", result=big).to_observation()
    assert same == text


@pytest.mark.parametrize(
    "piece", ["x", "é", "€uro ", "a\n", '{"a": "b"}\n', "<p>", "no results ", "https://a.b/c?d=e&"]
)
def test_ten_megabytes_of_anything_cost_little_more_than_the_part_that_is_kept(piece: str) -> None:
    """It is measured against the text cut to what is looked at: no work may grow with the middle."""
    big = piece * (10_000_000 // len(piece))
    done = threading.Event()
    texts: list[str] = []

    def work() -> None:
        texts.append(
            ToolObserver(question="Where is it?").observe("read", params={"query": "x"}, result=big).to_observation()
        )
        done.set()

    threading.Thread(target=work, daemon=True).start()
    wait_until(done.is_set, "ten megabytes are observed")
    assert len(texts[0].encode()) <= LONGEST


BIG: dict[str, Callable[[], Any]] = {
    "items": lambda: [{"title": f"t{n}", "text": "some words in a row " * 5} for n in range(80_000)],
    "a list under a field": lambda: {"results": [{"title": f"t{n}", "v": n} for n in range(300_000)]},
    "one long text": lambda: {"text": "word " * 2_000_000, "last": "TAIL"},
    "fields": lambda: {f"field {n}": "x" * 50 for n in range(150_000)},
    "nested": lambda: [[[["x" * 100] * 50] * 50] * 40],
}


@pytest.mark.bulk
@pytest.mark.parametrize("kind", BIG)
def test_ten_megabytes_of_data_are_trimmed_before_they_are_searched_for_secrets(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    whole = redact_value

    def counted(value: Any) -> Any:
        searched.append(len(json.dumps(value)))
        return whole(value)

    monkeypatch.setattr(evidence_builder, "redact_value", counted)
    monkeypatch.setattr(values, "redact_value", counted)
    big = BIG[kind]()
    text = ToolObserver().observe("read", params={"query": big}, result=big).to_observation()
    assert len(text.encode()) <= LONGEST
    assert "left out" in text
    assert len(searched) == 3
    assert max(searched) < 4 * BUDGET


def test_of_a_long_list_head_tail_and_number_are_kept() -> None:
    results = [{"title": f"title {n}", "text": "some words in a row " * 5} for n in range(80_000)]
    seen = ToolObserver().observe("search", params={"query": "x"}, result=results)
    text = seen.to_observation()
    assert text.startswith('✓ search found 80000 results for "x"\n\n## title 0\n')
    assert "## title 79999" in text


@given(_json)
def test_what_is_small_is_not_trimmed(value: Any) -> None:
    assert json.dumps(trim_value(value), default=repr) == json.dumps(value, default=repr)


def test_a_secret_in_a_title_is_not_shown() -> None:
    results = [{"title": f"token={TOKEN}", "text": "words"}, {"title": TOKEN, "text": "words"}]
    seen = ToolObserver(tools=["search"], question="What now?").observe("search", params={"query": "x"}, result=results)
    assert TOKEN not in seen.to_observation()


@pytest.mark.bulk
def test_a_secret_at_an_edge_of_what_is_kept_is_not_shown_in_part() -> None:
    """Cut in two, such a key is no longer known for one: the cut must not fall where it would be shown."""
    for offset in (0, 31, 62, 93):
        lines = "\n".join(f"z {KEY}" if n % 2 else "z" * (3 + offset) for n in range(4_000))
        words = " ".join(f"{KEY}," if n == 400 + offset else "z" * 90 for n in range(4_000))
        for text in (
            display_text(lines),
            display_text(words),
            display_text({"a": lines}),
            display_text({"a": {"b": [words, lines]}}),
            display_text([lines]),
        ):
            assert KEY[:20] not in text
            assert KEY[-20:] not in text
            assert len(text.encode()) <= SHOWN_BYTES
        data = trim_and_redact({"text": lines, "more": [words, "x"]})
        assert KEY[:20] not in str(data)
        assert KEY[-20:] not in str(data)


def test_a_text_of_exactly_the_limit_is_whole() -> None:
    text = "a b\n" * (SHOWN_BYTES // 4)
    assert display_text(text) == text
    assert "left out" in display_text(text + "more")


def test_threads_share_an_observer_one_at_a_time() -> None:
    within: list[int] = []
    most: list[int] = []

    def dwells(_evidence: Evidence) -> None:
        within.append(1)
        most.append(sum(1 for _ in range(200) if within) and len(within))
        within.pop()

    observer = ToolObserver(tools=["search", "other_search"], question="Where is it?", classifiers=[dwells])

    def work(number: int) -> None:
        for step in range(50):
            observer.observe(
                "search", params={"query": f"{number} {step}"}, result=[] if step % 2 else "some words here"
            )

    interval = sys.getswitchinterval()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    try:
        sys.setswitchinterval(1e-6)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert observer.memory.calls == 400
    assert max(most) == 1
