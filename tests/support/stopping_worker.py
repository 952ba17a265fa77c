"""The workers' app, which stops with its whole pool right before a call of a function, as if its host stood still.

Give it to `Workers` as `app`, with `stopping_at` in its environment. A signal that the test sends once it has seen
something comes at any time: a fast worker is through by then.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from tellback_workers.app import app as app  # noqa: PLC0414 - `celery -A` finds it here
from tests.support.processes import tree_of
from tests.support.waiting import wait_until
from tests.support.workers import Workers

APP = "tests.support.stopping_worker"
STOP_AT = "TELLBACK_TEST_STOP_AT"
BATCH = "tellback_workers.consumer:Consumer._decoded"
"""The function that a consumer calls once for each batch, before it applies it."""

_MAIN = os.getpid()  # that of the worker: pool processes are forked from it


def stopping_at(function: str, call: int, mark: Path) -> dict[str, str]:
    """Return the environment of a worker that stops before this call of `module:name`; `mark` is made then."""
    return {STOP_AT: f"{function}:{call}:{mark}"}


@contextmanager
def standing_still(workers: Workers) -> Generator[None]:
    """Wait until the first worker has stopped itself; what is left of it continues when the block ends."""
    wait_until(lambda: _stopped(tree_of(workers.processes[0])), f"it stops, see {workers.logs[0]}")
    members = tree_of(workers.processes[0])
    try:
        yield
    finally:
        for member in members:
            with suppress(psutil.NoSuchProcess):
                member.resume()


def _stopped(members: list[psutil.Process]) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(members) and all(member.status() == psutil.STATUS_STOPPED for member in members)
    return False


def _stop_all(mark: Path) -> None:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:  # another process of it came here first, or it has continued
        return
    main = psutil.Process(_MAIN)
    for process in (main, *main.children(recursive=True)):
        if process.pid != os.getpid():
            process.suspend()
    os.kill(os.getpid(), signal.SIGSTOP)


def _stopping(function: Callable[..., Any], call: int, mark: Path) -> Callable[..., Any]:
    numbers = itertools.count(1)

    @functools.wraps(function)
    def counted(*arguments: Any, **options: Any) -> Any:
        if next(numbers) == call:
            _stop_all(mark)
        return function(*arguments, **options)

    return counted


if STOP_AT in os.environ:  # a worker: who imports a name alone changes nothing
    _module, _name, _call, _mark = os.environ[STOP_AT].split(":", 3)
    _class, _, _last = _name.partition(".")
    _owner = getattr(import_module(_module), _class)
    setattr(_owner, _last, _stopping(getattr(_owner, _last), int(_call), Path(_mark)))
