"""Checks of settings that need more than their types and bounds; each error names the variable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tellback.errors import ConfigurationError, InvalidInput
from tellback.names import check_team

FORMS: Final = {
    "DEVICE": "use cpu, cuda, cuda:1 or mps",
    "HOST": "use at most 253 of A-Z, a-z, 0-9, '.', '_' and '-', as in build-1.example.org",
}
"""The advice on a wrong value of each setting with a pattern."""

KINDS: Final = {
    "Expected `bool`, got `str`": "use true or false",
    "Expected `int`, got `str`": "use a whole number",
    "Expected `float`, got `str`": "use a number",
}
"""The advice on a value of another type, by what msgspec says of it: a person does not know that all are texts."""

_BOUND: Final = re.compile(r"Expected `(int|float)` ([<>]=?) (\S+)")
_SIDES: Final = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


def add_rules_of(path: str, variable: str) -> None:
    """Add the redaction rules in a file to those of this process; without a path there are none.

    Raises:
        ConfigurationError: a rule is wrong, or the file cannot be read.
    """
    if not path:
        return
    from tellback.redaction import add_rules  # noqa: PLC0415 - paid for only where there is such a file
    from tellback.redaction.custom import load_rules  # noqa: PLC0415 - as above

    try:
        add_rules(load_rules(Path(path)))
    except ConfigurationError as error:
        raise ConfigurationError(f"{variable}: {error}") from error


def check_teams(variable: str, *teams: str) -> None:
    """Check the names of teams; `variable` is "" for names that an argument gave.

    Raises:
        ConfigurationError: a name is not allowed.
    """
    try:
        for team in teams:
            check_team(team)
    except InvalidInput as error:
        raise ConfigurationError(f"{variable}: {error}" if variable else str(error)) from error


def wrong_setting(message: str, given: Mapping[str, object]) -> tuple[str, str]:
    """Return the name of the setting that a validation error is about, or `*`, and what is wrong with its value."""
    name = next((name for name in given if f"$.{name}`" in message), "*")
    wrong, _, _ = message.partition(" - at ")  # the rest is msgspec's path of the field that stands before it
    advice = FORMS.get(name.upper()) if "matching regex" in wrong else KINDS.get(wrong)
    if bound := _BOUND.fullmatch(wrong):
        advice = f"use {'a whole number' if bound[1] == 'int' else 'a number'} {_SIDES[bound[2]]} {bound[3]}"
    return name, wrong if advice is None else f"{given[name]!r:.100}: {advice}"
