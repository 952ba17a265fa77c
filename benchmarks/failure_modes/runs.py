"""One run of a mode: agents act in turns of one second, in one world, with guidance or without."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from benchmarks.failure_modes.agent import Agent, Move
from benchmarks.failure_modes.modes import SPREAD, Mode
from benchmarks.failure_modes.tasks import task
from benchmarks.failure_modes.tools import ToolReply, ToolWorld
from tellback.client.guidance_events import build_tool_invoked
from tellback.contracts.guidance import EvaluationBegun
from tellback.guidance.evaluation import apply_event
from tellback.guidance.observations.evidence_builder import build_evidence
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.guidance.observations.observer import ToolObserver
from tellback.guidance.provider import provider_spec
from tellback.guidance.registry import recommended_providers
from tellback.guidance.repeats import attempt_fingerprint
from tellback.guidance.state import BatchEffects, new_evaluation
from tellback.replay.accounts import InProcessInvoker
from tellback.state.evaluation_codec import EvaluationId

CALLS_MAX: Final = 12
START: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class AgentRun:
    """The run of one agent: `solved` at which call; loops of three identical calls, failures repeated."""

    solved: bool = False
    calls: int = 0
    loops: int = 0
    repeated: int = 0
    premature: bool = False
    offered: int = 0
    taken: int = 0
    limited: int = 0
    nudges: int = 0


@dataclass(slots=True)
class FleetCooldowns:
    """The cooling tools that a fleet knows of, as its Redis would: until the time that the tool named, or 30 s.

    To see what that is worth it can be left unheeded, and so can the agents' differing choices, by one seed for all.
    """

    world: ToolWorld
    heeds: bool = True
    seed: str | None = None  # of the choice between alternatives; None: each agent's own
    until: dict[str, float] = field(default_factory=dict[str, float])

    def cooling(self, tools: object) -> dict[str, float]:  # noqa: ARG002 - the protocol's form
        found = {name: at - self.world.now for name, at in self.until.items() if at > self.world.now}
        return found if self.heeds else {}

    def note(self, seen: ToolFeedback) -> None:
        assert seen.envelope is not None
        if seen.envelope.code in ("rate_limited", "unavailable"):
            wait = 30.0 if seen.envelope.retry_after is None else seen.envelope.retry_after
            self.until[seen.tool_name] = max(self.until.get(seen.tool_name, 0.0), self.world.now + wait)


class AgentGuide:
    """Observations and nudges for one agent."""

    def __init__(self, world: ToolWorld, fleet: FleetCooldowns, question: str, seed: str) -> None:
        self._world = world
        self._fleet = fleet
        self.observer = ToolObserver(
            tools=world.definitions(), question=question, health=fleet, seed=fleet.seed or seed
        )
        self._invoker = InProcessInvoker()
        self._id = EvaluationId("s", "p", seed)
        self._state = new_evaluation("s", "p", seed, self._ms())
        specs = [provider_spec(config) for config in recommended_providers()]
        begun = EvaluationBegun(event_id="e", session="s", evaluation=seed, prompt="p", providers=specs)
        apply_event(self._state, begun, self._ms(), self._invoker, BatchEffects())

    def see(self, move: Move, reply: ToolReply) -> tuple[ToolFeedback, bool]:
        said = (None, reply.text) if reply.error else (reply.text, None)
        seen = self.observer.observe(
            move.tool,
            params=move.args,
            result=said[0],
            error=said[1],
            http_status=reply.http_status,
            headers=reply.headers,
            now=START + timedelta(seconds=self._world.now),
        )
        self._fleet.note(seen)
        # With the result, as a client publishes it: whether it says anything new decides most nudges.
        evidence = build_evidence(move.tool, move.args, *said)
        event = build_tool_invoked(self._id, seen, evidence, duration_ms=None, call_id=None)
        effects = BatchEffects()
        apply_event(self._state, event, self._ms(), self._invoker, effects)
        return seen, bool(effects.feedback)

    def _ms(self) -> int:
        return round((START.timestamp() + self._world.now) * 1000)


class _Player:
    """One agent in a world, one call at a time."""

    def __init__(
        self, mode: Mode, world: ToolWorld, fleet: FleetCooldowns | None, seed: str, compliance: float
    ) -> None:
        random = Random(f"task {seed.rpartition(' ')[0]}")  # agents of a fleet have one question
        self._task = task(random, mode.aspects)
        self._faults = Random(f"faults {seed}")
        self._world = world
        self._agent = Agent(self._task, list(world.schemas), seed, compliance, alike=mode.alike)
        self._guide = None if fleet is None else AgentGuide(world, fleet, self._task.question, seed)
        self._move = self._agent.begin(Move(*mode.begin(self._task, random)))
        self._attempts: Counter[str] = Counter()
        self._failed: set[str] = set()
        self.run = AgentRun()

    def turn(self) -> float | None:
        """Make the call, and say after how many seconds the next one comes; None: it has ended."""
        run, move = self.run, self._move
        reply = self._world.call(move.tool, move.args, self._task, self._faults)
        helped = reply.text.startswith(("##", "Reserved"))
        self._count(move, helped=helped, reply=reply)
        text, nudged = reply.text, False
        if self._guide is not None:
            seen, nudged = self._guide.see(move, reply)
            text = seen.to_observation()
            run.offered += len(seen.suggestions)
            run.nudges += nudged
        following = self._agent.next(move, text, helped=helped, nudged=nudged)
        if following.answer is not None:
            following = self._answered(following, move)
        run.taken = self._agent.taken
        if following.answer is not None or run.calls >= CALLS_MAX:
            return None
        self._move = following
        return 1.0 + following.wait

    def _count(self, move: Move, *, helped: bool, reply: ToolReply) -> None:
        run, attempt = self.run, attempt_fingerprint(move.tool, move.args)
        run.calls += 1
        self._attempts[attempt] += 1
        run.loops += self._attempts[attempt] == 3
        run.repeated += attempt in self._failed
        run.limited += reply.http_status in (202, 429) or "rate limit" in reply.text
        if not helped:
            self._failed.add(attempt)

    def _answered(self, answer: Move, last: Move) -> Move:
        """An answer goes through, unless the check before it refuses and the agent heeds that."""
        right = all(value in str(answer.answer) for value in self._task.values.values())
        if self._guide is not None and not self._guide.observer.check_answer(answer.answer).passed:
            instead = self._agent.refused(last)
            if instead is not None and self.run.calls < CALLS_MAX:
                return instead
        self.run.solved, self.run.premature = right, not right
        return answer


def play(
    mode: Mode, seed: int, *, guided: bool, compliance: float = 0.0, health: bool = True, jitter: bool = True
) -> list[AgentRun]:
    """All agents of a mode with this seed; the same seed has the same tasks, faults and agents."""
    world = mode.world(Random(f"world {mode.name} {seed}"))
    fleet = FleetCooldowns(world, health, None if jitter else "one") if guided else None
    players = [
        _Player(mode, world, fleet, f"{mode.name} {seed} {number}", compliance if guided else 0.0)
        for number in range(mode.agents)
    ]
    starts = Random(f"starts {mode.name} {seed}")
    due = [(starts.uniform(0, SPREAD) if number else 0.0, number) for number in range(len(players))]
    heapq.heapify(due)
    while due:
        world.now, number = heapq.heappop(due)
        after = players[number].turn()
        if after is not None:
            heapq.heappush(due, (world.now + after, number))
    return [player.run for player in players]
