"""First part of the story: an agent host repairs a project for Ada. Everything it tells is shown and checked."""

from __future__ import annotations

import sys
from typing import Any, Final

from tellback.demo.project import TEST_ENVIRON, command_of_tests, write_project
from tellback.demo.scene import CHANNEL, PROMPT, Scene
from tellback.names import Family

AGENT: Final = "tellback.demo.agent"
EXITS: Final = (1, 1, 0)  # the tests, a retry that fails for the second reason, a retry that succeeds

REASON: Final = 110

Told = dict[str, Any]


class Repair:
    """The act, from the start of the host to its end."""

    def __init__(self, scene: Scene) -> None:
        """Take the running demo."""
        self._scene = scene
        self._stage = scene.stage
        self._cast = scene.cast
        self._before: list[Told] = []
        self._finished = False

    def play(self) -> None:
        """Write the project, start the host, and follow it."""
        scene, stage = self._scene, self._stage
        write_project(scene.system.project)
        stage.act("Ada asks for a repair; an agent host takes her message")
        stage.waiting("an agent host starts")
        scene.warm_up()
        host = scene.system.host(AGENT, self._given())
        shown = {
            "host": self._host,
            "turn": self._turn,
            "doing": self._doing,
            "record": self._record,
            "gate": self._gate,
            "recalled": self._recalled,
            "edited": self._edited,
            "feedback": self._feedback,
            "answered": self._answered,
            "signalled": self._signalled,
            "recalled again": self._recalled_again,
            "reworded": self._reworded,
            "finished": self._told_its_end,
            "failed": self._failed,
        }
        while told := host.next(2 * scene.patience):
            stage.arrived()
            shown[told["step"]](told)
        stage.arrived()
        if not self._finished:
            host.kill()
        stage.check(self._finished, f"the agent host has done its work ({host.ended()})")

    def _given(self) -> Told:
        scene = self._scene
        return {
            "project": str(scene.system.project),
            "tests": command_of_tests(sys.executable),
            "environ": TEST_ENVIRON,
            "session": self._cast.session,
            "bank": self._cast.bank,
            "prompt": PROMPT,
            "channel": CHANNEL,
            "patience": scene.patience,
        }

    def _host(self, told: Told) -> None:
        self._stage.say(f"host process {told['pid']} runs `import tellback`")

    def _turn(self, told: Told) -> None:
        self._cast.turns["ada"], self._cast.evaluation = told["turn"], told["evaluation"]
        self._stage.say(f"ada: {told['text']}", "bold")
        self._stage.check(told["state"] == "open", "her turn is open: she is owed exactly one first answer")

    def _doing(self, told: Told) -> None:
        self._stage.waiting(told["what"])

    def _record(self, told: Told) -> None:
        records = self._cast.records
        before = records[-1] if records else None
        if before is None:
            self._stage.act("Commands and guidance: what the tests said is a record, and tool calls earn feedback")
        records.append(told)
        linked = told["parent"] == (None if before is None else before["id"])
        expected = EXITS[min(len(records), len(EXITS)) - 1]
        what = "tests" if told["parent"] is None else f"retry of [{told['parent'][-6:]}]"
        ended = told["error"] if told["exit_code"] is None else f"exit {told['exit_code']}"
        shown = f"{what}: {ended} after {told['duration_ms']} ms on {told['worker']} [{told['id'][-6:]}]"
        self._stage.check(linked and told["exit_code"] == expected, shown)
        self._stage.say("\n".join(f"  {fact}" for fact in told["facts"]), "dim")

    def _gate(self, told: Told) -> None:
        done = len(self._cast.records) == len(EXITS)
        verdict = "lets it pass as done" if told["passed"] else "does not let it pass as done"
        self._stage.check(told["passed"] is done, f"the gate {verdict}")
        for reason in told["reasons"][:1]:
            self._stage.say(f"  {reason if len(reason) < REASON else f'{reason[:30]} ... {reason[-70:]}'}", "dim")

    def _edited(self, told: Told) -> None:
        self._stage.say(f"{told['file']} edited, for the recalled fact {told['fact']!r} says: {told['text']}")
        self._stage.say(f"  - {told['old']}\n  + {told['new']}", "dim")

    def _feedback(self, told: Told) -> None:
        self._cast.feedback += 1
        earned = f"tool call {told['call']} has earned feedback, from {self._scene.worker(Family.EVENTS)}"
        self._stage.check(told["provider"] == "DeadlineFeedback", earned)
        self._stage.say("\n".join(f"  {line}" for line in told["text"].splitlines() if line), "cyan")

    def _recalled(self, told: Told) -> None:
        self._before = told["hits"]
        answered = told["hits"] and not any(hit["degraded"] for hit in told["hits"])
        by = self._scene.worker(Family.RECALLS)
        self._stage.check(answered, f"recalled for {told['query']!r} by {by}: {_order(told['hits'])}")

    def _answered(self, told: Told) -> None:
        self._stage.act("Turns: her answer goes out through the outbox")
        self._stage.check(told["became"] == "accepted", f"the agent has answered: {told['became']}")
        self._stage.check(self._scene.deliver("ada", "answer") == told["text"], "ada has the agent's own words")

    def _signalled(self, told: Told) -> None:
        self._stage.act("Signals: what helped comes first the next time")
        self._cast.signals = told["sent"]
        self._stage.say("; ".join(f"{fact}: {', '.join(kinds)}" for fact, kinds in told["kinds"].items()), "dim")
        applied = f"{told['applied']} of {told['sent']} signals applied by {self._scene.worker(Family.SIGNALS)}"
        self._stage.check(told["applied"] == told["sent"], applied)

    def _recalled_again(self, told: Told) -> None:
        """Show both recalls side by side; they differ by what the signals said, since the search is the same."""
        before = {hit["fact"]: {**hit, "place": place} for place, hit in enumerate(self._before, 1)}
        rows: list[list[str]] = []
        for place, hit in enumerate(told["hits"], 1):
            old = before.get(hit["fact"], {**hit, "place": 0})
            moved = [f"{old[name]:.3f} → {hit[name]:.3f}" for name in ("usefulness", "score")]
            rows.append([hit["fact"], f"{hit['semantic']:.3f}", *moved, f"{old['place']} → {place}"])
        title = f"recall by {self._scene.worker(Family.RECALLS)}, before → after the signals"
        self._stage.table(title, ("fact", "semantic", "usefulness", "score", "place"), rows)
        first = [hits[0]["fact"] if hits else "nothing" for hits in (self._before, told["hits"])]
        self._stage.check(first[0] != first[1] == "percentage", f"first was {first[0]}, first is {first[1]}")

    def _reworded(self, told: Told) -> None:
        hits = told["hits"]
        same = hits and hits[0]["fact"] == "percentage" and hits[0]["scope"] == "context"
        self._stage.check(same, f"asked in other words, {told['query']!r}, it is the same context: {_order(hits)}")

    def _told_its_end(self, told: Told) -> None:
        self._cast.calls = told["calls"]
        self._finished = True
        self._stage.check(not told["heavy"], "and for all that the host has imported neither Celery nor torch")

    def _failed(self, told: Told) -> None:
        self._stage.say(told["error"], "red")


def _order(hits: list[Told]) -> str:
    return ", ".join(f"{hit['fact']} {hit['score']:.3f}" for hit in hits)
