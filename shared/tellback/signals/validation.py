"""Validation of signals and recalls before anything is published. Each error names the item and the field.

Ids are checked for secrets and refused, not redacted: they are keys, and two redacted ids would become one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sized
from functools import lru_cache
from itertools import islice
from numbers import Real
from typing import Any, Final

from tellback.contracts.limits import MAX_CANDIDATES, MAX_FIELD_BYTES, MAX_ID_CHARS
from tellback.contracts.signal_types import KINDS
from tellback.contracts.signals import MAX_WAIT, Candidate, SignalItem
from tellback.errors import InvalidInput
from tellback.redaction import find_secret
from tellback.truncation import truncate_chars

_REDACTION_BATCH: Final = 1_000  # ids; one scan over all of them costs an eighth of one scan each


def check_items(items: Iterable[object]) -> list[SignalItem]:
    """Return the items of one call after checking each.

    Raises:
        InvalidInput: there are none, or one is wrong; the message names its position and field.
    """
    checked: list[SignalItem] = []
    try:
        given = iter(items)
    except TypeError:
        raise InvalidInput(f"signals is {_display_value(items)}: use a list of tellback.SignalItem(...)") from None
    for i, item in enumerate(given):
        if not isinstance(item, SignalItem):
            raise InvalidInput(f"signals[{i}] is {_display_value(item)}: use tellback.SignalItem(...)")
        check_item(item, f"signals[{i}]")
        checked.append(item)
    if not checked:
        raise InvalidInput("signals is empty: give at least one SignalItem")
    _refuse_secrets(_named_ids(checked))
    return checked


def check_item(item: SignalItem, name: str) -> None:
    """Check one item; `name` precedes the field in errors.

    Raises:
        InvalidInput: a field is wrong.
    """
    check_id(item.fact_id, f"{name}.fact_id")
    if item.signal_type not in KINDS:
        raise InvalidInput(f"{name}.signal_type is {_display_value(item.signal_type)}: use one of {', '.join(KINDS)}")
    check_query(item.query, f"{name}.query")
    check_share(item.confidence, f"{name}.confidence")
    if item.context is not None:
        _check_text(item.context, f"{name}.context", MAX_FIELD_BYTES)
    _check_text(item.signal_id, f"{name}.signal_id", MAX_ID_CHARS)


def check_id(value: Any, name: str) -> str:
    """Return `value` if it can be a fact's id or a bank's name: any text of 1 to 512 characters.

    Raises:
        InvalidInput: it is not.
    """
    text = _check_text(value, name, MAX_ID_CHARS)
    if not text:
        raise InvalidInput(f"{name} is empty")
    return text


def check_name(value: Any, name: str) -> str:
    """Return `value` if it can appear unredacted in keys and listings: it passes `check_id` and no rule matches it.

    Raises:
        InvalidInput: it is not.
    """
    text = check_id(value, name)
    if rule := _find_secret_rule(text):
        raise _secret_error(name, rule)
    return text


def check_query(value: Any, name: str) -> str:
    """Return `value` if it is a query, text that is not blank; above the limit of a field it is truncated later.

    Raises:
        InvalidInput: it is not.
    """
    text = _check_text(value, name, None)
    if not text.strip():
        raise InvalidInput(f"{name} is blank: the query ties a signal to its query cluster")
    return text


def check_share(value: Any, name: str) -> float:
    """Return `value` as a float if it is a number in [0, 1].

    Raises:
        InvalidInput: it is not a number, or NaN, or outside.
    """
    # bool is an int to Python, but True as a confidence is a mistake. NaN fails the comparison.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(f"{name} is {_display_value(value)}: use a number from 0 to 1")
    return float(value)


def check_candidates(candidates: Iterable[object]) -> list[Candidate]:
    """Return the candidates of one recall, at most 1,000; a duplicate counts once, with its higher score.

    Raises:
        InvalidInput: one is wrong, the message names its position and field; or there are too many.
    """
    try:
        found = iter(candidates)
    except TypeError:
        raise InvalidInput(
            f"candidates is {_display_value(candidates)}: use a list of (fact_id, semantic score)"
        ) from None
    # One more than allowed and no further: the iterable may be endless.
    given = list(islice(found, MAX_CANDIDATES + 1))
    if len(given) > MAX_CANDIDATES:
        count = f"{len(candidates)}" if isinstance(candidates, Sized) else f"more than {MAX_CANDIDATES}"
        raise InvalidInput(f"candidates has {count} facts: a recall ranks at most {MAX_CANDIDATES}")
    kept: dict[str, Candidate] = {}
    names: dict[str, str] = {}
    for i, value in enumerate(given):
        candidate = _checked_candidate(value, f"candidates[{i}]")
        names.setdefault(candidate.fact_id, f"candidates[{i}].fact_id")
        known = kept.get(candidate.fact_id)
        if known is None or candidate.semantic > known.semantic:
            kept[candidate.fact_id] = candidate
    _refuse_secrets(names)
    return list(kept.values())


def check_limits(limit: Any, wait: Any) -> None:
    """Check that `limit` is a number of hits, and `wait` a time for which a reply is kept.

    Raises:
        InvalidInput: one of them is not.
    """
    check_limit(limit)
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= MAX_WAIT:
        raise InvalidInput(f"wait is {_display_value(wait)}: use 0 to {MAX_WAIT:g} seconds")


def check_limit(limit: Any) -> int:
    """Return `limit` if it is a whole number, 1 or more.

    Raises:
        InvalidInput: it is not.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidInput(f"limit is {_display_value(limit)}: use 1 or more")
    return limit


def check_factor(value: Any, name: str) -> float:
    """Return `value` as a float if it is finite and 0 or more.

    Raises:
        InvalidInput: it is not.
    """
    number = _finite_float(value)
    if number is None or number < 0:
        raise InvalidInput(f"{name} is {_display_value(value)}: use a finite number, 0 or more")
    return number


def check_count(value: Any, name: str) -> int:
    """Return `value` if it is a whole number, 0 or more.

    Raises:
        InvalidInput: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"{name} is {_display_value(value)}: use 0 or more")
    return value


def check_fact_text(value: Any) -> str:
    """Return `value` if it is a fact's text, not blank; above the limit of a field it is truncated later.

    Raises:
        InvalidInput: it is not.
    """
    text = _check_text(value, "text", None)
    if not text.strip():
        raise InvalidInput("text is blank: a fact is found by its text")
    return text


def _named_ids(items: Iterable[SignalItem]) -> dict[str, str]:
    """Return each distinct id of the items with the name of the field where it appears first."""
    found: dict[str, str] = {}
    for i, item in enumerate(items):
        if item.fact_id not in found:
            found[item.fact_id] = f"signals[{i}].fact_id"
        if item.signal_id and item.signal_id not in found:
            found[item.signal_id] = f"signals[{i}].signal_id"
    return found


def _refuse_secrets(ids: Mapping[str, str]) -> None:
    """Raise for the first id that is a secret; `ids` maps each to the name of its field."""
    texts = iter(ids)
    while some := list(islice(texts, _REDACTION_BATCH)):
        if find_secret("\n".join(some)):
            for text in some:  # two neighbours may look like a secret only together
                if rule := _find_secret_rule(text):
                    raise _secret_error(ids[text], rule)


def _secret_error(name: str, rule: str) -> InvalidInput:
    return InvalidInput(f"{name} carries a secret (rule {rule}), and ids are kept as they are: use another id")


@lru_cache(maxsize=4096)
def _find_secret_rule(text: str) -> str | None:
    return find_secret(text)


def _checked_candidate(value: object, name: str) -> Candidate:
    pair: Any = (value.fact_id, value.semantic) if isinstance(value, Candidate) else value
    try:
        fact_id, semantic = [] if isinstance(pair, str) else list(pair)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is {_display_value(value)}: use (fact_id, semantic score)") from None
    check_id(fact_id, f"{name}.fact_id")
    score = _finite_float(semantic)
    if score is None:
        raise InvalidInput(f"{name}.semantic is {_display_value(semantic)}: use a finite number")
    return Candidate(fact_id, score)


def _finite_float(value: object) -> float | None:
    """Return a real number, also one of numpy, as a float; None if it is not one, or not finite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _check_text(value: Any, name: str, limit: int | None) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is {_display_value(value)}: use text")
    try:  # here, since the error could not name the item once the message is encoded
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} holds half a surrogate pair, which is not text") from None
    if limit is not None and len(value) > limit:
        raise InvalidInput(f"{name} has {len(value)} characters: use at most {limit}")
    return value


def _display_value(value: object) -> str:
    text = repr(value)
    return truncate_chars(text, 60)
