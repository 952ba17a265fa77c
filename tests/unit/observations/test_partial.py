"""Words of a question that no result mentions are named."""

from __future__ import annotations

import pytest

from tellback.guidance.observations.observer import ToolObserver

TIMES = "The New York Times is headquartered at The New York Times Building in Midtown Manhattan."


def missing(question: str, query: str, result: object, tool: str = "wikipedia", *before: str) -> tuple[str, ...]:
    observer = ToolObserver(question=question)
    for number, earlier in enumerate(before):
        observer.observe("search", params={"query": f"{query} {number}"}, result=earlier)
    seen = observer.observe(tool, params={"query": query}, result=result)
    assert seen.envelope is not None
    assert (seen.envelope.code == "partial") == bool(seen.envelope.missing)
    return seen.envelope.missing


@pytest.mark.parametrize(
    ("question", "query", "result", "expected"),
    [
        ("What is the street address of the New York Times?", "New York Times", TIMES, ("street", "address")),
        ("What is the street address of the New York Times?", "New York Times address", TIMES, ("street", "address")),
        ("what is the street address of the new york times", "new york times", TIMES, ("street", "address")),
        (
            "What is the population of Reykjavik?",
            "Reykjavik population",
            "Iceland is a Nordic island country in the Atlantic.",
            ("population", "Reykjavik"),
        ),
        (
            "Wie hoch ist der Eiffelturm und wer war der Architekt?",
            "Eiffelturm",
            "Der Eiffelturm ist 330 Meter hoch und steht in Paris.",
            ("Architekt",),
        ),
        (
            "Какова площадь озера Байкал?",
            "озеро Байкал",
            "Байкал — озеро тектонического происхождения в Сибири.",
            ("Какова", "площадь"),
        ),
        ("东京塔的高度是多少?", "东京塔", "东京塔是位于日本东京的一座通信塔、于1958年建成。", ("高度",)),
    ],
)
def test_what_is_missing_is_named(question: str, query: str, result: str, expected: tuple[str, ...]) -> None:
    assert missing(question, query, result) == expected


@pytest.mark.parametrize(
    ("question", "query", "result"),
    [
        ("What is the capital of Australia?", "Australia", "Canberra is the capital city of Australia, an island."),
        (
            "Where was the creator of Ruby born?",
            "Ruby creator",
            "Yukihiro Matsumoto is a Japanese computer scientist, born April 14, 1965 in Osaka, Japan.",
        ),
        (
            "Where was the creator of Ruby born?",
            "Ruby creator",
            "Yukihiro Matsumoto, well known for Ruby, was born in Osaka.",
        ),
        ("Who created Ruby?", "Ruby creator", "Yukihiro Matsumoto is a Japanese computer scientist and programmer."),
        ("How tall is Mount Everest?", "Mount Everest", "Mount Everest has an elevation of 8,849 m above the sea."),
        ("When did the war end, in which year?", "war end", "The war ended on 2 September 1945 in Tokyo Bay."),
        ("How many people live in Reykjavik?", "Reykjavik", "Reykjavik has a population of 139,000 inhabitants."),
        ("Сколько жителей в Москве?", "жители Москвы", "Москва: число жителей города составляет 13 миллионов."),
        ("东京塔的高度是多少?", "东京塔 高度", "东京塔的高度为332.9米、于1958年建成。"),
        ("", "x", "some words about something else entirely"),
        ("Please?", "x", "some words about something else entirely"),
    ],
)
def test_what_answers_is_no_partial_result(question: str, query: str, result: str) -> None:
    assert missing(question, query, result) == ()


def test_what_an_earlier_result_mentions_is_not_missing() -> None:
    question = "What is the street address of the New York Times?"
    assert missing(question, "New York Times", TIMES, "wikipedia", "The street address is 620 Eighth Avenue") == ()


@pytest.mark.parametrize(
    ("tool", "result"),
    [
        ("get_user", '{"name": {"first": "Mia"}, "city": "Austin", "membership": "gold"}'),
        ("get_user", {"rows": [[1, 2, 3], [4, 5, 6]]}),
        ("calculate", "1203.0"),
        ("get_time", "12:00"),
        ("transfer_to_human", "Transfer successful"),
        ("write_file", "wrote 3 lines to the file at /tmp/x"),
    ],
)
def test_records_and_actions_are_not_judged_by_words(tool: str, result: object) -> None:
    observer = ToolObserver(question="What is the street address of the New York Times?")
    assert observer.observe(tool, params={"id": 1}, result=result).status == "success"


def test_a_long_briefing_is_no_question() -> None:
    briefing = "I want to book a flight for Amelia Ahmed from Seattle via Denver " * 9
    assert (
        missing(" ".join(f"{briefing} word{n}" for n in range(40)), "flight", "There are flights in the morning") == ()
    )
