"""The demo's terminal output and its scene: what all acts share.

`DemoScreen` prints acts, lines, checks and tables, with a spinner while it waits. `DemoScene` holds the screen, the
running instance, a client, and the counts that the summary compares with Redis.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from tellback import clock
from tellback.contracts.turns import DeliveryKind, RoutingOutcome
from tellback.errors import TellbackError
from tellback.state.presence import Presence

if TYPE_CHECKING:
    from tellback.client.connection import Tellback
    from tellback.demo.system import DemoSystem


class DemoScreen:
    """The output of one demo; it collects the effects that didn't happen.

    It writes to standard output; in a pipe without colours and without the spinner.
    """

    def __init__(self) -> None:
        # Soft wrap: in a pipe rich would otherwise break lines at 80 columns.
        self._console = Console(highlight=False, soft_wrap=True)
        self._status = Status("", console=self._console)
        self._start = clock.monotonic()
        self.checked = 0
        self.missing: list[str] = []

    def __enter__(self) -> Self:
        """Return the screen."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the spinner."""
        self._status.stop()

    @property
    def is_terminal(self) -> bool:
        """Return True if the output is a terminal."""
        return self._console.is_terminal

    @property
    def seconds(self) -> float:
        """The seconds since the demo began."""
        return clock.monotonic() - self._start

    def begin_act(self, title: str) -> None:
        """Print the title of a new act."""
        self._console.print()
        self._console.print(Text(title, style="bold"))

    def print_line(self, text: str, style: str = "") -> None:
        """Print one or more lines, indented."""
        for line in text.splitlines() or [""]:
            self._console.print(Text(f"  {line}".rstrip(), style=style))

    def check(self, happened: object, effect: str) -> bool:
        """Print an expected effect with a tick or a cross, and keep it if it didn't happen."""
        self.checked += 1
        mark, style = ("✓", "green") if happened else ("✗", "bold red")
        self._console.print(Text.assemble((f"  {mark} ", style), effect))
        if not happened:
            self.missing.append(effect)
        return bool(happened)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table whose first column is text and whose other columns are numbers."""
        table = Table(title=title, title_justify="left", title_style="")
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number else "left")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)

    def show_waiting(self, what: str) -> None:
        """Show a spinner with a text on a terminal, until the next call of `stop_waiting`."""
        if self._console.is_terminal:
            self._status.update(Text(what))
            self._status.start()

    def stop_waiting(self) -> None:
        """Hide the spinner."""
        self._status.stop()


CHANNEL: Final = "chat"

PROMPT: Final = "demo:repair"


@dataclass(slots=True)
class ExpectedCounts:
    """The names of this run, and the counts that its processes reported, which Redis should hold at the end."""

    session: str = field(default_factory=lambda: f"repair-{secrets.token_hex(3)}")
    bank: str = field(default_factory=lambda: f"agent-{secrets.token_hex(3)}")
    evaluation: str = ""
    turns: dict[str, str] = field(default_factory=dict[str, str])  # ids by user
    records: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: int = 0
    feedback: int = 0
    signals: int = 0


class DemoScene:
    """The running demo, shared by its acts; `timeout` is the longest wait for one effect, in seconds."""

    def __init__(self, stage: DemoScreen, system: DemoSystem, tb: Tellback, *, timeout: float) -> None:
        self.stage = stage
        self.system = system
        self.tb = tb
        self.timeout = timeout
        self.cast = ExpectedCounts()
        self._workers = {
            queue: worker.name
            for worker in Presence(tb.context.database, tb.context.layout.team).workers()
            for queue in worker.queues
        }

    def preload_model(self) -> None:
        """Load the embedding model while the tests run, by a recall whose answer nobody reads."""

        def recall() -> None:
            with suppress(TellbackError):  # the agent's own recall reports the error
                self.tb.bank(self.cast.bank).recall("warm", [("up", 1.0)], wait=min(60.0, self.timeout))

        threading.Thread(target=recall, name="demo-warm-up", daemon=True).start()

    def worker_of_queue(self, queue: str) -> str:
        """Return the worker that serves this queue; in the demo each queue has exactly one."""
        return self._workers.get(queue, "no worker")

    def deliver_responses(self, user: str, kind: DeliveryKind) -> str | None:
        """Act as the transport: print and settle deliveries until this user's response is among them.

        Returns its text, or None if it didn't come in time or isn't of this kind.
        """
        for delivery in self.tb.outbox(CHANNEL, wait=self.timeout):
            self.stage.stop_waiting()
            text = delivery.response.text or ""
            self.stage.print_line(f"{CHANNEL} to {delivery.conversation}: {text}", "bold")
            settled = delivery.settle(RoutingOutcome(attempted=True, sent_text=True))
            self.stage.check(settled == "delivered", f"the transport has sent it and settled: {settled}")
            if delivery.turn_id == self.cast.turns.get(user):
                return text if delivery.kind == kind else None
        self.stage.stop_waiting()
        return None
