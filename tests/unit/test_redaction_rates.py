"""How much is caught and how much is left alone, measured on generated secrets and on text that holds none."""

from __future__ import annotations

import re
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from tellback.redaction import SOURCE_RULES, Redactor, find_secret, redact_text
from tellback.redaction.assignments import SECRET_HAS, SECRETS
from tellback.redaction.glance import Glance, has_any
from tellback.redaction.redactor import fold
from tellback.redaction.rules import Scan, scans
from tests.support.leaks import KINDS as LEAK_KINDS
from tests.support.leaks import leaks
from tests.support.secrets import KINDS, resembling, secrets

PROSE = "The runner keeps what a command printed, and an agent reads it with its next turn.\n"
LEAKS_EACH = 12
EACH = 12  # lines of a kind
CONVERSATIONS = Path(__file__).parents[3] / "shared" / "data" / "agent_conversations.jsonl"
_SOURCE = re.compile("|".join(pattern for _, pattern in SOURCE_RULES), re.IGNORECASE)


def test_of_two_hundred_kinds_98_percent_are_caught() -> None:
    """Each kind in many forms; no kind is missed more often than not."""
    missed = Counter(kind for kind, line in secrets(seed=20260105, each=EACH) if find_secret(line) is None)
    assert KINDS >= 200
    assert sum(missed.values()) <= 0.02 * EACH * KINDS, missed.most_common(20)
    assert not [kind for kind, count in missed.items() if count > EACH // 2]


def test_of_a_second_set_in_whole_lines_98_percent_are_caught() -> None:
    """Settings, manifests, command lines, headers, connection strings; of two lines, the one with the value."""
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
    hidden = Redactor().hidden("\n".join(lines))
    found = {number for number, line in enumerate(lines) if find_secret(line)}
    assert set(hidden) == found
    assert {number for number, line in enumerate(lines) if redact_text(line) != line} == found  # the short way, too


def test_a_glance_never_misses_what_a_scan_finds() -> None:
    """A short text is spared a scan only where the scan would find nothing."""
    assert [word for word in SECRETS if not has_any(word, SECRET_HAS)] == []
    lines = [line for _, line in secrets(seed=11, each=3)] + [text for _, _, text in leaks(seed=13, each=3)]
    lines += list(resembling(seed=12, each=2))
    for line in lines:
        for text in (line, f"{PROSE}{line}\n{PROSE}", f"naïve – 鍵 {line}"):
            spared = [scan for scan in scans().plain if scan.clean_by(Glance(text), text) and not scan.clean(text)]
            small = fold(text)
            spared += [scan for scan in scans().folded if scan.clean_by(Glance(text), small) and not scan.clean(small)]
            assert not spared, text


def test_a_glance_spares_clean_prose_most_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what a short text's cost hangs on."""
    searched: list[Scan] = []
    search = Scan.clean

    def counted(scan: Scan, folded: str) -> bool:
        searched.append(scan)
        return search(scan, folded)

    monkeypatch.setattr(Scan, "clean", counted)
    assert find_secret(PROSE * 12) is None
    assert len(searched) < (len(scans().plain) + len(scans().folded)) / 2


def test_what_only_resembles_secrets_stays() -> None:
    """Hashes, UUIDs, versions, pictures in base64, settings, prose and code that speak of secrets."""
    touched = {line for line in resembling(seed=7, each=20) if find_secret(line)}
    assert not touched


def test_of_source_code_less_than_one_line_in_a_thousand_is_touched() -> None:
    """The standard library of Python speaks of passwords, tokens and keys; the source document's own rules aside."""
    touched, lines = _touched(sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")))
    assert lines > 50_000
    assert len(touched) < 0.001 * lines, touched


@pytest.mark.skipif(
    not CONVERSATIONS.exists(), reason="the conversations lie beside the project, where they are at all"
)
def test_of_conversations_less_than_one_line_in_a_thousand_is_touched() -> None:
    touched, lines = _touched([CONVERSATIONS], split=r"\\n|[\n,]")
    assert lines > 10_000
    assert len(touched) < 0.001 * lines, touched


def _touched(paths: list[Path], split: str = r"\n") -> tuple[list[str], int]:
    touched: list[str] = []
    count = 0
    for path in paths:
        lines = re.split(split, path.read_text("utf-8", errors="replace"))
        count += len(lines)
        hidden = Redactor().hidden("\n".join(lines))
        touched += [lines[number] for number in hidden if not _SOURCE.search(lines[number])]
    return touched, count
