"""JSON Schema of every message, so that a host in another language can XADD.

`python -m tellback.contracts.schema FOLDER` writes one file a message; the committed ones stand in `schemas/`.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from tellback.contracts.codec import MESSAGES
from tellback.contracts.message import Message


def schema_of(message: type[Message]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one message."""
    (reference,), components = msgspec.json.schema_components([message], ref_template="#/$defs/{name}")
    root: dict[str, Any] = components.pop(reference["$ref"].rpartition("/")[2])
    root = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "x-tellback-family": message.family.value,
    }
    if components:
        root["$defs"] = components
    for part in (root, *components.values()):
        part["description"] = inspect.cleandoc(part.get("description", ""))  # Python 3.13 dedents docstrings itself
    plain: dict[str, Any] = json.loads(json.dumps(root))  # defaults as JSON has them: a tuple is an array
    return plain


def write_all(folder: Path) -> None:
    """Write every schema into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for message in MESSAGES:
        path = folder / f"{message.__name__}.json"
        path.write_text(json.dumps(schema_of(message), indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
