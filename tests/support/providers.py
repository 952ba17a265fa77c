"""Custom providers that worker processes load in tests; some misbehave."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tellback import Feedback, FeedbackContext, Observation

ALL = (
    "Monitor,Raises,Mute,Leaks,Hangs,Stubborn,Nonsense,Exits,KillsOnce,Kills,Forever,Hog,Floods,Deep,Outside,Endless,"
    "Vast,Wordy,Untellable,Late"
)
SETTING = ",".join(f"tests.support.providers:{name}" for name in ALL.split(","))


@dataclass(frozen=True)
class Always:
    """A provider that is always due; the base of the others here."""

    @property
    def name(self) -> str:
        return type(self).__name__

    def should_run(self, *, context: FeedbackContext) -> bool:
        return True

    def provide(self, *, context: FeedbackContext) -> Feedback:
        return Feedback(provider_name=self.name, summary=f"Tool calls: {context.tool_call_count}")


@dataclass(frozen=True)
class Monitor(Always):
    """`ToolUsageMonitor`, by another name than the built-in one."""

    max_calls_without_progress: int = 20

    def provide(self, *, context: FeedbackContext) -> Feedback:
        last = context.recent_tool_calls(1)[0]
        return Feedback(
            provider_name=self.name,
            summary=f"{context.tool_call_count} of {self.max_calls_without_progress}, last {last.tool}",
            severity="caution",
        )


class Raises(Always):
    """A provider that raises an error."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        raise RuntimeError("broken on purpose")


class Mute(Always):
    """Raises an error whose text cannot be built."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        class UntoldError(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no")

        raise UntoldError


class Leaks(Always):
    """Says a secret, in its feedback or in its exception."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        if context.tool_call_count % 2:
            raise RuntimeError("password=hunter22")
        return Feedback(self.name, "login with password=hunter22", suggestions=("api_key=abc", "stay calm"))


class Hangs(Always):
    """Waits without end, before it even says whether it wants to run."""

    def should_run(self, *, context: FeedbackContext) -> bool:
        time.sleep(3600)
        return True


class Stubborn(Always):
    """Swallows every exception, and never ends by itself."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        while True:
            try:
                while True:
                    pass
            except Exception:  # noqa: BLE001 - just this is under test
                continue


class Nonsense(Always):
    """Returns what is no feedback."""

    def provide(self, *, context: FeedbackContext) -> Any:
        return {"summary": "a dict"}


class Exits(Always):
    """Calls sys.exit."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        raise SystemExit(3)


@dataclass(frozen=True)
class KillsOnce(Always):
    """Kills its own process the first time: evaluated, and never committed."""

    marker: str = ""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        try:
            Path(self.marker).touch(exist_ok=False)
        except FileExistsError:
            return super().provide(context=context)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")


class Forever(Always):
    """Slow, though within its time."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        time.sleep(0.15)
        return super().provide(context=context)


class Kills(Always):
    """Kills its own process each time."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")


class Hog(Always):
    """Use up all the memory that it gets."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        return Feedback(self.name, str(len(bytearray(4 << 30))))


class Floods(Always):
    """Prints without end."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        while True:
            print("x" * 10_000)  # noqa: T201 - just this is under test


class Deep(Always):
    """Calls itself without end, twice as deep as is usual."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        sys.setrecursionlimit(2_000)
        return self.provide(context=context)


class OutsideError(BaseException):
    """An error that is not an `Exception`."""


class Outside(Always):
    """Raises what an `except Exception` does not catch."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        raise OutsideError("broken on purpose")


class Endless(Always):
    """Answers with what never ends."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        return Feedback(self.name, "x", suggestions=cast("Any", itertools.repeat("again")))


class Vast(Always):
    """Answers with more than anybody reads, and than memory holds twice."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        long = "x" * 10**8
        return Feedback(long, long, (Observation(long, long),) * 50, (long,) * 50)


class Wordy(Always):
    """Raises with a text of ten megabytes."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        raise RuntimeError("x" * 10**7)


class Untellable(Always):
    """Raises an error whose text takes for ever to build."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        class SlowError(Exception):
            def __str__(self) -> str:
                time.sleep(3600)
                return "at last"

        raise SlowError


class Late(Always):
    """Swallows its interruption and answers too late."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        try:
            time.sleep(3600)
        except BaseException:  # noqa: BLE001 - just this is under test
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                with suppress(BaseException):
                    time.sleep(0.3)
        return super().provide(context=context)


class OwnTasks(Always):
    """Makes a Celery app, as one that sends tasks to its project's workers does."""

    def provide(self, *, context: FeedbackContext) -> Feedback:
        from celery import Celery

        Celery("theirs", broker="redis://127.0.0.1:1/0")
        return super().provide(context=context)
