"""Labels of stretches: disputes of two readings are found and settled, and thresholds are chosen on other tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from benchmarks import folds
from benchmarks.folds import FOLDS, fold_of
from benchmarks.labels import adjudicate
from benchmarks.labels.agreement import adjudicated_labels, both_readings
from benchmarks.labels.disputes import Span, disputes, settle, settle_all, sided_with
from benchmarks.labels.stretches import Stretch, faults_of
from benchmarks.transcripts import Half, half_of
from tellback.guidance.progress import detectors

NAME = "msa-x-django__django-1"
Reading = list[Stretch]


def on(first: int, last: int, why: str = "reads") -> Stretch:
    return Stretch(NAME, "django-1", first, last, "getting_on", why)


def doubt(first: int, last: int) -> Stretch:
    return Stretch(NAME, "django-1", first, last, "unclear", "a probe")


def stuck(first: int, last: int, since: int, why: str = "the same failure") -> Stretch:
    return Stretch(NAME, "django-1", first, last, "stuck", why, since, "same_failure")


ONES = [on(1, 4), stuck(5, 9, 7), on(10, 20)]
TWOS = [on(1, 6), stuck(7, 9, 8), on(10, 14), doubt(15, 16), on(17, 20)]


@pytest.mark.parametrize(
    ("ones", "twos", "spans"),
    [
        (ONES, ONES, []),
        (ONES, TWOS, [(5, 9), (15, 16)]),  # the stuck stretch as a whole, not just its first two calls
        ([on(1, 9)], [on(1, 3), doubt(4, 6), on(7, 9)], [(4, 6)]),
        ([stuck(1, 9, 3)], [stuck(1, 9, 6)], []),  # both nudges are in time
        ([stuck(1, 9, 3)], [stuck(1, 9, 7)], [(1, 9)]),
        ([stuck(1, 4, 3), on(5, 9)], [on(1, 3), stuck(4, 9, 6)], [(1, 9)]),  # grown from one stretch to the next
        ([stuck(1, 4, 3), on(5, 9)], [stuck(1, 4, 3), doubt(5, 9)], [(5, 9)]),  # what both call stuck is left alone
    ],
)
def test_disputes_are_what_is_judged_differently_and_the_stuck_stretches_that_it_touches(
    ones: Reading, twos: Reading, spans: list[Span]
) -> None:
    assert disputes(ones, twos) == spans
    assert disputes(twos, ones) == spans


def test_decisions_take_the_place_of_disputed_calls_alone() -> None:
    decided = [on(15, 16, "probes"), on(5, 6), stuck(7, 9, 9, "decided")]
    assert settle(ONES, TWOS, decided) == [on(1, 6), stuck(7, 9, 9, "decided"), on(10, 20)]


def test_a_decision_may_split_what_the_labels_call_one() -> None:
    settled = settle(ONES, TWOS, [stuck(5, 9, 7), doubt(15, 16)])
    assert settled == [on(1, 4), stuck(5, 9, 7), on(10, 14), doubt(15, 16), on(17, 20)]


def test_stuck_stretches_that_follow_each_other_stay_two() -> None:
    decided = [stuck(5, 6, 6), stuck(7, 9, 9), on(15, 16)]
    assert settle(ONES, TWOS, decided)[1:3] == decided[:2]


def test_a_decision_keeps_whether_its_transcript_is_enriched() -> None:
    ones = [Stretch(NAME, "django-1", 1, 4, "getting_on", "", enriched=True)]
    assert [each.enriched for each in settle(ones, [doubt(1, 4)], [doubt(1, 4)])] == [True]


@pytest.mark.parametrize("decided", [[], [stuck(5, 9, 7)], [stuck(5, 9, 7), on(15, 17)]])
def test_decisions_that_leave_out_a_dispute_or_go_beyond_it_are_refused(decided: Reading) -> None:
    with pytest.raises(ValueError, match="do not cover"):
        settle(ONES, TWOS, decided)


def test_a_decision_on_a_transcript_without_labels_is_refused() -> None:
    with pytest.raises(ValueError, match=f"no labels of {NAME}"):
        settle_all({}, {}, [on(1, 2)])


@pytest.mark.parametrize(
    ("decided", "side"),
    [
        ([stuck(5, 9, 7)], "first"),
        ([on(5, 6), stuck(7, 9, 8)], "second"),
        ([stuck(5, 9, 8)], "neither"),
        ([on(5, 9)], "neither"),
    ],
)
def test_a_decision_sides_with_the_reading_whose_labels_and_evidence_it_repeats(
    decided: Reading, side: Literal["first", "second", "neither"]
) -> None:
    settled = settle(ONES, TWOS, [*decided, on(15, 16)])
    assert sided_with((5, 9), settled, ONES, TWOS) == side


TEXTS = [("", f"bash\ncommand: echo {n}", f"{n} " * 900) for n in range(1, 20)] + [("user: go", "bash", "1 " * 900)]


def test_a_packet_shows_neither_who_said_what_nor_why() -> None:
    shown = "\n".join(adjudicate.packet(TEXTS, (5, 9), ONES, TWOS))
    turned = "\n".join(adjudicate.packet(TEXTS, (5, 9), TWOS, ONES))
    assert "calls 5 to 9 of 20" in shown
    assert "stuck, since 7, same_failure" in shown
    assert "the same failure" not in shown
    assert shown != turned  # the letters follow the reading, drawn by the place of the dispute
    first = {adjudicate.in_drawn_order((call, call), ONES, TWOS)[0] is ONES for call in range(20)}
    assert first == {True, False}


def test_a_packet_cuts_what_lies_around_shorter_and_names_a_result_that_came_before() -> None:
    lines = list(adjudicate.packet(TEXTS, (12, 12), ONES, TWOS))
    assert lines.count(">>==== 12") == 1
    assert "==== 1" in lines
    inside, around = lines[lines.index(">>==== 12") + 2], lines[lines.index("==== 11") + 2]
    assert len(inside) > adjudicate.INSIDE_CHARACTERS > len(around) > adjudicate.AROUND_CHARACTERS
    assert lines[-3:] == ["user: go", "---- bash", "---- the result is that of call 1"]


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    assert adjudicate.shortened("a" * 9, 9) == "a" * 9
    assert adjudicate.shortened("a" * 5 + "b" * 90 + "c" * 5, 10) == "aaaaa\n[... 90 characters ...]\nccccc"


def test_the_packets_of_all_disputes_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    messages: list[dict[str, object]] = [{"role": "user", "content": "Fix it."}]
    for id_, said in (("c", "I look."), ("d", "I look again.")):
        call = {"id": id_, "type": "function", "function": function}
        messages.append({"role": "assistant", "content": said, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": id_, "content": "a.py"})
    file = tmp_path / "coding.jsonl"
    file.write_text(json.dumps({"id": NAME, "agent": "mini/m", "reward": 1.0, "messages": messages}))
    read_by_two(monkeypatch, [on(1, 2)], [doubt(1, 2)])
    adjudicate.main([str(file)])
    shown = capsys.readouterr().out
    assert "calls 1 to 2 of 2" in shown
    assert (
        "user: Fix it.\nassistant: I look.\n---- bash\ncommand: ls\n---- a.py\n>>==== 2\nassistant: I look again.\n"
        in shown
    )
    assert "reward" not in shown


def read_by_two(monkeypatch: pytest.MonkeyPatch, ones: Reading, twos: Reading) -> None:
    def readings(_: Half) -> tuple[dict[str, Reading], dict[str, Reading]]:
        return {ones[0].transcript: ones}, {ones[0].transcript: twos}

    monkeypatch.setattr(adjudicate, "both_readings", readings)


def test_the_adjudicated_labels_are_written_from_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "msa-x-django__django-2"
    ones = [Stretch(name, "django-2", 1, 4, "getting_on", "reads")]
    twos = [Stretch(name, "django-2", 1, 4, "unclear", "a probe")]
    read_by_two(monkeypatch, ones, twos)
    monkeypatch.setattr(adjudicate, "FOLDER", tmp_path)
    decisions = tmp_path / "decisions.jsonl"
    decided = {"transcript": name, "task": "django-2", "first": 1, "last": 4, "label": "unclear", "why": "decided"}
    decisions.write_text(json.dumps(decided))
    adjudicate.main(["none.jsonl", "--decisions", str(decisions)])
    written = (tmp_path / "measure_adjudicated.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == [decided]


def test_the_adjudicated_labels_differ_from_the_labels_in_disputes_alone() -> None:
    labels, again = both_readings("measure")
    settled = adjudicated_labels("measure")
    assert settled.keys() == labels.keys()
    assert list(faults_of("measure", settled)) == []
    for name, ones in labels.items():
        spans = disputes(ones, again[name])
        decided = [part for each in settled[name] for part in inside(each, spans)]
        assert settle(ones, again[name], decided) == settled[name]


def inside(stretch: Stretch, spans: list[Span]) -> Reading:
    return [
        msgspec.structs.replace(stretch, first=max(stretch.first, first), last=min(stretch.last, last))
        for first, last in spans
        if first <= stretch.last and stretch.first <= last
    ]


TASKS = [f"django-{n}" for n in range(1, 60) if half_of(f"django-{n}") == "tune"]


def transcript(task: str) -> dict[str, object]:
    """Three calls that are the same."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Fix it."}]
    for n in range(3):
        function = {"name": "bash", "arguments": '{"command": "ls src"}'}
        messages.append(
            {"role": "assistant", "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}]}
        )
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "a.py"})
    return {"id": f"mini-django__{task}", "agent": "mini/m", "messages": messages}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "coding.jsonl"
    file.write_text("".join(json.dumps(transcript(task)) + "\n" for task in TASKS))
    return file


def labelled(monkeypatch: pytest.MonkeyPatch, stuck: set[int]) -> None:
    def stretch(name: str, task: str) -> Stretch:
        if fold_of(task) in stuck:
            return Stretch(name, task, 1, 3, "stuck", "", 3, "same_read")
        return Stretch(name, task, 1, 3, "getting_on", "")

    def labels(_: Half) -> dict[str, list[Stretch]]:
        return {name: [stretch(name, task)] for task in TASKS for name in [f"mini-django__{task}"]}

    monkeypatch.setattr(folds, "read_labels", labels)
    monkeypatch.setattr(folds, "GRID", ((detectors, "REPEATS", (3, 4)),))


def test_each_task_has_one_fold_and_each_fold_has_tasks() -> None:
    assert {fold_of(task) for task in TASKS} == set(range(FOLDS))


def test_a_threshold_is_chosen_on_the_other_folds_and_measured_on_the_one_left_out(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled(monkeypatch, stuck={0})
    folds.main([str(file)])
    shown = capsys.readouterr().out
    stuck = sum(fold_of(task) == 0 for task in TASKS)
    assert f"| fold 0: {stuck} transcripts | none | 0.00 (0 of {stuck}; " in shown, "its own labels had no say"
    assert shown.count("| REPEATS 4 |") == FOLDS
    assert f"| all folds, with the thresholds as they are | {stuck / len(TASKS):.2f} ({stuck} of {len(TASKS)};" in shown
    assert detectors.REPEATS == 3, "the thresholds of the code are back"


def test_thresholds_that_are_right_stay_and_each_kind_is_counted_by_fold(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled(monkeypatch, stuck=set(range(FOLDS)))
    folds.main([str(file)])
    shown = capsys.readouterr().out
    every = f"({len(TASKS)} of {len(TASKS)};"
    assert f"| **all folds, each left out once** | 1.00 {every}" in shown
    in_first = sum(fold_of(task) == 0 for task in TASKS)
    row = next(line for line in shown.splitlines() if line.startswith("| `same_call` |"))
    assert row.startswith(f"| `same_call` | {in_first} of {in_first} |")
    assert f"| {len(TASKS)} of {len(TASKS)} | none, 0.00 (0 of {len(TASKS)};" in row
