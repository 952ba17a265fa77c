"""`tellback demo`: run the end-to-end demo in an isolated instance, and check every effect it promises.

The instance has its own Redis, data directory and ports, so the demo neither sees nor disturbs a running system.
"""

from __future__ import annotations

import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli import INTERRUPTED
from tellback.cli.common import BEGIN, report_errors

if TYPE_CHECKING:
    from tellback.demo.screen import DemoScreen
    from tellback.demo.system import DemoSystem

INSPECT_SECONDS: Final = 600.0  # a demo left open in a forgotten terminal ends by itself


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=BEGIN)(demo)


def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the instance running so that you can explore it.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for each expected effect.")] = 60.0,
) -> None:
    """Run the end-to-end demo in an isolated instance. Exits 1 if an expected effect doesn't happen."""
    import signal

    from tellback.demo.screen import DemoScreen
    from tellback.demo.system import DemoSystem
    from tellback.errors import TellbackError
    from tellback.up.system import check_installed

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # as Ctrl-C: unwind, so that the instance is stopped
    with report_errors():
        check_installed("demo", flower=True)
        system = DemoSystem(keep=keep)
    kept = False
    with DemoScreen() as screen:
        try:
            _play_acts(screen, system, timeout)
            kept = keep
            _show_links(screen, system, kept=kept)
        except TellbackError as error:
            screen.stop_waiting()
            screen.check(happened=False, effect=f"the demo runs without errors: {error}")
        except KeyboardInterrupt:
            screen.stop_waiting()
            screen.print_line("interrupted; stopping the instance")
            raise typer.Exit(INTERRUPTED) from None
        finally:
            screen.stop_waiting()
            troubles = system.supervisor_errors()
            if not kept:
                _stop(screen, system)
    raise typer.Exit(_final_verdict(screen, troubles))


def _play_acts(screen: DemoScreen, system: DemoSystem, timeout: float) -> None:
    from tellback.client.connection import connect
    from tellback.demo.acts import RepairAct, play_abandoned_turn, print_summary
    from tellback.demo.run import DemoRun
    from tellback.settings import load

    screen.begin_act("Tellback demo in an isolated instance")
    screen.print_line(
        "The agent's decisions are scripted, because the demo has no language model. All feedback is real.", "dim"
    )
    screen.show_waiting("starting Redis, workers, beat and Flower")
    addresses = system.start()
    screen.stop_waiting()
    screen.check(addresses.pids, f"up: {', '.join(addresses.pids)}")
    with connect(settings=load(system.environ)) as tb:
        run = DemoRun(screen, system, tb, timeout=timeout)
        RepairAct(run).play()
        play_abandoned_turn(run)
        print_summary(run)


def _show_links(screen: DemoScreen, system: DemoSystem, *, kept: bool) -> None:
    """Print where to look; on a terminal, keep the instance (and so Flower) running until Enter is pressed."""
    assert system.addresses is not None
    if not kept and not _is_interactive(screen):
        screen.print_line(f"Flower    {system.addresses.flower_url} (stopping; use --keep to leave it running)")
        return
    screen.print_line(f"Flower    {system.addresses.flower_url}")
    if kept:
        screen.print_line(f"The instance keeps running. Explore it: TELLBACK_DATA_DIR={system.data} tellback turns")
        screen.print_line(f"Stop it: kill {system.supervisor}. Its data is in {system.folder}")
        return
    screen.print_line("Press Enter to stop the instance.")
    with suppress(KeyboardInterrupt):
        select.select([sys.stdin], [], [], INSPECT_SECONDS)


def _is_interactive(screen: DemoScreen) -> bool:
    """Return True if a person is there to open Flower and press a key."""
    return screen.is_terminal and sys.stdin.isatty()


def _stop(screen: DemoScreen, system: DemoSystem) -> None:
    screen.show_waiting("stopping the instance")
    left = system.stop()
    screen.stop_waiting()
    if left:
        screen.check(happened=False, effect=f"every process has ended; still running: {', '.join(left)}")


def _final_verdict(screen: DemoScreen, troubles: str) -> int:
    if not screen.missing:
        screen.print_line(f"All {screen.checked} expected effects happened in {screen.seconds:.0f} s.", "bold green")
        return 0
    screen.print_line(f"{len(screen.missing)} of {screen.checked} expected effects did not happen:", "bold red")
    for effect in screen.missing:
        screen.print_line(f"✗ {effect}", "red")
    if troubles:
        screen.print_line(troubles, "dim")
    return 1
