"""The end of the story: one line a loop, with counts read back from Redis."""

from __future__ import annotations

from tellback.demo.agent import FACTS, TRIGGER
from tellback.demo.repair import EXITS
from tellback.demo.scene import PROMPT, Scene
from tellback.errors import NotFound
from tellback.state.evaluations import EvaluationId, Evaluations
from tellback.state.turns import Turns


def summarize(scene: Scene) -> None:
    """Read back what each loop holds of the story, and compare it with what the processes have told."""
    scene.stage.act("What Redis holds of it")
    for line in (_commands, _guidance, _turns, _signals):
        line(scene)


def _commands(scene: Scene) -> None:
    records = scene.tb.records(scene.cast.session)
    failed = sum(not record.succeeded for record in records)
    links = [record.parent_command_id for record in records]
    whole = [record.exit_code for record in records] == list(EXITS)
    linked = links == [None, *(record.command_id for record in records)][: len(records)]
    retries = len(links) - links.count(None)
    text = f"{len(records)} records: {failed} failures, {len(records) - failed} success; {retries} linked retries"
    scene.stage.check(whole and linked, f"commands  {text}")


def _guidance(scene: Scene) -> None:
    cast, context = scene.cast, scene.tb.context
    id_ = EvaluationId(cast.session, PROMPT, cast.evaluation)
    counts = Evaluations(context.database, context.layout.of(cast.session)).counts(id_)
    right = counts.calls == cast.calls > 0 and counts.fires == cast.calls // TRIGGER
    right = right and counts.delivered == counts.fires == cast.feedback
    calls = f"{counts.calls} tool calls, {counts.errors} of them failed"
    scene.stage.check(right, f"guidance  {calls}; {counts.fires} feedback earned, {counts.delivered} delivered")


def _turns(scene: Scene) -> None:
    context = scene.tb.context
    found = [turn for turn in Turns(context.database, context.layout).newest(10) if turn.channel]
    states = [turn.state for turn in found]
    delivered = sum(turn.delivery == "delivered" for turn in found)
    right = sorted(states) == ["fallback", "responded"] and delivered == len(found) == len(scene.cast.turns)
    answered, fallbacks = states.count("responded"), states.count("fallback")
    text = f"{len(found)} opened, {answered} answered, {fallbacks} by fallback, {delivered} delivered"
    scene.stage.check(right, f"turns     {text}")


def _signals(scene: Scene) -> None:
    try:
        stats = scene.tb.bank(scene.cast.bank).stats()
    except NotFound:
        scene.stage.check(happened=False, effect="signals   none was applied")
        return
    right = stats.signal_count == scene.cast.signals > 0 and stats.facts == len(FACTS) and stats.contexts == 1
    text = (
        f"{stats.signal_count} applied, {stats.facts} facts, {stats.contexts} context of questions, model {stats.model}"
    )
    scene.stage.check(right, f"signals   {text}")
