"""Ctrl-C at any step of a call: an exception is raised where Python looks for signals, at one step after the other."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

import redis

import tellback

_WATCHED: Final = (str(Path(tellback.__file__).parent), str(Path(redis.__file__).parent), contextlib.__file__)


def interrupted_at(step: int, call: Callable[[], object]) -> tuple[object, KeyboardInterrupt | None]:
    """Run a call and interrupt it at a step; return its result, and the interrupt if it was not over before.

    A step is the beginning of a function, or the end of one or of a built-in, in the code of this project or of what it
    uses for its calls.
    """
    left, here = step, inspect.currentframe()

    def count_step(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal left
        if event == "c_call" or not frame.f_code.co_filename.startswith(_WATCHED) or _swallows(frame):
            return
        if event == "return" and frame.f_back is here:
            return  # nobody can keep what is lost on its way to the caller
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    sys.setprofile(count_step)
    try:
        return call(), None
    except KeyboardInterrupt as interrupt:
        return None, interrupt
    finally:
        sys.setprofile(None)


def _swallows(frame: FrameType) -> bool:
    """Check for what cannot pass on an exception: a generator that is closed, and a finalizer with what it calls."""
    at: FrameType | None = frame
    while at is not None and at.f_code.co_name != "__del__":
        at = at.f_back
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR) or at is not None
