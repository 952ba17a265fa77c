"""The package `jsonschema`, which ships no types."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]  # see above

Draft202012Validator: Any = jsonschema.Draft202012Validator
ValidationError: Any = jsonschema.ValidationError
validate: Any = jsonschema.validate
