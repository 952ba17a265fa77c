"""Second part of the story: the host that has taken Ben's message is killed, and the sweep answers him."""

from __future__ import annotations

import signal
from typing import Final

from tellback.demo.scene import CHANNEL, Scene
from tellback.names import SWEEPS_QUEUE
from tellback.turns.text import feedback_text

VISITOR: Final = "tellback.demo.visitor"
BEN_WAITS: Final = 2.0  # seconds until the sweep may answer him


def abandon(scene: Scene) -> None:
    """Start the host, kill it in the middle of the turn, and wait for what the user gets."""
    stage = scene.stage
    stage.act("Ben asks too; his host is killed in the middle of his turn")
    stage.waiting("a second agent host starts")
    given = {"channel": CHANNEL, "session": f"{scene.cast.session}-ben", "answer_within": BEN_WAITS}
    host = scene.system.host(VISITOR, given)
    told = host.next(scene.patience)
    stage.arrived()
    if not told:
        host.kill()
        stage.check(happened=False, effect=f"a second host has opened his turn ({host.ended()})")
        return
    scene.cast.turns["ben"] = told["turn"]
    stage.say(f"ben: {told['text']}", "bold")
    code = host.kill()
    stage.check(code == -signal.SIGKILL, f"host process {told['pid']} is dead, by SIGKILL; his turn is {told['state']}")
    stage.waiting(f"he waits {BEN_WAITS:g} s for an answer; the sweep looks every two seconds")
    text = scene.deliver("ben", "fallback")
    stage.check(text == feedback_text(None, "en"), f"the sweep, on {scene.worker(SWEEPS_QUEUE)}, has answered him")
