"""The state of what a call looks at or waits for: gone, or on its way."""

from __future__ import annotations

import re
from typing import Final

# What `ps`, `docker`, schedulers and clients print when the process or server that a call waits for has ended.
_DEAD: Final = re.compile(
    r"no such process|connection refused|not running|\bexited\b(?! \(0\))|\bkilled\b|terminated|defunct"
    r"|no such container"
    r"|\bdead\b|could not connect|process not found|\bfailed\b|\bfailure\b|\bcancell?ed\b"
    r"|crashloopbackoff|imagepull|out of memory|bad gateway|\berror\b",
    re.IGNORECASE,
)
# Of several jobs, one may be completed while the others run.
_COMPLETED: Final = re.compile(r"\bcompleted\b", re.IGNORECASE)
# The state of a job, a build or a rollout that is under way: whoever asks again waits for it. Of a record or a tag, not
# of a table, which lists what runs for good.
_LABELS: Final = ("status", "state", "phase")
_PENDING: Final = re.compile(
    rf"\b(?:{'|'.join(_LABELS)})\b"
    r"[\"'>\s:=]{1,6}(?:\w{1,20}[_ -])?(?:queued|pending|running|waiting|scheduled|processing"
    r"|in[_ -]?progress|building|deploying|starting|creating|updating|provisioning|initiali[sz]ing|executing"
    r"|awaiting)(?:[_ -]\w{1,20})?\b",
    re.IGNORECASE,
)
# What no service is in for good, so that it needs no such label; Kubernetes', AWS's and Docker's words.
_UNDER_WAY: Final = (
    "ContainerCreating", "PodInitializing", "Pending", "pending", "in-progress", "in_progress", "in progress",
    "creating", "provisioning", "queued", "health: starting",
)  # fmt: skip
_ON_ITS_WAY: Final = re.compile(rf"\b(?:{'|'.join(_UNDER_WAY)})\b")
STATE_CHARS: Final = 2_000  # a longer result is a file or a listing


def is_dead(text: str) -> bool:
    """Check whether a result says that the thing waited for is gone."""
    if _DEAD.search(text) is not None:
        return True
    return _COMPLETED.search(text) is not None and not is_under_way(text)


def is_under_way(text: str) -> bool:
    """Check whether a result has a word that no service is in for good, such as `in_progress`."""
    return _ON_ITS_WAY.search(text) is not None


def is_pending(text: str, *, listed: bool) -> bool:
    """Check whether a short result says that what it is about is not finished.

    It is `listed` if a service lists what it has, and a word alone says it.
    """
    if len(text) > STATE_CHARS:
        return False
    if listed and any(map(text.__contains__, _UNDER_WAY)) and is_under_way(text):
        return True
    plain = text.lower()  # the pattern alone took 70 µs of each call
    return any(word in plain for word in _LABELS) and _PENDING.search(text) is not None
