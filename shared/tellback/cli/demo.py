"""`tellback demo`: one true story on a system of its own."""

from __future__ import annotations

import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli.common import BEGIN, reported

if TYPE_CHECKING:
    from tellback.demo.stage import Stage
    from tellback.demo.system import DemoSystem

LOOK_SECONDS: Final = 600.0
INTERRUPTED: Final = 130


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=BEGIN)(demo)


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the system running at the end, to look at it.")] = False,
    patience: Annotated[
        float, typer.Option(min=1, help="Seconds that one effect may take before it is missed.")
    ] = 60.0,
) -> None:
    """Play one true story on a system of its own; exit code 1 if any effect that it expects did not happen."""
    import signal

    from tellback.demo.stage import Stage
    from tellback.demo.system import DemoSystem
    from tellback.errors import TellbackError

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # they end everything, as Ctrl-C does
    with reported():
        system = DemoSystem(keep=keep)
    kept = False
    with Stage() as stage:
        try:
            _play(stage, system, patience)
            kept = keep
            _farewell(stage, system, kept=kept)
        except TellbackError as error:
            stage.arrived()
            stage.check(happened=False, effect=f"the story could be told: {error}")
        except KeyboardInterrupt:
            stage.arrived()
            stage.say("interrupted; everything is being stopped")
            raise typer.Exit(INTERRUPTED) from None
        finally:
            stage.arrived()
            troubles = system.troubles()
            if not kept:
                _stop(stage, system)
    raise typer.Exit(_verdict(stage, troubles))


def _play(stage: Stage, system: DemoSystem, patience: float) -> None:
    from tellback.client.connection import connect
    from tellback.demo.abandon import abandon
    from tellback.demo.repair import Repair
    from tellback.demo.scene import Scene
    from tellback.demo.summary import summarize
    from tellback.settings import load

    stage.act("Tellback: a story on a system of its own")
    stage.say("The agent's decisions are scripted, for want of a language model. All that comes back is real.", "dim")
    stage.waiting("Redis, workers, beat and Flower start")
    addresses = system.start()
    stage.arrived()
    stage.check(addresses.pids, f"up: {', '.join(addresses.pids)}")
    with connect(settings=load(system.environ)) as tb:
        scene = Scene(stage, system, tb, patience=patience)
        Repair(scene).play()
        abandon(scene)
        summarize(scene)


def _farewell(stage: Stage, system: DemoSystem, *, kept: bool) -> None:
    """Where to look; on a terminal the system runs until Enter is pressed, since Flower ends with it."""
    assert system.addresses is not None
    if not kept and not _watched(stage):
        stage.say(f"Flower    {system.addresses.flower_url} until now; --keep leaves it running")
        return
    stage.say(f"Flower    {system.addresses.flower_url}")
    if kept:
        stage.say(f"It runs on. To look at it: TELLBACK_DATA_DIR={system.data} tellback turns")
        stage.say(f"To stop it: kill {system.supervisor}; its data are in {system.folder}")
        return
    stage.say("Press Enter to stop the system.")
    with suppress(KeyboardInterrupt):
        select.select([sys.stdin], [], [], LOOK_SECONDS)


def _watched(stage: Stage) -> bool:
    """Whether a person can look at Flower and press a key."""
    return stage.is_terminal and sys.stdin.isatty()


def _stop(stage: Stage, system: DemoSystem) -> None:
    stage.waiting("the system stops")
    left = system.stop()
    stage.arrived()
    if left:
        stage.check(happened=False, effect=f"every process has ended; still there: {', '.join(left)}")


def _verdict(stage: Stage, troubles: str) -> int:
    if not stage.missing:
        stage.say(f"All {stage.checked} effects happened, in {stage.seconds:.0f} s.", "bold green")
        return 0
    stage.say(f"Of {stage.checked} effects {len(stage.missing)} did not happen:", "bold red")
    for effect in stage.missing:
        stage.say(f"✗ {effect}", "red")
    if troubles:
        stage.say(troubles, "dim")
    return 1
