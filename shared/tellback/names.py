"""Names that several processes must agree on: families of intake streams, Celery queues and tasks, shards."""

from __future__ import annotations

import re
import zlib
from enum import StrEnum
from typing import Final

from tellback.errors import ConfigurationError, InvalidInput

# No colon, brace or dot: those separate the parts of a key, and a name with one could reach another team's keys.
TEAM_PATTERN: Final = re.compile(r"[a-z0-9-]{1,64}")
MAX_SHARDS: Final = 1024  # of a team
TEAM_ID_PATTERN: Final = re.compile(r"[0-9A-Za-z]{1,64}")  # it names a folder of each host: no separators, no dots


class Family(StrEnum):
    """An intake stream's family; each is consumed on the Celery queue of the same name."""

    COMMANDS = "commands"
    EVENTS = "events"
    TURNS = "turns"
    SIGNALS = "signals"
    RECALLS = "recalls"


FAMILIES: Final = frozenset(Family)  # before Python 3.12, `text in Family` raises

REPLAY_TEAM: Final = "replay"  # what `tellback replay` plays into, unless it is given another
SWEEPS_QUEUE: Final = "sweeps"
RECORD_FILE: Final = "feedback_record.jsonl"  # the records, on the host that ran the commands


class Task(StrEnum):
    """Names of the Celery tasks."""

    CONSUME = "tellback.consume"
    RUN_JOB = "tellback.run_job"
    FIRE_TIMERS = "tellback.fire_timers"
    VISIT_TEAMS = "tellback.visit_teams"
    DECAY = "tellback.decay"


def host_queue(host: str) -> str:
    """Return the Celery queue of the commands that must run on `host`."""
    return f"commands.{host}"


def check_team(team: str) -> str:
    """Return `team` if it is a valid name. Teams are the trust boundary, and every key contains the name.

    Raises:
        InvalidInput: it is not valid.
    """
    if not TEAM_PATTERN.fullmatch(team):
        raise InvalidInput(f"team {team[:100]!r}: use 1 to 64 of a-z, 0-9 and '-'")
    return team


def check_data_dir(path: str) -> str:
    """Return the path of a data directory, by which all processes of a host find the same spool.

    Raises:
        ConfigurationError: it is relative, so that each working directory would have one of its own.
    """
    if not path.startswith("/"):
        raise ConfigurationError(
            f"TELLBACK_DATA_DIR is {path[:100]!r}: use an absolute path, such as /var/lib/tellback"
        )
    return path


def stored_shards(team: str, stored: bytes) -> int:
    """Return the number of shards of a team as stored. A host may store more: workers would list all of them.

    Raises:
        InvalidInput: it is none that a team can have.
    """
    shards = int(stored) if stored.isdigit() and len(stored) <= len(str(MAX_SHARDS)) else 0
    if not 1 <= shards <= MAX_SHARDS:
        found = stored[:20].decode("ascii", "replace")
        raise InvalidInput(f"team {team} is stored with {found!r} shards; a team has 1 to {MAX_SHARDS}")
    return shards


def stored_team_id(team: str, stored: bytes) -> str:
    """Return a team's id as stored. Any host of the team can write it, and each host makes a folder of that name.

    Raises:
        InvalidInput: it is none that Tellback stores.
    """
    id_ = stored.decode("ascii", "replace")
    if not TEAM_ID_PATTERN.fullmatch(id_):
        raise InvalidInput(
            f"team {team} is stored with the id {stored[:80]!r}, and an id has 1 to 64 letters and digits: delete the "
            "field `id` of the team's key `team` in Redis, and the next process stores a new one"
        )
    return id_


def shard_of(routing: str, shards: int) -> int:
    """Return the shard of a routing text: CRC-32 (IEEE) of its UTF-8 bytes modulo `shards`.

    The routing text is the session (commands, events), the bank (signals, recalls), or the channel, a NUL character
    and the conversation (turns). CRC-32 is available in every language, for hosts that use plain XADD.
    """
    return zlib.crc32(routing.encode()) % shards


USER_PROMPT: Final = "prompt"  # the kind of a published change that says that the user spoke


def agent_evaluation(evaluation: str, agent: str, longest: int) -> str:
    """Return the name of a subagent's evaluation, from that of the main agent's; without a subagent it is the same.

    The end of a name that is too long is kept, since it distinguishes subagents.
    """
    return f"{evaluation}/{agent}"[-longest:] if agent else evaluation


def turn_routing(channel: str, conversation: str) -> str:
    """Return the routing text of a conversation's turns."""
    return f"{channel}\0{conversation}"
