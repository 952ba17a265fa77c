"""Requirement A-77: whoever catches `tellback.TellbackError` catches every error of Tellback's own."""

from __future__ import annotations

import tellback
from tellback import errors


def test_every_exported_error_derives_from_the_root() -> None:
    exported = [getattr(tellback, name) for name in tellback.__all__]
    found = [one for one in exported if isinstance(one, type) and issubclass(one, Exception)]
    assert len(found) > 5
    assert [one.__name__ for one in found if not issubclass(one, tellback.TellbackError)] == []


def test_every_error_of_the_module_of_errors_derives_from_the_root() -> None:
    own = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert [one.__name__ for one in own if not issubclass(one, errors.TellbackError)] == []


def test_a_message_is_bounded_and_keeps_its_end() -> None:
    """An id of a megabyte, quoted in an error, would stand in every log that reports it."""
    error = errors.NotFound(f"no turn {'x' * 1_000_000}; `tellback turns` shows what there is")
    assert len(str(error)) < 4_100
    assert str(error).startswith("no turn xxx")
    assert str(error).endswith("`tellback turns` shows what there is")
    assert str(errors.InvalidInput("short")) == "short"
