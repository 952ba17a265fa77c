"""Names that several processes must agree on: intake families, Celery queues and tasks, shards."""

from __future__ import annotations

import re
import zlib
from enum import StrEnum
from typing import Final

from tellback.errors import InvalidInput

TEAM_PATTERN: Final = re.compile(r"[a-z0-9-]{1,64}")


class Family(StrEnum):
    """An intake stream's family; each is drained on the Celery queue of the same name."""

    COMMANDS = "commands"
    EVENTS = "events"
    TURNS = "turns"
    SIGNALS = "signals"
    RECALLS = "recalls"


SWEEPS_QUEUE: Final = "sweeps"
RECORD_FILE: Final = "feedback_record.jsonl"  # of records, on the host that ran the commands


class Task(StrEnum):
    """Names of the Celery tasks."""

    DRAIN = "tellback.drain"
    RUN_JOB = "tellback.run_job"
    RING = "tellback.ring"
    LOOK = "tellback.look"
    SWEEP_TURNS = "tellback.sweep_turns"
    SWEEP_JOBS = "tellback.sweep_jobs"
    DECAY = "tellback.decay"


def host_queue(host: str) -> str:
    """The Celery queue of the commands that must run on `host`."""
    return f"commands.{host}"


def check_team(team: str) -> str:
    """Return `team`, or raise `InvalidInput`: team names are the trust boundary and stand in every key."""
    if not TEAM_PATTERN.fullmatch(team):
        raise InvalidInput(f"team {team!r}: use 1 to 64 of a-z, 0-9 and '-'")
    return team


def shard_of(routing: str, shards: int) -> int:
    """CRC-32 (IEEE) of the UTF-8 bytes of `routing` modulo `shards`; the same in every language.

    The routing text is the session (commands, events), the bank (signals, recalls), or the channel, a NUL character
    and the conversation (turns).
    """
    return zlib.crc32(routing.encode()) % shards


def turn_routing(channel: str, conversation: str) -> str:
    """The routing text of a conversation's turns."""
    return f"{channel}\0{conversation}"
