"""Rates of secrets caught and of text left alone, on generated secrets and on text that holds none."""

from __future__ import annotations

import re
import sysconfig
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.almost_secrets import ALMOST
from tellback.redaction import SOURCE_RULES, Redactor, find_secret, redact_text, tokens
from tellback.redaction.rules import Scan, ScanSet, all_scans, scans_for_text
from tellback.redaction.stream import StreamRedactor
from tellback.redaction.substrings import fold_ascii
from tellback.redaction.token_runs import TOKEN, TokenRuns
from tellback.redaction.values import DOUBT
from tests.support.clean_lines import resembling
from tests.support.conversations import Conversations
from tests.support.keys_apart import keys
from tests.support.leaks import KINDS as LEAK_KINDS
from tests.support.leaks import leaks
from tests.support.secret_corpus import MEASURED, TUNING, rates
from tests.support.secret_outputs import clean, in_forms, printed_by_tools
from tests.support.secrets import KINDS, secrets
from tests.support.secrets_apart import of_kinds, passwords, printed

pytestmark = pytest.mark.bulk

PROSE = "The runner keeps what a command printed, and an agent reads it with its next turn.\n"
LEAKS_EACH = 12
SEED_APART = 20261125
SEED_OF_OUTPUTS = 20261126
EACH = 12  # lines of a kind
_SOURCE = re.compile("|".join(pattern for _, pattern in SOURCE_RULES), re.IGNORECASE)


def test_of_two_hundred_kinds_98_percent_are_caught() -> None:
    """Each kind is tried in many forms; none is missed more often than not."""
    missed = Counter(kind for kind, line in secrets(seed=20260105, each=EACH) if find_secret(line) is None)
    assert KINDS >= 200
    assert sum(missed.values()) <= 0.02 * EACH * KINDS, missed.most_common(20)
    assert not [kind for kind, count in missed.items() if count > EACH // 2]


def test_of_a_second_set_in_whole_lines_98_percent_are_caught() -> None:
    """They are settings, manifests, command lines, headers and connection strings; of two lines, one has the value."""
    missed: Counter[str] = Counter()
    count = 0
    for kind, _, text in leaks(seed=20260315, each=LEAKS_EACH):
        count += 1
        missed[kind] += not _hides_the_value(text)
    assert LEAK_KINDS >= 200
    assert sum(missed.values()) <= 0.02 * count, missed.most_common(20)


def _hides_the_value(text: str) -> bool:
    lines, shown = text.split("\n"), redact_text(text).split("\n")
    if "name" in lines[0] and len(lines) > 1:
        return shown[1] != lines[1]
    return shown != lines


def test_a_secret_is_caught_within_a_text_as_in_a_line_of_its_own() -> None:
    """A text of many lines is searched at once, with the same outcome."""
    lines = [line for _, line in secrets(seed=5, each=2)]
    hidden = Redactor().hidden_lines("\n".join(lines))
    found = {number for number, line in enumerate(lines) if find_secret(line)}
    assert set(hidden) == found
    assert {number for number, line in enumerate(lines) if redact_text(line) != line} == found  # the short way, too


@pytest.mark.parametrize("half", [TUNING, MEASURED])
def test_of_kinds_that_no_rule_was_written_for_99_percent_are_caught(half: str) -> None:
    """Every form counts. Of the measured half only these totals are looked at."""
    for form, (caught, count) in rates(half, seed=20261123, redact=redact_text).items():
        assert caught >= 0.99 * count, (form, caught, count)


def test_of_a_corpus_held_apart_99_percent_are_caught() -> None:
    """Every seventh sample of some 660 kinds in 140 forms is tried; in no form is one in ten missed."""
    kinds = list(of_kinds(seed=SEED_APART))[::7]
    missed = Counter(sample.form for sample in kinds if sample.leaks_in(redact_text(sample.text)))
    forms = Counter(sample.form for sample in kinds)
    assert sum(missed.values()) <= 0.01 * len(kinds), missed.most_common(20)
    assert not [form for form, count in missed.items() if count > max(2, 0.1 * forms[form])], missed


def test_of_passwords_and_of_what_programs_print_90_percent_are_hidden() -> None:
    """They stand on command lines, in files and sentences; what stays lacks a name and a form, as codes in a list."""
    for samples in (passwords(seed=SEED_APART), printed(seed=SEED_APART)):
        tried = list(samples)
        missed = Counter(sample.form for sample in tried if sample.leaks_in(redact_text(sample.text)))
        assert sum(missed.values()) <= 0.1 * len(tried), missed


# 35,000 samples, 3 ms each. Of 268 of those that only a name gives away, chance makes the rate differ by 1.3 %.
@pytest.mark.parametrize(("every", "of_names"), [(41, 0.93), pytest.param(7, 0.95, marks=pytest.mark.slow)])
def test_of_secrets_in_the_output_of_real_tools_nearly_all_are_hidden(every: int, of_names: float) -> None:
    """The set was written before its writer read the rules; each nth sample of 200 kinds in 178 forms is tried."""
    tried = list(in_forms(seed=SEED_OF_OUTPUTS))[::every]
    for bare, least in ((True, 0.99), (False, of_names)):
        caught = [not sample.leaks_in(redact_text(sample.text)) for kind, sample in tried if kind.bare == bare]
        assert sum(caught) >= least * len(caught), (bare, sum(caught), len(caught))
    printed_ones = list(printed_by_tools(seed=SEED_OF_OUTPUTS))
    missed = [sample.form for sample in printed_ones if sample.leaks_in(redact_text(sample.text))]
    assert len(missed) <= 0.06 * len(printed_ones), missed


def test_clean_output_of_the_same_tools_stays() -> None:
    """The 460 lines are about secrets but hold none, each with other random ids.

    Signatures are taken for secrets, and by chance a few marks of pages: long base64 for URLs looks like a token.
    """
    touched = set[tuple[str, str]]()
    for title, text in clean(seed=SEED_OF_OUTPUTS, times=8):
        lines = text.split("\n")
        touched |= {
            (title, lines[number]) for number in Redactor().hidden_lines(text) if not _SOURCE.search(lines[number])
        }
    unexpected = [(title, line) for title, line in touched if "signature" not in line]
    assert {title for title, _ in unexpected} <= {"aws paging"}, unexpected
    assert len(unexpected) <= 4, unexpected


def test_each_line_of_a_key_is_hidden_behind_any_margin_and_in_any_wrapping() -> None:
    tried = list(keys(seed=SEED_APART))
    assert [sample[:2] for sample in tried if sample.leaks_in(redact_text(sample.text))] == []


@pytest.mark.parametrize(
    ("named", "value"),
    [
        ("Please use the following password:\n", "\n8c1f0be2a94d47719f2e\n"),
        ("config:\n  api_key: |\n", "    hT5xQ9mZ2vL8kR4w\n"),
        ("<apiKey>\n", "  hT5xQ9mZ2vL8kR4w\n</apiKey>\n"),
        ("Secret Recovery Phrase\n", "acid zone wrap able youth zoo wreck absent act actor write yard\n"),
    ],
)
def test_a_value_below_its_name_is_hidden_wherever_the_stream_is_cut(named: str, value: str) -> None:
    text = f"before\n{named}{value}after\n"
    secret = value.strip().splitlines()[0]
    assert secret not in redact_text(text)
    for cut in range(1, len(text)):
        assert secret not in "".join(StreamRedactor().feed([text[:cut], text[cut:]])), cut


def test_no_token_is_missed_for_where_it_stands() -> None:
    """Only parts of a text are searched for tokens and issuers; to search all of it finds no more."""
    lines = [line for _, line in secrets(seed=11, each=3)] + [text for _, _, text in leaks(seed=13, each=3)]
    lines += list(resembling(seed=12, each=2))
    scans = all_scans()
    for line in lines:
        for text in (line, f"{PROSE}{line}\n{PROSE}", f"naïve – 鍵 {line}"):
            spaced, folded, whole = text.replace("\\n", "  "), fold_ascii(text), ((0, len(text)),)
            found = set(scans.find_all(text))
            everywhere = [match for scan in scans.tokens for match in scan.find_all(spaced, text, whole)]
            everywhere += [match for scan in scans.issued for match in scan.find_all(folded, text, whole)]
            everywhere += [
                match for word in ("key", "pat") for match in scans.random[word].find_all(folded, text, whole)
            ]
            assert set(everywhere) <= found, text


def test_nothing_is_missed_in_a_long_text() -> None:
    """Only rules whose anchor a text has are tried on it, and issuers only if a long text names one."""
    lines = [line for _, line in secrets(seed=14, each=1)] + [text for _, _, text in leaks(seed=15, each=1)]
    scans = all_scans()
    filler = "1234-5678-9012\n" * 300
    start = len(filler)
    for line in lines:
        text = f"{filler}{line}"
        folded, windows = fold_ascii(text), ((start - 1, len(text)),)
        found = set(scans.find_all(text))
        everywhere = [
            match
            for scan in (*scans.issued, *scans.sentences.values(), *scans.random.values())
            for match in scan.find_all(folded, text, windows)
        ]
        assert set(everywhere) <= found, line


def test_a_question_mark_in_code_makes_no_value_with_a_digit() -> None:
    """Minified code is full of `a?b.c:d`; near a value with a digit, every name in it would be searched."""
    code = "return n&&r?n.secret:void 0}function(e,t){var n=e.key,r=t.token;"
    assert TokenRuns(code).runs == TokenRuns(code).named == []
    assert TokenRuns(f"{code} n?1234567.secret:void").named
    assert TokenRuns("鍵: 密碼密碼密碼密碼密碼密碼").named, "what is not Latin may be a digit"


@pytest.mark.parametrize("query", ["?code=", "?state=x&code=", "?sig="])
def test_a_value_without_a_digit_is_found_in_the_query_of_a_url(query: str) -> None:
    assert find_secret(f"GET https://app.example.org/callback{query}AbCdEfGhIjKlMnOpQrStUvWx") is not None


@pytest.mark.parametrize(
    "token",
    [
        "sk_live_a1b2c3d4e5",
        "xoxe-a1b2c3d4e5",
        "xapp-1-a1b2c3d4e5",
        "npg_a1b2c3d4e5f6",
        "OC-Aa1b2c3d4e5f",
        "cli_a1b2c3d4e5f6a7b",
        "eyJhbGciOiJIUzI.ab",
        "django-insecure-x",
        "$argon2id$v=19$m=65536,t=3,p=4$GvQRdx2jA/ouNqWY3ShSrE$3u952xueZQWcsUYLcTMBxCM2",
    ],
)
def test_a_token_that_is_no_long_run_is_found_anywhere_in_prose(token: str) -> None:
    """A text is searched for prefixes only in runs of `TOKEN` characters; a comma ends a run."""
    assert set(Redactor().hidden_lines(f"{PROSE * 60}so it is ({token}) now\n{PROSE}")) == {60}


def test_every_shorter_token_has_a_fixed_text() -> None:
    """A prefix whose token may be shorter than a run would be found only where other text makes a run of it."""
    parser: Any = import_module("re._parser")
    anchors = tuple(rule.anchor for rule in tokens.SHORT)
    for name, rest, prefixes in tokens.PREFIXED:
        for prefix in prefixes.split():
            shortest = len(prefix) + parser.parse(rest.replace(DOUBT, "")).getwidth()[0]
            assert shortest >= TOKEN or any(anchor in prefix for anchor in anchors), (name, prefix)


def test_clean_prose_compiles_hardly_any_scan() -> None:
    """A short-lived process pays for the expressions that its texts need."""
    all_scans.cache_clear()
    scans = all_scans()
    assert not list(scans.find_all(PROSE * 12))
    assert sum("_compiled" in vars(scan) for scan in _every(scans)) < 10


def test_the_scans_for_a_text_are_those_whose_words_it_has() -> None:
    """A hook process redacts one event; to compile rules of other words took a third of its time."""
    scans = scans_for_text("/srv/app/module_12.py:12: def handle(self, value: int = 12) -> None:\n" * 9)
    assert {scan.anchor for scan in _every(scans)} == {""}, "the tree of `_` and `:` alone"
    asked = scans_for_text("export STRIPE_KEY=1a2b3c4d5e6f7a8b9c0d and the token is abc")
    assert {"key", "token"} <= {scan.anchor for scan in _every(asked)}


def test_every_repeat_of_every_rule_is_bounded() -> None:
    """Each position of a text then costs at most a constant, whatever the text is."""
    parser: Any = import_module("re._parser")
    for pattern, anchor in {scan.pattern: scan.anchor for scan in _every(all_scans())}.items():
        assert _longest_repeat(parser.parse(pattern, re.MULTILINE)) <= 2_000, anchor


def _every(scans: ScanSet) -> list[Scan]:
    anchored = [scans.plain, scans.phrases, scans.sentences, scans.random, scans.folded, scans.near_digits]
    found = [scan for group in (*anchored, scans.anywhere) for scan in group.values()]
    return [*found, *scans.tokens, *scans.short_tokens, *scans.issued]


def _longest_repeat(part: object) -> int:
    """Return the highest number of times that any part of a parsed pattern may repeat."""
    if type(part).__name__ == "SubPattern":
        return max((_longest_repeat(item) for item in cast("Iterable[object]", part)), default=0)
    if not isinstance(part, tuple | list):
        return 0
    items = list(cast("Iterable[object]", part))
    repeats = len(items) == 3 and type(items[2]).__name__ == "SubPattern" and isinstance(items[1], int)
    return max((int(cast("int", items[1])) if repeats else 0, *map(_longest_repeat, items)))


def test_what_only_resembles_secrets_stays() -> None:
    """These are hashes, UUIDs, versions, pictures in base64, settings, and prose and code that speak of secrets."""
    touched = {line for line in resembling(seed=7, each=20) if find_secret(line)}
    assert not touched


@pytest.mark.parametrize("kind", ALMOST)
def test_what_the_benchmark_takes_for_almost_a_secret_stays(kind: str) -> None:
    assert redact_text(ALMOST[kind] * 3) == ALMOST[kind] * 3


@pytest.mark.parametrize(
    "token",
    [
        "nsec1" + "u8vwqs3exsnuz5gyyk56xae89xcmh048g5llcghq4r256jx6zw48lqfgcy",
        "cs" + "c81a2811755ef3e34e78dd81f5389bdb",
        "xprv" + "9s21ZrQH143K" * 9,
        "1000." + "a1b2c3d4e5f60718" * 2 + "." + "0a1b2c3d4e5f6071" * 2,
        "gcntfy-app-key-" + "a1b2c3d4-e5f6-4a1b-8c2d-3e4f5a6b7c8d",
        "sk" + "a1B2c3D4e5" * 8,
        "aB3dE5fG7hI9jK1lM3nO5p" + "==:" + "a1B2c3D4e5" * 3,
    ],
)
@pytest.mark.parametrize("before", ["", "nostr: ", '"', "PAD ("])
def test_a_token_without_a_sign_after_its_prefix_is_hidden_where_a_word_begins(before: str, token: str) -> None:
    assert find_secret(before + token)
    assert (find_secret(f"{before}x{token}") is None) == ("==:" not in token)


def test_of_source_code_less_than_half_a_line_in_ten_thousand_is_touched() -> None:
    """The standard library of Python speaks of passwords, tokens and keys; the five fixed patterns aside."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    touched, lines = _touched([path.read_text("utf-8", errors="replace") for path in files])
    assert lines > 50_000
    assert len(touched) < 0.00005 * lines, touched


def test_of_conversations_less_than_one_line_in_a_thousand_is_touched(source: Conversations) -> None:
    touched, lines = _touched([source.raw.decode()], split=r"\\n|[\n,]")
    assert lines > 10 * source.calls
    assert len(touched) < 0.001 * lines, touched


def _touched(texts: list[str], split: str = r"\n") -> tuple[list[str], int]:
    touched: list[str] = []
    count = 0
    for text in texts:
        lines = re.split(split, text)
        count += len(lines)
        hidden = Redactor().hidden_lines("\n".join(lines))
        touched += [lines[number] for number in hidden if not _SOURCE.search(lines[number])]
    return touched, count
