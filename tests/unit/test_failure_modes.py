"""The suite of failure modes is fair, repeatable, and guidance helps in each of them. The full one is a benchmark."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any, get_args

import pytest

from benchmarks.failure_modes.__main__ import main
from benchmarks.failure_modes.agent import Agent, Move
from benchmarks.failure_modes.coding import CODING, DETOUR, CodingMode, getting_on, play_coding
from benchmarks.failure_modes.modes import BY_NAME, MODES, Mode
from benchmarks.failure_modes.report import measure, table
from benchmarks.failure_modes.runs import AgentGuide, AgentRun, play
from benchmarks.failure_modes.tasks import AgentTask, task
from benchmarks.failure_modes.tools import ToolWorld
from benchmarks.labels.stretches import Kind
from tellback.guidance.observations import observer

SEEDS = range(24)
SINGLE = [mode for mode in MODES if mode.agents == 1]
PLACE = AgentTask("Velmor Castle", {"population": "A123"})


def runs_of(mode: Mode, *, guided: bool, compliance: float = 0.0) -> list[AgentRun]:
    return _runs_of(mode.name, guided=guided, compliance=compliance)


@cache  # three tests ask for the runs without guidance
def _runs_of(name: str, *, guided: bool, compliance: float) -> list[AgentRun]:
    return [run for seed in SEEDS for run in play(BY_NAME[name], seed, guided=guided, compliance=compliance)]


def test_every_template_loop_stampede_and_hasty_answer_has_its_mode() -> None:
    templates = {
        *("success", "partial", "rate_limited", "no_results", "unavailable", "other_error", "unknown_tool"),
        *("invalid_arguments", "search_loops", "repeated_failures", "premature_answer", "stampede"),
    }
    assert templates <= set(BY_NAME)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("success", "ok"), ("partial", "partial"), ("rate_limited", "rate_limited"), ("no_results", "no_results"),
        ("unavailable", "unavailable"), ("other_error", "error"), ("unknown_tool", "unknown_tool"),
        ("invalid_arguments", "invalid_arguments"),
    ],
)  # fmt: skip
def test_a_mode_begins_with_the_state_that_it_is_named_by(
    name: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    real = observer.ToolObserver.observe

    def noted(self: observer.ToolObserver, *args: Any, **fields: Any) -> object:
        feedback = real(self, *args, **fields)
        assert feedback.envelope is not None
        seen.append(feedback.envelope.code)
        return feedback

    monkeypatch.setattr(observer.ToolObserver, "observe", noted)
    for seed in range(5):
        seen.clear()
        play(BY_NAME[name], seed, guided=True)
        assert seen[0] == code


@pytest.mark.bulk
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_guidance_that_nobody_heeds_changes_nothing(mode: Mode) -> None:
    """Differences at other probabilities are therefore due to suggestions that were taken."""
    if mode.agents == 1:
        alone, guided = (runs_of(mode, guided=on) for on in (False, True))
    else:  # many agents in each run
        alone, guided = (play(mode, 0, guided=on) for on in (False, True))
    assert [figures(run) for run in alone] == [figures(run) for run in guided]
    assert sum(run.taken for run in guided) == 0


def figures(run: AgentRun) -> tuple[object, ...]:
    return (run.solved, run.calls, run.loops, run.repeated, run.premature, run.limited)


@pytest.mark.parametrize("mode", SINGLE, ids=lambda mode: mode.name)
def test_the_same_seed_gives_the_same_run(mode: Mode) -> None:
    first, second = (play(mode, 7, guided=True, compliance=0.5) for _ in range(2))
    assert first == second


@pytest.mark.bulk
@pytest.mark.parametrize("mode", SINGLE, ids=lambda mode: mode.name)
def test_guidance_that_is_heeded_helps_in_every_mode(mode: Mode) -> None:
    alone, guided = runs_of(mode, guided=False), runs_of(mode, guided=True, compliance=1.0)
    if mode.name == "success":
        assert [figures(run) for run in alone] == [figures(run) for run in guided]
        return
    assert mean(run.solved for run in guided) >= mean(run.solved for run in alone) + 0.1
    assert mean(run.solved for run in guided) >= 0.85
    assert sum(run.repeated for run in guided) <= sum(run.repeated for run in alone)
    assert sum(run.loops for run in guided) <= sum(run.loops for run in alone)
    assert sum(run.premature for run in guided) < max(1, sum(run.premature for run in alone))


@pytest.mark.parametrize("name", ["stampede", "stampede_alike"])
def test_a_fleet_that_heeds_guidance_does_not_run_the_fallbacks_over(name: str) -> None:
    alone, guided = (play(BY_NAME[name], 3, guided=on, compliance=1.0) for on in (False, True))
    assert sum(run.limited for run in guided) < sum(run.limited for run in alone) / 2
    assert mean(run.solved for run in guided) > mean(run.solved for run in alone)


@pytest.mark.slow
def test_a_fleet_needs_both_its_health_and_differing_choices() -> None:
    """Without either, guidance sends all agents to one tool after the other: worse than none."""
    mode = BY_NAME["stampede"]

    def limited(*, health: bool, jitter: bool) -> float:
        return mean(
            run.limited
            for seed in range(4)
            for run in play(mode, seed, guided=True, compliance=1.0, health=health, jitter=jitter)
        )

    whole = limited(health=True, jitter=True)
    alone = mean(run.limited for seed in range(4) for run in play(mode, seed, guided=False))
    assert whole * 1.2 < limited(health=False, jitter=True)
    assert whole * 1.2 < limited(health=True, jitter=False)
    assert limited(health=False, jitter=False) > alone > whole


def test_the_baseline_is_no_straw_man() -> None:
    """Left alone it solves what is easy always, and something in every mode."""
    for mode in SINGLE:
        assert sum(run.solved for run in runs_of(mode, guided=False)) >= 1, mode.name
    assert all(run.solved for run in runs_of(BY_NAME["success"], guided=False))


def test_each_kind_of_label_has_its_coding_mode() -> None:
    assert {f"coding_{kind}" for kind in get_args(Kind)} == {mode.name for mode in CODING if mode.rut}


@pytest.mark.bulk
@pytest.mark.parametrize("mode", CODING, ids=lambda mode: mode.name)
def test_guidance_that_nobody_heeds_changes_no_coding(mode: CodingMode) -> None:
    for seed in range(2):
        (alone,), (guided,) = (play_coding(mode, seed, guided=on) for on in (False, True))
        assert figures(alone) == figures(guided)


def test_left_alone_a_coder_solves_some_and_all_where_nothing_goes_wrong() -> None:
    for mode in CODING:
        solved = mean(play_coding(mode, seed, guided=False)[0].solved for seed in range(100))
        assert solved == 1 if mode.rut is None else 0.3 < solved < 0.9, mode.name


@pytest.mark.parametrize("mode", [mode for mode in CODING if mode.rut], ids=lambda mode: mode.name)
def test_the_recommended_providers_notice_each_rut(mode: CodingMode) -> None:
    """They do within six calls, or fourteen where only the sum of repeated looks shows it."""
    seed = next(seed for seed in range(100) if not play_coding(mode, seed, guided=False)[0].solved)
    (run,) = play_coding(mode, seed, guided=True, compliance=1.0)
    assert (run.solved, run.taken) == (True, 1)
    assert run.calls - len(getting_on()) <= (14 if mode.name == "coding_no_substance" else 6)


def test_a_run_that_gets_on_gets_no_nudge() -> None:
    assert [play_coding(CODING[0], seed, guided=True)[0].nudges for seed in range(10)] == [0] * 10


@pytest.mark.parametrize("mode", [mode for mode in CODING if mode.rut], ids=lambda mode: mode.name)
def test_a_heeded_nudge_leads_out_of_a_rut(mode: CodingMode, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(seed for seed in range(100) if not play_coding(mode, seed, guided=False)[0].solved)
    nudge_at(monkeypatch, 16)
    (run,) = play_coding(mode, seed, guided=True, compliance=1.0)
    assert (run.solved, run.taken) == (True, 1)
    assert run.calls <= 16 + len(getting_on())


def test_a_heeded_nudge_costs_who_gets_on(monkeypatch: pytest.MonkeyPatch) -> None:
    nudge_at(monkeypatch, 5)
    (run,) = play_coding(CODING[0], 0, guided=True, compliance=1.0)
    assert (run.solved, run.calls) == (True, len(getting_on()) + DETOUR)


def nudge_at(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    calls = count(1)

    def see(*_: object) -> tuple[None, bool]:
        return None, next(calls) == call

    monkeypatch.setattr(AgentGuide, "see", see)


def next_move(text: str, *, compliance: float = 1.0) -> Move:
    agent = Agent(PLACE, ["wikipedia", "duckduckgo_search"], "seed", compliance)
    last = agent.begin(Move("wikipedia", {"query": "Velmor Castle"}))
    return agent.next(last, text, helped=False)


def test_the_agent_reads_its_advice_from_the_text() -> None:
    text = (
        '✗ wikipedia is rate limited\n\nALTERNATIVES:\n- If you have results → final_answer(answer: "x")\n'
        '- Wait 7 seconds and retry → wikipedia(query: "Velmor \\"Castle\\"", limit: 3)'
    )
    assert next_move(text) == Move("wikipedia", {"query": 'Velmor "Castle"', "limit": 3}, wait=7.0)


def test_advice_that_only_names_what_to_change_is_followed_by_a_change() -> None:
    move = next_move(
        "✗ wikipedia failed\n\nNEXT STEPS:\n- Check your arguments: query Velmor\n- Try a different approach"
    )
    assert move.tool == "wikipedia"
    assert move.args != {"query": "Velmor Castle"}


def test_what_a_page_says_is_no_advice() -> None:
    """Only the list under the last heading is: the observer quotes what a tool forges."""
    text = 'before\n- Try web search → duckduckgo_search(query: "x")\nafter'
    assert next_move(text) == next_move(text, compliance=0.0)


def test_a_value_that_was_not_read_is_not_known() -> None:
    assert PLACE.found("Velmor Castle has a population.") == {}
    assert PLACE.found(PLACE.answer_page("population")) == PLACE.values


def test_a_limited_tool_says_so_in_several_ways_and_is_back_in_time() -> None:
    world = ToolWorld({"s": {"type": "object", "properties": {}, "required": []}}, {"s": "limited"})
    some = task(Random(1))
    reported = Counter(world.call("s", {}, some, Random(n)).http_status for n in range(60))
    assert set(reported) == {429, 202, None}
    world.now = 30.0
    assert not world.call("s", {}, some, Random(0)).error


@pytest.mark.bulk
@pytest.mark.slow
def test_the_table_and_the_plot_are_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "plot.png"
    main(["success", "partial", "--seeds", "10", "--plot", str(plot)])
    assert "| partial | p = 1 |" in capsys.readouterr().out
    assert plot.read_bytes().startswith(b"\x89PNG")
    main(["success", "--seeds", "10", "--plot", str(plot), "--json"])
    assert [row["compliance"] for row in json.loads(capsys.readouterr().out)] == [None, 0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.slow
def test_coding_stands_for_its_modes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nudge_at(monkeypatch, 0)
    main(["coding", "--seeds", "10", "--plot", str(tmp_path / "plot.png"), "--json"])
    assert {row["mode"] for row in json.loads(capsys.readouterr().out)} == {mode.name for mode in CODING}


def test_the_spread_holds_its_mean() -> None:
    rows = measure(BY_NAME["partial"], 20, [1.0])
    at, low, high = rows[1].change["solved"]
    assert low <= at <= high
    assert "off" in table(rows)


def test_an_unknown_mode_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "no mode nothing" in capsys.readouterr().err
