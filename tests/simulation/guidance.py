"""The scenario of guidance: tool calls of several hosts, whose consumers die, freeze and linger, and timers beside."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec

from tellback import (
    DeadlineFeedback,
    FeedbackContext,
    FeedbackProviderConfig,
    FeedbackTrigger,
    Tellback,
    ToolUsageMonitor,
)
from tellback.client.guidance import Prompt
from tellback.contracts.guidance import Feedback, ToolInvoked
from tellback.contracts.message import new_event_id
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import EvaluationCounts, Evaluations
from tests.simulation.fleet import Fleet, FleetScenario
from tests.simulation.scheduler import Process
from tests.simulation.world import World

EVALUATIONS = (EvaluationId("s0", "p", "e0"), EvaluationId("s1", "p", "e1"))
HOSTS = 3
CALLS = 8  # of each host
EVERY_CALLS = 3
EVERY_SECONDS = 10.0
CUSTOM_EVERY_CALLS = 2


@dataclass(frozen=True)
class CountingProvider:
    """A custom provider that says how many calls there were; it raises at every other call for which it is due."""

    name = "Counts"

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Return True."""
        return True

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """Return the count, or raise."""
        if context.tool_call_count % (2 * CUSTOM_EVERY_CALLS):
            raise RuntimeError("broken on purpose")
        return Feedback(provider_name=self.name, summary=f"Tool calls: {context.tool_call_count}")


class GuidanceScenario(FleetScenario):
    """Each call counts once, each trigger fires once, and each feedback is taken once."""

    def __init__(self, world: World) -> None:
        self.custom = world.random.random() < 0.5
        if self.custom:
            world.settings = msgspec.structs.replace(
                world.settings, providers=f"{__name__}:{CountingProvider.__name__}"
            )
        self.world = world
        self.fleet = Fleet(world, lingers=world.random.random() < 0.3)
        self.timed = world.random.random() < 0.5
        self.called: Counter[EvaluationId] = Counter()
        self.taken: dict[EvaluationId, list[Feedback]] = {id_: [] for id_ in EVALUATIONS}
        self.over = False
        self.harmed = world.network.fault > 0

    def run(self) -> None:
        """Harm the consumers while hosts report calls; then compare counts, history and what was taken."""
        world, scheduler, fleet = self.world, self.world.scheduler, self.fleet
        fleet.add_beat()
        fleet.add_main_process("main0")
        pool = [fleet.add_pool_process(f"pool{number}") for number in range(2)]
        hosts = [self._start(scheduler.process(f"host{number}"), EVALUATIONS[number % 2]) for number in range(HOSTS)]
        for _ in range(world.random.randrange(4)):
            scheduler.sleep(world.choices.between(0.0, 6.0, "until a fault"))
            fleet.harm(pool)
            self.harmed = True
        while not all(self.called[id_] >= CALLS for id_ in EVALUATIONS) or not self._published(hosts):
            scheduler.sleep(0.5)
        world.network.fault = fleet.broker.fault = 0.0
        end = scheduler.now + 120
        while self._unapplied() and scheduler.now < end:
            scheduler.sleep(1)
        assert not self._unapplied(), f"calls that do not count once: {self._unapplied()}"
        self.over = True
        while not all(task.done for process, _ in hosts for task in process.tasks if task.name == "agent"):
            scheduler.sleep(0.5)
        for id_ in EVALUATIONS:
            self._check(id_)

    def _start(self, process: Process, id_: EvaluationId) -> tuple[Process, Tellback]:
        tb = self.world.client(process)
        self.world.scheduler.spawn(process, lambda: self._work(tb, id_), "agent")
        return process, tb

    def _published(self, hosts: list[tuple[Process, Tellback]]) -> bool:
        return sum(self.called.values()) == HOSTS * CALLS and not any(tb.context.publisher.spooled for _, tb in hosts)

    def _work(self, tb: Tellback, id_: EvaluationId) -> None:
        """Report the calls of one host, and take feedback until the run is over."""
        random, scheduler = self.world.random, self.world.scheduler
        providers = [FeedbackProviderConfig(ToolUsageMonitor(), FeedbackTrigger(every_n_calls=EVERY_CALLS))]
        if self.timed:
            trigger = FeedbackTrigger(every_n_seconds=EVERY_SECONDS)
            providers.append(FeedbackProviderConfig(DeadlineFeedback(), trigger))
        if self.custom:
            trigger = FeedbackTrigger(every_n_calls=CUSTOM_EVERY_CALLS)
            providers.append(FeedbackProviderConfig(CountingProvider(), trigger))
        prompt = tb.prompt(
            id_.session, id_.prompt, evaluation=id_.evaluation, feedback_providers=providers, delivery="all",
            deadline=timedelta(hours=1),
        )  # fmt: skip
        for _ in range(CALLS):
            self._call(tb, id_)
            if random.random() < 0.5:
                self._take(prompt, id_, wait=random.random())
            scheduler.sleep(random.choice((0.0, 0.0, 0.3, 3.0)))
        tb.flush()
        while not self.over:
            scheduler.sleep(1)
            if random.random() < 0.3:
                self._take(prompt, id_)
        for _ in range(3):  # a call whose reply was lost is repeated by the next one
            self._take(prompt, id_)
            scheduler.sleep(1)

    def _call(self, tb: Tellback, id_: EvaluationId) -> None:
        event = ToolInvoked(
            event_id=new_event_id(), session=id_.session, prompt=id_.prompt, evaluation=id_.evaluation, tool="t"
        )
        for _ in range(self.world.random.choice((1, 1, 1, 2))):  # some are reported twice
            tb.context.publisher.publish(event)
        self.called[id_] += 1

    def _take(self, prompt: Prompt, id_: EvaluationId, wait: float = 0.0) -> None:
        self.taken[id_] += prompt.feedback(wait)

    def _counts(self, id_: EvaluationId) -> EvaluationCounts:
        return Evaluations(self.world.database, self.world.layout.of(id_.session)).counts(id_)

    def _unapplied(self) -> list[str]:
        lengths = self.world.intake.lengths()
        left = [f"{family} of {shard}: {length}" for (shard, family), length in lengths.items() if length]
        counted = {id_: self._counts(id_).calls for id_ in EVALUATIONS}
        wrong = [f"{id_.evaluation}: {counted[id_]} of {self.called[id_]}" for id_ in EVALUATIONS]
        return left + [text for text, id_ in zip(wrong, EVALUATIONS, strict=True) if counted[id_] != self.called[id_]]

    def _check(self, id_: EvaluationId) -> None:
        counts, fired = self._counts(id_), self._fired(id_)
        by_calls = [each["call_index"] for each in fired if each["provider_name"] == "ToolUsageMonitor"]
        due = list(range(EVERY_CALLS, self.called[id_] + 1, EVERY_CALLS))
        assert by_calls == due, f"{id_.evaluation}: fired at calls {by_calls} instead of {due}"
        # A custom provider that raises costs its feedback, and so does a process that dies between its call and the
        # commit, or has no Redis there: the next one cannot tell whether the provider killed it.
        by_custom = [each["call_index"] for each in fired if each["provider_name"] == CountingProvider.name]
        possible = range(2 * CUSTOM_EVERY_CALLS, self.called[id_] + 1, 2 * CUSTOM_EVERY_CALLS)
        assert set(by_custom) <= set(possible), f"{id_.evaluation}: the custom provider fired at calls {by_custom}"
        assert len(by_custom) == len(set(by_custom)), f"{id_.evaluation}: it fired twice at a call: {by_custom}"
        if self.custom and not self.harmed:
            assert by_custom == list(possible), f"{id_.evaluation}: it fired at {by_custom}, though no process died"
        times = [each["at"] for each in fired if each["provider_name"] == "DeadlineFeedback"]
        for before, after in pairwise(times):
            assert after - before >= 1000 * EVERY_SECONDS, f"{id_.evaluation}: fired twice in a period: {times}"
        taken = [(each.provider_name, each.call_index, each.at) for each in self.taken[id_]]
        twice = [each for each, times_taken in Counter(taken).items() if times_taken > 1]
        assert not twice, f"{id_.evaluation}: taken twice: {twice}"
        assert len(taken) == counts.delivered, f"{id_.evaluation}: {len(taken)} taken, {counts.delivered} delivered"
        unknown = set(taken) - {(each["provider_name"], each["call_index"], each["at"]) for each in fired}
        assert not unknown, f"{id_.evaluation}: taken and never fired: {unknown}"
        if not self.timed:  # what a timer left may be outdated by a call before anybody takes it
            lost = len(due) + len(by_custom) - len(taken) - counts.expired
            assert not lost, f"{id_.evaluation}: {lost} feedbacks were neither taken nor expired"

    def _fired(self, id_: EvaluationId) -> list[dict[str, Any]]:
        key = self.world.layout.of(id_.session).key("hist", id_.session)
        entries = [msgspec.json.decode(raw) for raw in self.world.database.command("LRANGE", key, 0, -1)]
        said = [each for each in entries if each["kind"] == "feedback" and each["evaluation"] == id_.evaluation]
        return [{"call_index": 0, **each} for each in said]
