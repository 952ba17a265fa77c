"""`benchmarks folds`: thresholds are chosen on tasks other than those that they are measured on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import folds
from benchmarks.folds import FOLDS, fold_of
from benchmarks.labels.stretches import Stretch
from benchmarks.transcripts import Half, half_of
from tellback.guidance.progress import detectors

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
