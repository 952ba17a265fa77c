"""Nudges are judged by the labelled stretches alone, and the labels obey their rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import nudges
from benchmarks.labels import agreement
from benchmarks.labels.agreement import (
    adjudicated_labels,
    both_readings,
    cohens_kappa,
    overlaps,
    read_call_pairs,
    read_pairs,
    stuck_of,
)
from benchmarks.labels.choose import signs_of
from benchmarks.labels.stretches import Stretch, meets, read_labels
from benchmarks.peers import openclaw, tellback_0_1_0, zeroclaw
from benchmarks.readers import reader_score, reported_of_both, right_for_one
from benchmarks.scoring import LabelScore, Share
from benchmarks.transcripts import HALVES, Half, half_of, read_coding, task_of
from tellback.replay.transcript import ToolResult
from tests.support.outside_data import recorded
from tests.unit.test_labels import transcript

DONE = "msa-x-django__django-1"
STRETCHES = [
    Stretch(DONE, "django-1", 1, 4, "getting_on", "reads"),
    Stretch(DONE, "django-1", 5, 14, "stuck", "the same failure", 7, "same_failure"),
    Stretch(DONE, "django-1", 15, 16, "unclear", "a probe"),
    Stretch(DONE, "django-1", 17, 20, "getting_on", "fixes it"),
]


def scored(*spoken: int) -> LabelScore:
    score = LabelScore()
    score.add(STRETCHES, spoken)
    return score


def call(command: str, result: str = "ok", *, failed: bool = False, tool: str = "bash") -> ToolResult:
    return ToolResult(tool, {"command": command}, result, "error" if failed else "success", None)


@pytest.mark.parametrize(
    ("spoken", "right", "false", "unclear"),
    [
        (4, 0, 1, 0),  # while it gets on
        (5, 0, 1, 0),  # in the stretch, before the evidence
        (6, 0, 1, 0),
        (7, 1, 0, 0),  # at the evidence
        (14, 1, 0, 0),  # the stretch's last call
        (15, 0, 0, 1),
        (17, 0, 1, 0),  # the call that ends being stuck
    ],
)
def test_a_nudge_is_right_from_the_evidence_to_the_end_of_the_stretch(
    spoken: int, right: int, false: int, unclear: int
) -> None:
    score = scored(spoken)
    assert (score.right, score.false, score.unclear) == (right, false, unclear)


@pytest.mark.parametrize(("spoken", "in_time"), [(6, 0), (7, 1), (10, 1), (11, 0), (15, 0)])
def test_a_stretch_is_nudged_in_time_within_three_calls_of_its_evidence(spoken: int, in_time: int) -> None:
    assert scored(spoken).recall == Share(in_time, 1)


def test_a_stretch_that_is_nudged_twice_counts_once_and_both_nudges_are_right() -> None:
    score = scored(9, 8)
    assert (score.precision, score.recall, score.delays) == (Share(2, 2), Share(1, 1), (1, 1))


def test_a_nudge_that_comes_early_does_not_hide_one_in_time() -> None:
    score = scored(6, 8)
    assert (score.precision, score.recall) == (Share(1, 2), Share(1, 1))
    assert score.false_kinds == {"too early": 1}


def test_a_late_nudge_is_right_and_has_its_delay() -> None:
    score = scored(13)
    assert (score.precision, score.recall, score.delays) == (Share(1, 1), Share(0, 1), (6, 6))


def test_without_nudges_there_is_no_precision() -> None:
    assert str(scored().precision) == "none"
    assert scored().delays is None


def test_the_interval_is_that_of_wilson() -> None:
    assert Share(5, 10).interval == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert Share(0, 4).interval == pytest.approx((0.0, 0.4899), abs=1e-4)


def test_transcripts_of_one_instance_stand_in_one_half() -> None:
    names = [f"{prefix}-django__django-11848" for prefix in ("msa-deepseek_chat", "oh", "moat")]
    assert {task_of(name) for name in names} == {"django-11848"}
    assert task_of("cc-04cd0da1-adf9") == "cc-04cd0da1-adf9"
    assert {half_of(str(n)) for n in range(9)} == set(HALVES)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"first": 6}, "call 5 follows"),
        ({"since": 15}, "outside"),
        ({"since": None}, "belong to stuck"),
        ({"task": "django-2"}, "half or task"),
        ({"enriched": True}, "in part"),
        ({"transcript": "another"}, "stand together"),
    ],
)
def test_labels_that_break_a_rule_are_refused(tmp_path: Path, change: dict[str, object], fault: str) -> None:
    write_labels(tmp_path)
    assert read_labels(half_of("django-1"), tmp_path) == {DONE: STRETCHES}
    write_labels(tmp_path, change)
    with pytest.raises(ValueError, match=fault):
        read_labels(half_of("django-1"), tmp_path)


def write_labels(folder: Path, change: dict[str, object] | None = None) -> None:
    rows = [{name: getattr(each, name) for name in each.__struct_fields__} for each in STRETCHES]
    rows[1] |= change or {}
    (folder / f"{half_of('django-1')}.jsonl").write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize("half", HALVES)
def test_the_labels_obey_the_rules(half: Half) -> None:
    stretches = [each for found in read_labels(half).values() for each in found]
    assert len(stretches) >= 110
    assert sum(each.label == "stuck" for each in stretches) >= 40
    assert {each.enriched for each in stretches} == {False, True}


@pytest.mark.slow
@pytest.mark.parametrize("half", HALVES)
def test_the_labels_cover_the_calls_of_their_transcripts(half: Half) -> None:
    calls = {each.id: len(each.calls) for each in read_coding(recorded("coding_transcripts.jsonl.xz"))}
    for name, stretches in read_labels(half).items():
        assert (name, stretches[-1].last) == (name, calls[name])


def test_zeroclaws_first_rules_speak_at_sameness_turns_and_failures() -> None:
    assert zeroclaw.nudged_by_first([call("a")] * 5) == [3]
    assert zeroclaw.nudged_by_first([call("a", str(n)) for n in range(5)]) == []
    assert zeroclaw.nudged_by_first([call("a"), call("b")] * 2) == [4]
    assert zeroclaw.nudged_by_first([call(str(n), str(n), failed=True) for n in range(4)]) == [3]
    assert zeroclaw.nudged_by_first([call(str(n), f"<returncode>1</returncode> {n}") for n in range(4)]) == [3]
    ending = [call(str(n), f"{n}\n[Command finished with exit code {n}]") for n in range(4)]
    assert zeroclaw.nudged_by_first(ending) == [4]


def test_zeroclaws_later_rules_count_over_a_window() -> None:
    assert zeroclaw.nudged_calls([call("a", str(n)) for n in range(3)]) == [3]
    assert zeroclaw.nudged_calls([call(str(n), tool="ab"[n % 2], result=str(n)) for n in range(8)]) == [8]
    near = [each for n in range(5) for each in (call(str(n), "denied"), call(f"between {n}", str(n)))]
    assert zeroclaw.nudged_calls(near) == [9]


def test_openclaw_warns_at_the_eleventh_and_is_critical_at_the_twenty_first() -> None:
    spoken = openclaw.nudged_calls([call("a")] * 22)
    assert spoken == [11, 21, 22]
    assert openclaw.nudged_calls([call("a", str(n)) for n in range(22)]) == [11, 21]
    assert openclaw.nudged_calls([call(str(n)) for n in range(30)]) == []


def test_the_frozen_row_speaks_at_its_levels() -> None:
    assert tellback_0_1_0.nudged_calls([call(str(n) * 9, failed=True) for n in range(8)]) == [2, 4, 8]
    assert tellback_0_1_0.nudged_calls([call("a")] * 8) == [3, 5, 8]
    assert tellback_0_1_0.nudged_calls([call(f"{n} {n}") for n in range(16)]) == [16]


def test_signs_of_being_stuck_are_counted() -> None:
    assert signs_of([call(str(n), f"at {n}\nError: no file {n}") for n in range(3)]) == 1
    assert signs_of([call("a", "x"), call("a", "y")] * 2) == 1
    assert signs_of([call("a", "x")] * 3) == 1
    assert signs_of([call("a", "x")] * 2) == 0


def test_the_table_counts_nudges_by_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "coding.jsonl"
    file.write_text(json.dumps({**transcript("django-1"), "id": DONE, "reward": 0.0}))
    half = half_of("django-1")
    monkeypatch.setattr(nudges, "read_labels", one_stuck)
    nudges.main([str(file), "--half", half])
    shown = capsys.readouterr().out
    assert (
        "| zeroclaw | – | 0.333 | – | 1.00 (1 of 1; 0.21 to 1.00) | 1.00 (1 of 1; 0.21 to 1.00) | 0, 0 | 0 |" in shown
    )
    assert "| zeroclaw, sampled alone |" in shown
    nudges.main([str(file), "--half", half, "--json"])
    row = json.loads(capsys.readouterr().out)[half]["zeroclaw"]
    assert row["labelled"]["stuck"] == [{"transcript": DONE, "kind": None, "since": 3, "reported": 3}]
    assert row["nudges_per_call"] == {"solved": None, "not solved": 1 / 3, "unknown": None}


def test_the_same_nudges_are_judged_by_the_adjudicated_labels_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "coding.jsonl"
    file.write_text(json.dumps({**transcript("django-1"), "id": DONE, "reward": 0.0}))
    half = half_of("django-1")
    monkeypatch.setattr(nudges, "read_labels", one_stuck)
    monkeypatch.setattr(nudges, "adjudicated_labels", all_getting_on)
    nudges.main([str(file), "--half", half])
    by_labels, by_adjudicated = capsys.readouterr().out.split(f"**{half}, by the adjudicated labels**: 1 labelled")
    assert "| zeroclaw | – | 0.333 | – | 1.00 (1 of 1;" in by_labels
    assert "| zeroclaw | – | 0.333 | – | 0.00 (0 of 1; 0.00 to 0.79) | none | – | 0 |" in by_adjudicated
    assert "| the labels | | | | 0.00 (0 of 1;" in by_adjudicated
    nudges.main([str(file), "--half", half, "--json"])
    row = json.loads(capsys.readouterr().out)[half]["zeroclaw"]
    assert (row["labelled"]["precision"]["part"], row["adjudicated"]["labelled"]["precision"]["part"]) == (1, 0)
    assert row["adjudicated"]["labelled"]["false"] == {"getting on": 1}


def test_the_tune_half_has_no_adjudicated_labels() -> None:
    assert adjudicated_labels("tune") == {}


def all_getting_on(_: Half) -> dict[str, list[Stretch]]:
    return {DONE: [Stretch(DONE, "django-1", 1, 3, "getting_on", "")]}


def one_stuck(_: Half) -> dict[str, list[Stretch]]:
    return {DONE: [Stretch(DONE, "django-1", 1, 3, "stuck", "", 3)]}


def test_kappa_is_the_agreement_beyond_chance() -> None:
    pairs = [("a", "a")] * 20 + [("a", "b")] * 5 + [("b", "a")] * 10 + [("b", "b")] * 15
    assert cohens_kappa(pairs) == pytest.approx(0.4)  # Cohen's own form: 0.7 agree, 0.5 would by chance
    assert cohens_kappa([("a", "a")]) == 1.0


def test_a_second_reader_agrees_with_the_labels() -> None:
    """Above 0.8 is called almost perfect."""
    labels = [(one.label, two.label) for one, two in read_pairs()]
    assert len(labels) == 60
    assert cohens_kappa(labels) > 0.8


@pytest.mark.parametrize(("half", "calls", "least"), [("tune", 1206, 0.8), ("measure", 4707, 0.7)])
def test_a_reader_of_whole_transcripts_agrees_with_the_labels_call_by_call(
    half: Half, calls: int, least: float
) -> None:
    """From 0.6 to 0.8 is called substantial."""
    pairs = list(read_call_pairs(half))
    assert len(pairs) == calls
    assert cohens_kappa(pairs) > least


def test_the_measured_half_was_read_whole_a_second_time() -> None:
    labels, again = both_readings("measure")
    assert labels.keys() == again.keys() == read_labels("measure").keys()
    assert (len(stuck_of(labels)), len(stuck_of(again))) == (48, 33)


def test_stretches_meet_in_a_call_of_one_transcript() -> None:
    reads, stuck, probe, fixes = STRETCHES
    assert meets(stuck, Stretch(DONE, "django-1", 14, 20, "getting_on", ""))
    assert not meets(stuck, probe)
    assert not meets(stuck, Stretch("another", "django-1", 5, 14, "stuck", "", 7))
    assert overlaps(stuck, {DONE: [Stretch(DONE, "django-1", 1, 6, "unclear", "")]}, "unclear")
    assert not overlaps(stuck, {DONE: [reads, probe, fixes]}, "getting_on")


def test_the_figures_of_all_readers_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    agreement.main()
    shown = capsys.readouterr().out
    assert "55 of 60 labels agree, kappa 0.81" in shown
    assert "49 of 50 windows agree on whether they hold evidence" in shown
    assert "1159 of 1206 calls agree, kappa 0.85" in shown
    assert "4518 of 4707 calls agree, kappa 0.73" in shown
    assert "stuck by the labels alone, and what it is to the other: none" in shown
    assert "measure half, adjudicated: 58 disputes over 569 calls" in shown
    assert "decided as the labels 14, as the reader 31, otherwise 13\n" in shown
    assert "46 stretches stuck, 140 getting on, 6 unclear" in shown
    assert "stuck by neither, but adjudicated so: 1\n" in shown


AGAIN = [
    Stretch(DONE, "django-1", 1, 8, "getting_on", "reads"),
    Stretch(DONE, "django-1", 9, 12, "stuck", "the same failure", 11, "same_failure"),
    Stretch(DONE, "django-1", 13, 17, "getting_on", "tries more"),
    Stretch(DONE, "django-1", 18, 20, "stuck", "no more", 19, "no_substance"),
]


def test_another_reader_is_scored_as_one_who_speaks_at_each_evidence() -> None:
    score = reader_score({DONE: STRETCHES}, {DONE: AGAIN, "not labelled": AGAIN})
    assert (score.right, score.false) == (1, 1)
    assert (score.recall.part, score.recall.whole) == (0, 1)  # told at 11, four calls after the labels' evidence


@pytest.mark.parametrize(("call", "reported"), [(6, 0), (7, 1), (14, 1), (15, 0)])
def test_a_stretch_that_both_readers_call_stuck_is_reported_between_their_evidence_and_three_calls_more(
    call: int, reported: int
) -> None:
    assert reported_of_both({DONE: STRETCHES}, {DONE: AGAIN}, {DONE: [call]}) == Share(reported, 1)


def test_a_nudge_is_right_if_one_of_the_readers_calls_it_right() -> None:
    spoken = {
        DONE: [3, 8, 12, 16, 20]
    }  # false for both, right for the labels, for both, unclear for one, for the other
    assert right_for_one({DONE: STRETCHES}, {DONE: AGAIN}, spoken) == Share(3, 4)
