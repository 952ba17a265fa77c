"""The text of the Lua scripts: each lives in `lua/NAME.lua`, which opens with its keys, arguments and return.

A line `-- @include NAME` takes in `lua/lib/NAME.lua`, so that shared lines stand once.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

_INCLUDE: Final = re.compile(r"^-- @include (\w+)$", re.MULTILINE)
_FOLDER: Final = os.path.join(os.path.dirname(__file__), "lua")  # noqa: PTH118, PTH120 - for the loader, and to start fast


def script_text(name: str) -> str:
    """A script with its includes, read through the package's own loader, so that it may lie in an archive."""
    loader: Any = globals()["__loader__"]
    raw: bytes = loader.get_data(os.path.join(_FOLDER, *f"{name}.lua".split("/")))  # noqa: PTH118 - as above
    return _INCLUDE.sub(lambda match: script_text(f"lib/{match[1]}"), raw.decode())
