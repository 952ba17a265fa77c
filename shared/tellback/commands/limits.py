"""What one command and all that it starts may use."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes are bytes, times seconds; None: no limit. All but `cpu` and `file` hold for the whole tree of processes."""

    memory: Annotated[int, Meta(ge=1 << 20)] | None = None
    """Resident memory, pages that processes share counted in each; also the private data of each process."""
    processes: Annotated[int, Meta(ge=1)] | None = None
    """Processes that live at a time."""
    output: Annotated[int, Meta(ge=1)] | None = None
    """What both streams may print."""
    written: Annotated[int, Meta(ge=1)] | None = None
    """What may be written in all, to files, pipes and sockets alike."""
    file: Annotated[int, Meta(ge=1)] | None = None
    """The size of each file that is written."""
    cpu: Annotated[int, Meta(ge=1)] | None = None
    """Processor time of each process."""


NO_LIMITS = Limits()
