"""One thing that the doctor looked at."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["ok", "note", "wrong"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What was found and, unless all is well, what to do. `note`: worth knowing; `wrong`: something does not work."""

    check: str
    state: State
    found: str
    advice: str = ""


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check=check, state="ok", found=found)


def note(check: str, found: str, advice: str) -> Finding:
    """Worth knowing."""
    return Finding(check=check, state="note", found=found, advice=advice)


def wrong(check: str, found: str, advice: str) -> Finding:
    """Something does not work, or will not."""
    return Finding(check=check, state="wrong", found=found, advice=advice)
