"""The times that keep two attempts of a command apart, for every setting that loads."""

from __future__ import annotations

from itertools import product

import pytest

from tellback.errors import ConfigurationError
from tellback.settings import load
from tellback.state.script_calls import to_milliseconds
from tellback_workers.lease_heartbeat import LeaseTimes


@pytest.mark.parametrize(
    ("lease", "redis_wait", "grace"), [*product(("1", "10", "3600"), ("0", "30", "3600"), ("0", "5", "3600"))]
)
def test_no_attempt_begins_before_the_one_before_is_dead(lease: str, redis_wait: str, grace: str) -> None:
    """One to retry is stopped, then killed, then over in Redis; any other is over in Redis first, and continues."""
    settings = load(
        {"TELLBACK_JOB_LEASE": lease, "TELLBACK_COMMAND_REDIS_WAIT": redis_wait, "TELLBACK_COMMAND_GRACE": grace}
    )
    retry, record = LeaseTimes.of(settings, "retry"), LeaseTimes.of(settings, "record")
    assert retry.renew < retry.stop < retry.kill < retry.lease
    assert retry.stop + settings.command_grace < retry.kill
    assert record.renew < record.lease <= record.stop < record.kill
    assert (retry.exclusive, record.exclusive) == (True, False)


@pytest.mark.parametrize("name", ["TELLBACK_JOB_LEASE", "TELLBACK_COMMAND_REDIS_WAIT", "TELLBACK_COMMAND_GRACE"])
@pytest.mark.parametrize("value", ["-1", "inf", "nan"])
def test_times_that_cannot_keep_them_apart_do_not_load(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        load({name: value})


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.0, 1), (0.0004, 1), (0.0016, 2), (1.5, 1_500)])
def test_a_time_for_a_script_is_never_none(seconds: float, milliseconds: int) -> None:
    """Redis refuses a lease of none."""
    assert to_milliseconds(seconds) == milliseconds
