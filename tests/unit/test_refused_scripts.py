"""The error for a user who may run a script, but not one of its commands."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from tellback.state.unavailable import NotPermitted, as_raised

PLACE = " script: 655af0fa394dcf818983747b4ac4d2d6443a5543, on @user_script:56."


@pytest.mark.parametrize(
    "reason",
    [
        "ACL failure in script: User low has no permissions to run the 'xadd' command",
        "The user executing the script can't run this command or subcommand",  # Redis 7.0
    ],
)
def test_a_refusal_within_a_script_names_no_digest_and_line(reason: str) -> None:
    raised = as_raised(ResponseError(reason + PLACE), "redis://h:1/0")
    assert isinstance(raised, NotPermitted)
    assert f"refused the call: {reason}. Connect as a user with the right" in str(raised)
