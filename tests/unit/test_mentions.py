"""Facts that a response names by id, and signs that it used them."""

from __future__ import annotations

import pytest

from tellback.signals.textual_evidence import find_named_facts

IDS = ("f1", "f2", "f3", "session-cookies", "42", "pool", "事实7")


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("As f1 says.", "f1"),
        ("(f1), [f2]; `f3`", "f1 f2 f3"),
        ("根据f1的内容", "f1"),
        ("见事实7的内容", "事实7"),
        ("Session-Cookies says so", "session-cookies"),
        ("F1 won in Monaco", ""),
        ("f12, f1-b, a/f1, f1.py, xf1, f1_x", ""),
        ("42 users in the pool", ""),
        ("[42], #42 and [pool]", "42 pool"),
        ("facts 42 and pool", "42 pool"),
        ("f1, 42 and f2", "f1 42 f2"),
        ("", ""),
    ],
)
def test_an_id_counts_where_it_stands_for_the_fact(text: str, used: str) -> None:
    """A plain word or a number has to be cited; part of another word is no mention."""
    assert find_named_facts(text, IDS).used == set(used.split())
    assert not find_named_facts(text, IDS).rejected


@pytest.mark.parametrize(
    "text",
    [
        "I did not use f1.",
        "I didn't rely on [f1].",
        "I didn\u2019t rely on [f1].",
        "The answer needs no guess; without f1.",
        "Ignoring fact f1, I looked myself.",
        "rather than f1, I looked myself",
        "f1 was not relevant.",
        "f1 isn't useful here",
        "f1 was irrelevant",
        "f1 is of no use",
        "Ich habe f1 nicht verwendet.",
        "Ohne f1 zu nutzen, ging es auch.",
        "f1 wurde nicht berücksichtigt",
        "Je n'ai pas utilisé f1.",
        "f1 n'a pas été utilisé",
        "No usé f1.",
        "f1 no fue útil",
        "Я не использовал f1.",
        "f1 не был использован",
        "我没有使用f1。",
        "f1没有被使用",
        "f1は使いませんでした。",
        "f1は関係ありません",
        "لم أستخدم f1",
        "بدون استخدام f1",
        "Non ho usato f1.",
        "f1 non è stato utile",
        "Senza usare f1.",
        "Não usei f1.",
        "f1 não foi utilizado",
        "Ik heb f1 niet gebruikt.",
        "Zonder f1 ging het ook.",
        "Nie użyłem f1.",
        "f1 nie był potrzebny",
        "Bez f1 też się udało.",
        "f1은 사용하지 않았습니다.",
        "f1은 관련이 없습니다.",
        "f1 kullanmad\u0131m.",
        "f1'i kullanmad\u0131m.",
        "f1 kullan\u0131lmad\u0131",
    ],
)
def test_a_fact_that_the_response_rejects_is_not_used(text: str) -> None:
    named = find_named_facts(text, IDS)
    assert not named.used
    assert named.rejected == {"f1"}


@pytest.mark.parametrize(
    ("text", "used", "rejected"),
    [
        ("I used f1, not f2.", "f1", "f2"),
        ("I did not use f1 but f2.", "f2", "f1"),
        ("I used neither f1 nor f2, only f3.", "f3", "f1 f2"),
        ("I did not use any of the facts f1, f2 or f3.", "", "f1 f2 f3"),
        ("f1 and f2 were not used. f3 was.", "f3", "f1 f2"),
        ("I first ignored f1. Then I used f1 after all.", "f1", "f1"),
        ("You must not use plain passwords [f1].", "f1", ""),
        ("Never share them [f1], and do not log them [f2].", "f1 f2", ""),
        ("I could not have done it without using f1.", "f1", ""),
        ("Do not ignore f1.", "f1", ""),
        ("f1 was not ignored.", "f1", ""),
        ("Without f1 I could not have answered.", "f1", ""),
        ("Without fact f1, this wouldn't have been possible.", "f1", ""),
        ("Ignoring f1 would be a mistake.", "f1", ""),
        ("Without f1 I could answer.", "", "f1"),
        ("Usei f1, não f2.", "f1", "f2"),
        ("Ho usato f1.", "f1", ""),
        ("Użyłem f1, nie f2.", "f1", "f2"),
        ("f1을 사용했습니다.", "f1", ""),
        ("f1 kulland\u0131m.", "f1", ""),
        ("Ik heb f1 gebruikt.", "f1", ""),
        ("f1を使いました。", "f1", ""),
    ],
)
def test_a_rejection_reaches_the_facts_that_it_is_about(text: str, used: str, rejected: str) -> None:
    """A list is rejected together; a sentence that says no and cites a fact for it rejects nothing."""
    named = find_named_facts(text, IDS)
    assert named.used == set(used.split())
    assert named.rejected == set(rejected.split())


def test_of_ids_within_ids_the_longer_is_meant() -> None:
    assert find_named_facts("see a-1-b", ["a-1", "a-1-b", "1"]).used == {"a-1-b"}
    assert find_named_facts("see note 7 b", ["note 7", "note 7 b", "7"]).used == {"note 7 b"}


def test_signs_of_our_own_in_a_text_mislead_nothing() -> None:
    assert find_named_facts("not \ue0000\ue001 and f1", ["f1"]).used == {"f1"}
