"""This worker's directory for control groups: claimed once before its pool is made, known to every process of it."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

import structlog
from celery import signals

from tellback.commands.cgroups import sweep
from tellback.settings import Settings, load
from tellback_workers.delegation import NotDelegated, claim
from tellback_workers.policy_file import PolicyFile, read_policy

_log = structlog.get_logger("tellback.limits")
_claimed: Final[list[Path]] = []
_reason: Final[list[str]] = []


@lru_cache(maxsize=1)
def groups_parent() -> Path | None:
    """Where this process makes groups for commands; what dead processes left there is removed first."""
    if not _claimed:
        return None
    if swept := sweep(_claimed[0]):
        _log.info("limits.swept", parent=str(_claimed[0]), groups=swept)
    return _claimed[0]


# A new process of the pool may stand in for one that was killed.
os.register_at_fork(after_in_child=groups_parent.cache_clear)


def described() -> str:
    """How this worker holds memory and processes of commands, in words for `tellback doctor`."""
    if _claimed:
        return f"held by control groups below {_claimed[0]}"
    return f"held by looking at processes: {_reason[0]}" if _reason else "none"


def claim_groups(settings: Settings) -> None:
    """Claim the directory if the policy has limits that need one, and say in the log how they are held."""
    if not limits_trees(read_policy(settings.command_policy)):
        return
    try:
        parent = claim(settings.command_cgroup)
    except NotDelegated as reason:
        _reason[:] = [str(reason)]
        _log.warning("limits.watched", reason=str(reason))
    else:
        _claimed[:] = [parent]
        _log.info("limits.grouped", parent=str(parent))
        groups_parent()


def limits_trees(policy: PolicyFile) -> bool:
    """Whether the policy limits what trees of processes use together."""
    every = [policy.limits, *(section.limits for section in policy.sections.values())]
    return any(limits.memory is not None or limits.processes is not None for limits in every)


@signals.celeryd_after_setup.connect
def _claim(**_: object) -> None:
    claim_groups(load())
