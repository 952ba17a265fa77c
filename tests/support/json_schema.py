"""The package `jsonschema` without the parser of IRIs: building its grammar takes each test process over a second."""

from __future__ import annotations

import sys
from typing import Any

_IRIS = "rfc3987_syntax"
_given = sys.modules.get(_IRIS)
sys.modules[_IRIS] = None  # type: ignore[assignment]  # as Python marks a module that cannot be imported
try:
    import jsonschema  # type: ignore[import-untyped]  # it ships no types
finally:
    del sys.modules[_IRIS]
    if _given is not None:
        sys.modules[_IRIS] = _given

Draft202012Validator: Any = jsonschema.Draft202012Validator
ValidationError: Any = jsonschema.ValidationError
validate: Any = jsonschema.validate
