"""Used and ignored facts are inferred from a response, each with the confidence that its evidence earns."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tellback
from tellback.errors import InvalidInput
from tellback.signals import textual_evidence
from tellback.signals.detection import FactEvidence, detect_signals, weigh_facts
from tellback.signals.validation import check_items
from tests.support.conversations import Conversations

POOL = "Use connection pooling with at most 20 connections per worker."
COOKIES = "Session cookies are signed with the key in settings.py and rotated every 90 days."
CEO = "The CEO of Acme is Jane Doe, appointed on 2019-03-04."
FACTS = {"pool": POOL, "cookies": COOKIES, "ceo": CEO}
ASKED = "How do I set up the database?"


def weigh(response: str, facts: Any = FACTS, **more: Any) -> dict[str, FactEvidence]:
    options: dict[str, Any] = {"query": ASKED, **more}
    return {each.fact_id: each for each in weigh_facts(response, facts, **options)}


def one(response: str, text: str, fact_id: str = "f1", **more: Any) -> FactEvidence:
    return weigh(response, {fact_id: text}, **more)[fact_id]


def test_a_reference_is_used_at_95() -> None:
    found = one("As [f1] says, it is so.", "another matter")
    assert (found.verdict, found.confidence, found.because) == ("used", 0.95, ("reference",))


def test_a_rejected_fact_is_ignored_at_half() -> None:
    """That is the most that the formula gives to ignored facts, and enough to be submitted."""
    found = one(f"I did not use f1. {POOL}", POOL)
    assert (found.verdict, found.confidence, found.because) == ("ignored", 0.5, ("rejected",))


def test_a_fact_both_rejected_and_referred_to_is_left_below_half() -> None:
    found = one("I first ignored f1. Then I used f1 after all.", POOL)
    assert (found.verdict, found.confidence) == ("used", 0.45)


def test_repeated_wording_is_used_at_85_of_its_jaccard_index() -> None:
    found = one(f"Well, this is easy enough. {POOL} Anything else?", POOL)
    assert (found.verdict, found.confidence) == ("used", 0.85)
    assert "overlap" in found.because
    half = one("Configure connection pooling with at most 20 connections for every server process.", POOL)
    assert half.used == pytest.approx(0.85 * 7 / 13)
    assert half.verdict == "used"


def test_wording_of_a_long_fact_counts_by_chunks_of_50_words() -> None:
    """Quoting one part of a long fact is use of it; 50 words of 500 would be a tenth of it."""
    words = [f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(500)]
    found = one("And so: " + " ".join(words[200:250]), " ".join(words))
    assert (found.verdict, found.confidence) == ("used", 0.85)
    assert one(" ".join(words[200:222]), " ".join(words)).used < 0.5


def test_a_value_that_only_this_fact_brought_is_used() -> None:
    """One value gives 0.6, more give 0.7; values of the query, or of other facts too, do not count."""
    flights = {"a": "Flight HAT069 leaves at 06:00 from gate 1412.", "b": "Flight HAT083 leaves at noon from there."}
    found = weigh("You are booked on HAT069, which is the cheaper one of both.", flights)
    assert (found["a"].confidence, found["a"].because) == (0.6, ("values", "topic"))
    assert found["b"].verdict == "ignored"
    both = weigh("You are booked on HAT069; please be at gate 1412 an hour before.", flights)
    assert both["a"].confidence == 0.7
    assert "values" not in weigh("You are booked on HAT069.", flights, query="What about HAT069?")["a"].because
    shared = {"a": "HAT069 is late.", "b": "HAT069 is full."}
    assert all("values" not in each.because for each in weigh("I am sorry about HAT069.", shared).values())
    assert one("That makes 1200 dollars.", "The limit is 1,200 dollars a day.").used >= 0.6


def test_a_touched_file_of_the_fact_is_used_at_half() -> None:
    for touched in ("/repo/app/settings.py", "settings.py", "app\\settings.py"):
        found = weigh("Done.", files=[touched])
        assert (found["cookies"].verdict, found["cookies"].confidence) == ("used", 0.5)
        assert found["pool"].verdict == "unclear"
    assert one("Done.", "see docs/settings.py", files=["/repo/app/settings.py"]).verdict == "unclear"


def test_topic_alone_is_used_below_half() -> None:
    """It counts four tenths of the share of its words, which is seldom enough to be submitted."""
    found = one("Workers share connections, which pooling makes possible, and most apps need 20.", POOL)
    assert found.because == ("topic", "absent")
    assert found.used == pytest.approx(0.4 * 3 / 5)
    assert found.confidence < 0.5


def test_silence_is_ignored_at_half_and_less_of_a_short_response() -> None:
    found = weigh("Create a role, grant it what it needs, then run the migrations once in every new installation.")
    assert {(each.verdict, each.confidence) for each in found.values()} == {("ignored", 0.5)}
    assert all(each.verdict == "unclear" for each in weigh("Sorry, no idea.").values())
    assert all(each.confidence == 0 for each in weigh("").values())
    seven = weigh("Create a role and grant it rights.")["ceo"]
    assert (seven.verdict, seven.confidence) == ("ignored", 0.35)


def test_words_of_the_query_are_no_evidence() -> None:
    """A response repeats the question whatever it was written with."""
    found = one("The CEO of Acme is unknown to me, since nobody has told me anything.", CEO, query="Who is Acme's CEO?")
    assert found.used == 0
    assert one("Who is the CEO? I do not know.", "who is the ceo", query="Who is the CEO?").verdict == "unclear"


def test_repeating_the_question_repeats_no_fact() -> None:
    found = one(
        f"{ASKED} Nobody has told me that so far, I am afraid.", "How do I set up the database quickly? Docker."
    )
    assert "overlap" not in found.because
    assert found.verdict == "ignored"


def test_the_contrary_of_a_fact_is_neither() -> None:
    """The agent may have read it to say so, or not at all."""
    found = one("Do not use connection pooling with at most 20 connections per worker.", POOL)
    assert (found.verdict, found.because) == ("unclear", ("contradicted",))
    kept = one(f"Never mind. Do not worry. {POOL}", POOL)
    assert kept.verdict == "used", "a no of another sentence is not about it"
    agreed = one("Never deploy on a Friday evening, as you know.", "Never deploy on a Friday evening.")
    assert agreed.verdict == "used"


SCRIPTS = {
    "chinese": (
        "我们应该使用连接池。每个工作进程最多二十个连接。",
        "使用连接池。每个工作进程最多二十个连接",
        "会话令牌九十天轮换一次",
    ),
    "japanese": (
        "接続プールを使い、ワーカーごとに最大二十接続にします。",
        "接続プールを使い、ワーカーごとに最大二十接続",
        "セッションの鍵は九十日で交換",
    ),
    "thai": (
        "ฐานข้อมูลควรใช้การรวมการเชื่อมต่อไม่เกินยี่สิบ",
        "ใช้การรวมการเชื่อมต่อไม่เกินยี่สิบ",
        "คุกกี้หมุนเวียนทุกเดือน",
    ),
    "german": (
        "Verwende höchstens zwanzig Verbindungen für jeden Arbeiter.",
        "Höchstens ZWANZIG Verbindungen für jeden Arbeiter!",
        "Schlüssel werden jährlich erneuert",
    ),
    "french": (
        "Il y a un café re\u0301serve\u0301 aux employés du siège.",
        "un café réservé aux employés du siège",
        "les clés changent chaque année",
    ),
    "arabic": (
        "استخدم تجميع الاتصالات بحد أقصى عشرين اتصالا لكل عامل",
        "تجميع الاتصالات بحد أقصى عشرين اتصالا لكل عامل",
        "تتغير المفاتيح كل سنة مرة",
    ),
}


@pytest.mark.parametrize(("response", "fact", "other"), SCRIPTS.values(), ids=SCRIPTS)
def test_any_script(response: str, fact: str, other: str) -> None:
    found = weigh(response, {"a": fact, "b": other}, query="?")
    assert found["a"].verdict == "used"
    assert found["a"].confidence >= 0.5
    assert found["b"].verdict != "used"


def test_a_contradiction_without_spaces() -> None:
    found = one("不要使用连接池。每个工作进程最多二十个连接", "使用连接池。每个工作进程最多二十个连接")
    assert found.because == ("contradicted",)


def test_similarity_finds_other_words_and_softens_silence() -> None:
    asked: list[tuple[Sequence[str], Sequence[str]]] = []

    def similarity(facts: Sequence[str], sentences: Sequence[str]) -> list[float]:
        asked.append((facts, sentences))
        return [0.9, 0.525, 0.25]

    facts = {"a": "Share database sessions.", "b": "Rotate keys.", "c": "Deploy twice.", "none": ""}
    response = "Keep a few links open and hand them round. That is all there is to it, truly."
    found = weigh(response, facts, similarity=similarity)
    assert (found["a"].verdict, found["a"].confidence, found["a"].because) == ("used", 0.765, ("meaning",))
    assert (found["b"].verdict, found["b"].confidence) == ("ignored", 0.25)
    assert (found["c"].verdict, found["c"].confidence) == ("ignored", 0.5)
    assert asked == [
        (["Share database sessions.", "Rotate keys.", "Deploy twice."], response.replace(". ", ".\n").split("\n"))
    ], "facts with a text, and sentences"
    assert weigh("", facts, similarity=similarity)["a"].verdict == "unclear"
    assert len(asked) == 1


def test_signals_of_half_and_more_are_handed_on() -> None:
    response = f"{POOL} Then create a role, grant it what it needs and run the migrations."
    items = detect_signals(response, FACTS, query=ASKED)
    assert [(item.fact_id, item.signal_type, item.confidence) for item in items] == [
        ("pool", "used", 0.85),
        ("cookies", "ignored", 0.5),
        ("ceo", "ignored", 0.5),
    ]
    assert {item.query for item in items} == {ASKED}
    assert items[0].context == "detected: overlap, topic"
    check_items(items)
    assert [item.fact_id for item in detect_signals(response, FACTS, query=ASKED, min_confidence=0.51)] == ["pool"]
    short = "For a worker: connection pooling, 20 connections."
    assert detect_signals(short, FACTS, query=ASKED) == []
    assert {item.fact_id for item in detect_signals(short, FACTS, query=ASKED, min_confidence=0)} >= {"pool"}


def test_pairs_do_as_well_as_a_mapping_and_the_exports_are_these() -> None:
    assert weigh("As f1 says.", [("f1", "")])["f1"].confidence == 0.95
    assert tellback.detect_signals is detect_signals
    assert tellback.weigh_facts is weigh_facts
    assert tellback.FactEvidence is FactEvidence


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"response": None}, "response is None"),
        ({"query": ""}, "query is blank"),
        ({"min_confidence": 1.5}, "min_confidence is 1.5"),
        ({"min_confidence": float("nan")}, "min_confidence is nan"),
        ({"facts": {"": "x"}}, r"facts\[0\].fact_id is empty"),
        ({"facts": {"f": None}}, r"facts\[0\].text is None"),
        ({"facts": [("f", "x"), ("f", "y")]}, r"facts\[1\].fact_id 'f' is a duplicate"),
        ({"facts": [3]}, r"facts\[0\] is 3"),
        ({"facts": {str(i): "x" for i in range(1_001)}}, "at most 1000"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"response": "x", "facts": {}, "query": "q", **arguments}
    with pytest.raises(InvalidInput, match=said):
        detect_signals(**given)


def test_of_a_response_too_long_to_read_nothing_is_ignored() -> None:
    """Of what was not read nobody knows what it used; what was read still counts."""
    found = weigh(f"{POOL} " + "and so on and on it goes. " * 20_000)
    assert found["pool"].verdict == "used"
    assert {found[name].verdict for name in ("cookies", "ceo")} == {"unclear"}


@pytest.mark.bulk
def test_work_is_bounded_whatever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand long facts of the words of a long response, each in an order of its own."""
    windows = 0
    score = textual_evidence.ResponseWindows._window_score

    def counted(
        self: textual_evidence.ResponseWindows, start: int, size: int, wanted: frozenset[str]
    ) -> tuple[float, int]:
        nonlocal windows
        windows += 1
        return score(self, start, size, wanted)

    monkeypatch.setattr(textual_evidence.ResponseWindows, "_window_score", counted)
    monkeypatch.setattr(textual_evidence, "MOST_WINDOWS", 20_000)
    random = Random(1)
    halves = [[f"word{chr(97 + i // 26)}{chr(97 + i % 26)}{half}" for i in range(676)] for half in "xy"]
    facts = {f"f{i}": " ".join(random.sample(halves[i % 2], 676)) for i in range(1_000)}
    found = weigh(facts["f0"] + ". " + facts["f1"], facts)
    assert found["f0"].because == found["f1"].because == ("overlap", "topic")
    assert found["f998"].because == ("topic",), "its wording was not compared any more"
    assert 10_000 < windows < 21_000


@given(
    st.text(max_size=300),
    st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=200), max_size=5),
    st.text(max_size=40),
)  # fmt: skip
def test_any_text_gives_a_verdict_within_its_bounds(response: str, facts: dict[str, str], query: str) -> None:
    for each in weigh_facts(response, facts, query=query):
        assert 0 <= each.used <= 0.95
        assert 0 <= each.ignored <= 1
        assert each.confidence == pytest.approx(abs(each.used - 0.5 * each.ignored), abs=1e-4)
        expected = "used" if each.used - 0.5 * each.ignored > 0.2 else "ignored"
        assert each.verdict == (expected if each.confidence > 0.2001 else each.verdict)


@pytest.mark.programs
def test_looking_at_a_response_needs_neither_redis_nor_a_model() -> None:
    code = "import sys, tellback; tellback.weigh_facts('As f1 says', {'f1': 'x'}); "
    code += "assert not {'numpy', 'redis', 'torch', 'celery'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


LONG = 40  # characters; shorter results are mere confirmations
STRANGE = 4


class ReplayedAnswer(NamedTuple):
    query: str
    text: str
    facts: dict[str, str]


def _answers(source: Conversations) -> Iterator[ReplayedAnswer]:
    """Each answer that follows a tool's result, with that and four of other tasks."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in source.raw.splitlines()]
    results: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        results[row["task_id"]] += [
            message["content"]
            for message in row["messages"]
            if message["role"] == "tool" and len(message["content"]) > LONG
        ]
    random = Random(1)
    for row in rows:
        others = [text for task, texts in results.items() if task != row["task_id"] for text in texts[:2]]
        query = ""
        for before, message in zip(row["messages"], row["messages"][1:], strict=False):
            query = before["content"] if before["role"] == "user" else query
            said = message["content"] if message["role"] == "assistant" and not message.get("tool_calls") else None
            if said and before["role"] == "tool" and len(before["content"]) > LONG:
                strange = {f"strange{i}": text for i, text in enumerate(random.sample(others, STRANGE))}
                yield ReplayedAnswer(query, said, {"own": before["content"], **strange})


def test_what_it_submits_is_mostly_right(source: Conversations) -> None:
    """It is judged at the confidence from which signals are submitted."""
    reported: Counter[tuple[str, str]] = Counter()
    answers = list(_answers(source))
    for query, text, facts in answers:
        for item in detect_signals(text, facts, query=query):
            reported["own" if item.fact_id == "own" else "strange", item.signal_type] += 1
    used, ignored = reported["own", "used"], reported["strange", "ignored"]
    assert len(answers) == source.answers
    assert used / (used + reported["strange", "used"]) > 0.95
    assert ignored / (ignored + reported["own", "ignored"]) > 0.94
    assert used > 0.6 * len(answers), "most of what was used is seen"
    assert ignored > 0.4 * STRANGE * len(answers)
