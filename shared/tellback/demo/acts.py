"""The acts of the demo, and its summary.

First an agent host repairs a project for Ada, and each step that it reports is shown and checked. Then the host with
Ben's message is killed, and the sweep answers him. The summary prints one line for each loop, with counts read back
from Redis rather than from the hosts, so that a lost event fails the demo.
"""

from __future__ import annotations

import signal
import sys
from typing import Any, Final

from tellback.demo.agent import FACTS, TEST_ENVIRON, TRIGGER, command_of_tests, write_project
from tellback.demo.run import CHANNEL, PROMPT, DemoRun
from tellback.errors import NotFound
from tellback.names import SWEEPS_QUEUE, Family
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.turns import Turns
from tellback.turns.fallback_text import Words
from tellback.wording import count_phrase

AGENT: Final = "tellback.demo.agent"

EXITS: Final = (1, 1, 0)  # the tests, a retry that fails because of the second fault, a retry that succeeds

REASON: Final = 110  # characters of a gate's reason that fit a line; it quotes the command's long Python path

HostEvent = dict[str, Any]


class RepairAct:
    """The first act: a host process repairs a project, and every step that it reports is checked."""

    def __init__(self, run: DemoRun) -> None:
        self._run = run
        self._screen = run.screen
        self._reported = run.reported
        self._before: list[HostEvent] = []
        self._finished = False

    def play(self) -> None:
        """Write the project, start the host, and check each step until the host ends."""
        run, screen = self._run, self._screen
        write_project(run.system.project)
        screen.begin_act("Ada asks for a repair; an agent host takes her message")
        screen.show_waiting("an agent host starts")
        run.preload_model()
        host = run.system.host(AGENT, self._host_settings())
        shown = {
            "host": self._on_host,
            "turn": self._on_turn,
            "doing": self._on_doing,
            "record": self._on_record,
            "gate": self._on_gate,
            "recalled": self._on_recalled,
            "edited": self._on_edited,
            "feedback": self._on_feedback,
            "answered": self._on_answered,
            "signalled": self._on_signalled,
            "recalled again": self._show_both_recalls,
            "reworded": self._on_reworded,
            "finished": self._on_finished,
            "failed": self._on_failed,
        }
        # Longer than any single wait of the agent, which can then report its own timeout.
        while event := host.next_event(2 * run.timeout):
            screen.stop_waiting()
            shown[event["step"]](event)
        screen.stop_waiting()
        if not self._finished:
            host.kill()
        screen.check(self._finished, f"the agent host has done its work ({host.ended()})")

    def _host_settings(self) -> HostEvent:
        run = self._run
        return {
            "project": str(run.system.project),
            "tests": command_of_tests(sys.executable),
            "environ": TEST_ENVIRON,
            "session": self._run.session,
            "bank": self._run.bank,
            "prompt": PROMPT,
            "channel": CHANNEL,
            "timeout": run.timeout,
        }

    def _on_host(self, event: HostEvent) -> None:
        self._screen.print_line(f"host process {event['pid']} runs `import tellback`")

    def _on_turn(self, event: HostEvent) -> None:
        self._reported.turns["ada"], self._reported.evaluation = event["turn"], event["evaluation"]
        self._screen.print_line(f"ada: {event['text']}", "bold")
        self._screen.check(event["state"] == "open", "her turn is open: she is owed exactly one first answer")

    def _on_doing(self, event: HostEvent) -> None:
        self._screen.show_waiting(event["what"])

    def _on_record(self, event: HostEvent) -> None:
        records = self._reported.records
        before = records[-1] if records else None
        if before is None:
            self._screen.begin_act(
                "Commands and guidance: what the tests said is a record, and tool calls earn feedback"
            )
        records.append(event)
        linked = event["parent"] == (None if before is None else before["id"])
        expected = EXITS[min(len(records), len(EXITS)) - 1]
        what = "tests" if event["parent"] is None else f"retry of [{event['parent'][-6:]}]"
        ended = event["error"] if event["exit_code"] is None else f"exit {event['exit_code']}"
        shown = f"{what}: {ended} after {event['duration_ms']} ms on {event['worker']} [{event['id'][-6:]}]"
        self._screen.check(linked and event["exit_code"] == expected, shown)
        self._screen.print_line("\n".join(f"  {fact}" for fact in event["facts"]), "dim")

    def _on_gate(self, event: HostEvent) -> None:
        done = len(self._reported.records) == len(EXITS)
        verdict = "lets it pass as done" if event["passed"] else "does not let it pass as done"
        self._screen.check(event["passed"] is done, f"the gate {verdict}")
        for reason in event["reasons"][:1]:
            self._screen.print_line(
                f"  {reason if len(reason) < REASON else f'{reason[:30]} ... {reason[-70:]}'}", "dim"
            )

    def _on_edited(self, event: HostEvent) -> None:
        why = f"the recalled fact {event['fact']!r} says: {event['text']}"
        self._screen.print_line(f"{event['file']} edited, for {why}")
        self._screen.print_line(f"  - {event['old']}\n  + {event['new']}", "dim")

    def _on_feedback(self, event: HostEvent) -> None:
        self._reported.feedback += 1
        earned = f"tool call {event['call']} has earned feedback, from {self._run.worker_of_queue(Family.EVENTS)}"
        self._screen.check(event["provider"] == "DeadlineFeedback", earned)
        self._screen.print_line("\n".join(f"  {line}" for line in event["text"].splitlines() if line), "cyan")

    def _on_recalled(self, event: HostEvent) -> None:
        self._before = event["hits"]
        answered = event["hits"] and not any(hit["degraded"] for hit in event["hits"])
        by = self._run.worker_of_queue(Family.RECALLS)
        self._screen.check(answered, f"recalled for {event['query']!r} by {by}: {_hit_order(event['hits'])}")

    def _on_answered(self, event: HostEvent) -> None:
        self._screen.begin_act("Turns: her answer goes out through the outbox")
        self._screen.check(event["became"] == "accepted", f"the agent has answered: {event['became']}")
        self._screen.check(
            self._run.deliver_responses("ada", "answer") == event["text"], "ada has the agent's own words"
        )

    def _on_signalled(self, event: HostEvent) -> None:
        self._screen.begin_act("Signals: what helped comes first the next time")
        self._reported.signals = event["sent"]
        self._screen.print_line(
            "; ".join(f"{fact}: {', '.join(kinds)}" for fact, kinds in event["kinds"].items()), "dim"
        )
        applied = (
            f"{event['applied']} of {event['sent']} signals applied by {self._run.worker_of_queue(Family.SIGNALS)}"
        )
        self._screen.check(event["applied"] == event["sent"], applied)

    def _show_both_recalls(self, event: HostEvent) -> None:
        """Show both recalls side by side; the search is the same, so only the signals can change the order."""
        before = {hit["fact"]: {**hit, "place": place} for place, hit in enumerate(self._before, 1)}
        rows: list[list[str]] = []
        for place, hit in enumerate(event["hits"], 1):
            old = before.get(hit["fact"], {**hit, "place": 0})
            moved = [f"{old[name]:.3f} → {hit[name]:.3f}" for name in ("usefulness", "score")]
            rows.append([hit["fact"], f"{hit['semantic']:.3f}", *moved, f"{old['place']} → {place}"])
        title = f"recall by {self._run.worker_of_queue(Family.RECALLS)}, before → after the signals"
        self._screen.table(title, ("fact", "semantic", "usefulness", "score", "place"), rows)
        first = [hits[0]["fact"] if hits else "nothing" for hits in (self._before, event["hits"])]
        self._screen.check(first[0] != first[1] == "percentage", f"first was {first[0]}, first is {first[1]}")

    def _on_reworded(self, event: HostEvent) -> None:
        hits = event["hits"]
        same = hits and hits[0]["fact"] == "percentage" and hits[0]["scope"] == "cluster"
        self._screen.check(
            same, f"asked in other words, {event['query']!r}, it is the same query cluster: {_hit_order(hits)}"
        )

    def _on_finished(self, event: HostEvent) -> None:
        self._reported.calls = event["calls"]
        self._finished = True
        self._screen.check(not event["heavy"], "and for all that the host has imported neither Celery nor torch")

    def _on_failed(self, event: HostEvent) -> None:
        self._screen.print_line(event["error"], "red")


def _hit_order(hits: list[HostEvent]) -> str:
    return ", ".join(f"{hit['fact']} {hit['score']:.3f}" for hit in hits)


VISITOR: Final = "tellback.demo.visitor"

BEN_WAITS: Final = 2.0  # seconds until his turn is overdue and the sweep may answer him


def play_abandoned_turn(run: DemoRun) -> None:
    """Start a host, kill it in the middle of a turn, and wait for the user's fallback."""
    screen = run.screen
    screen.begin_act("Ben asks too; his host is killed in the middle of his turn")
    screen.show_waiting("a second agent host starts")
    given = {"channel": CHANNEL, "session": f"{run.session}-ben", "answer_within": BEN_WAITS}
    host = run.system.host(VISITOR, given)
    event = host.next_event(run.timeout)
    screen.stop_waiting()
    if not event:
        host.kill()
        screen.check(happened=False, effect=f"a second host has opened his turn ({host.ended()})")
        return
    run.reported.turns["ben"] = event["turn"]
    screen.print_line(f"ben: {event['text']}", "bold")
    code = host.kill()
    screen.check(
        code == -signal.SIGKILL, f"host process {event['pid']} is dead, by SIGKILL; his turn is {event['state']}"
    )
    screen.show_waiting(f"he waits {BEN_WAITS:g} s for an answer; the sweep looks every two seconds")
    text = run.deliver_responses("ben", "fallback")
    screen.check(text == Words().feedback(), f"the sweep, on {run.worker_of_queue(SWEEPS_QUEUE)}, has answered him")


def print_summary(run: DemoRun) -> None:
    """Read each loop's counts from Redis and compare them with what the processes reported."""
    run.screen.begin_act("What Redis holds of it")
    for line in (_summarize_commands, _summarize_guidance, _summarize_turns, _summarize_signals):
        line(run)


def _summarize_commands(run: DemoRun) -> None:
    records = run.tb.records(run.session)
    failed = sum(not record.succeeded for record in records)
    links = [record.parent_command_id for record in records]
    whole = [record.exit_code for record in records] == list(EXITS)
    linked = links == [None, *(record.command_id for record in records)][: len(records)]
    retries = len(links) - links.count(None)
    counts = f"{count_phrase(failed, 'failure')}, {len(records) - failed} success"
    text = f"{count_phrase(len(records), 'record')}: {counts}; {retries} linked retries"
    run.screen.check(whole and linked, f"commands  {text}")


def _summarize_guidance(run: DemoRun) -> None:
    reported, context = run.reported, run.tb.context
    id_ = EvaluationId(run.session, PROMPT, reported.evaluation)
    counts = Evaluations(context.database, context.layout.of(run.session)).counts(id_)
    right = counts.calls == reported.calls > 0 and counts.fires == reported.calls // TRIGGER
    right = right and counts.delivered == counts.fires == reported.feedback
    calls = f"{count_phrase(counts.calls, 'tool call')}, {counts.errors} of them failed"
    run.screen.check(right, f"guidance  {calls}; {counts.fires} feedback earned, {counts.delivered} delivered")


def _summarize_turns(run: DemoRun) -> None:
    context = run.tb.context
    found = [turn for turn in Turns(context.database, context.layout).newest(10) if turn.channel]
    states = [turn.state for turn in found]
    delivered = sum(turn.delivery == "delivered" for turn in found)
    # Exactly these states: a third turn or a second answer would be a fault, too.
    right = sorted(states) == ["fallback", "responded"] and delivered == len(found) == len(run.reported.turns)
    answered, fallbacks = states.count("responded"), states.count("fallback")
    text = f"{len(found)} opened, {answered} answered, {fallbacks} by fallback, {delivered} delivered"
    run.screen.check(right, f"turns     {text}")


def _summarize_signals(run: DemoRun) -> None:
    try:
        stats = run.tb.bank(run.bank).stats()
    except NotFound:
        run.screen.check(happened=False, effect="signals   none was applied")
        return
    right = stats.signal_count == run.reported.signals > 0 and stats.facts == len(FACTS) and stats.clusters == 1
    text = f"{stats.signal_count} applied, {stats.facts} facts, query clusters: {stats.clusters}, model {stats.model}"
    run.screen.check(right, f"signals   {text}")
