"""The package `jsonschema`, which ships no types."""

from __future__ import annotations

from typing import Any

import jsonschema

Draft202012Validator: Any = jsonschema.Draft202012Validator
ValidationError: Any = jsonschema.ValidationError
validate: Any = jsonschema.validate
