"""Results of coding tools, written by hand for these tests, are named what they are. Requirement G-81."""

from __future__ import annotations

from collections import Counter

import pytest

from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.evidence import Finding, verdict_of
from tellback.guidance.observations.evidence_builder import build_evidence
from tests.support.tool_results import PrintedResult, read_samples

SAMPLES = list(read_samples())
HEALTHY_RUNS = [
    sample
    for sample in SAMPLES
    if sample.verdict == "success" and sample.tool == "Bash" and "<returncode>" not in sample.text
]


def _finding(sample: PrintedResult) -> Finding:
    return classify(build_evidence(sample.tool, **sample.arguments()), {})


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.about)
def test_each_result_is_named_what_it_is(sample: PrintedResult) -> None:
    found = _finding(sample)
    assert (verdict_of(found.code), found.message[:200]) == (sample.verdict, found.message[:200])
    assert found.code == sample.options.get("code", found.code)
    assert sample.options.get("names", "") in found.message


def test_the_samples_hold_enough_of_each_verdict() -> None:
    count = Counter(sample.verdict for sample in SAMPLES)
    assert count["failure"] > 250
    assert count["success"] > 200
    assert count["neutral"] >= 5
    assert len({sample.about for sample in SAMPLES}) == len(SAMPLES)


# All samples in one test: pytest takes three times as long for a test of its own as `classify` for a sample.
def test_an_exit_code_of_zero_beside_a_healthy_output_changes_nothing() -> None:
    failures: dict[str, str] = {}
    for sample in HEALTHY_RUNS:
        text = f"<returncode>0</returncode>\n<output>\n{sample.text}\n</output>"
        found = classify(build_evidence("bash", sample.params, text, None), {})
        if verdict_of(found.code) != "success":
            failures[sample.about] = found.message[:200]
    assert failures == {}


def test_the_text_of_a_file_is_no_failure_whatever_it_says() -> None:
    failures: dict[str, str] = {}
    for sample in SAMPLES:
        log = f"1\n{sample.text}\n" * 3
        found = classify(build_evidence("Read", {"file_path": "/repo/build/output.log"}, log, None), {})
        if verdict_of(found.code) != "success":
            failures[sample.about] = found.message[:200]
    assert failures == {}
