"""The error of a Redis that is too old for the scripts, as its callers read it."""

from __future__ import annotations

from redis import exceptions

from tellback.errors import ConfigurationError
from tellback.state.unavailable import as_raised

REFUSED_BY_6_2 = "Error compiling script (new function): user_script:1: unexpected symbol near '#'"


def test_a_redis_that_knows_no_flags_of_scripts_is_called_too_old() -> None:
    """Requirement A-604. Redis 6.2 runs scripts without flags, so a host connects, and fails at its first answer."""
    raised = as_raised(exceptions.ResponseError(REFUSED_BY_6_2), "redis://:secret@box:6380/0")
    assert isinstance(raised, ConfigurationError)
    assert str(raised).startswith("Redis at box:6380 is older than 7.0")
