"""What one hook process was told: arguments, then `TELLBACK_*` variables, then the defaults of `tellback.Settings`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tellback.connection_file import find_running_in
from tellback.errors import ConfigurationError
from tellback.names import check_team

FLAGS: Final = {
    "--prompt": "prompt",
    "--config": "hook_config",
    "--redis-url": "redis_url",
    "--team": "team",
    "--wait": "hook_wait",
}
DEFAULTS: Final = {  # those of `tellback.Settings`; a test compares them
    "redis_url": "redis://127.0.0.1:6379/0",
    "team": "default",
    "shards": 4,
    "intake_max": 100_000,
    "spool_max_bytes": 256 << 20,
    "hook_wait": 0.05,
}
PROMPT: Final = "agent"


class Options(NamedTuple):
    """`wait` is the longest time, in seconds, that the process spends on Redis."""

    redis_url: str
    team: str
    shards: int
    data: str
    intake_max: int
    spool_max_bytes: int
    wait: float
    prompt: str | None
    config: str
    redaction_rules: str


def read_options(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    """The options.

    Raises:
        ConfigurationError: an argument or a variable is wrong; the text names it.
    """
    given = _flags(arguments)
    data = data_folder(environ)

    def text(name: str) -> str:
        return given.get(name) or environ.get(f"TELLBACK_{name.upper()}") or str(DEFAULTS.get(name, ""))

    url = text("redis_url") if given.get("redis_url") or environ.get("TELLBACK_REDIS_URL") else ""
    if not url:
        running = find_running_in(data)
        url = running.redis_url if running else text("redis_url")
    return Options(
        redis_url=url,
        team=check_team(text("team")),
        shards=_whole("shards", text("shards"), 1, 1024),
        data=data,
        intake_max=_whole("intake_max", text("intake_max"), 1, 2**62),
        spool_max_bytes=_whole("spool_max_bytes", text("spool_max_bytes"), 4096, 2**62),
        wait=_seconds("hook_wait", text("hook_wait")),
        prompt=given.get("prompt"),
        config=text("hook_config"),
        redaction_rules=text("redaction_rules"),
    )


def _flags(arguments: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        flag, sign, value = argument.partition("=")
        if flag not in FLAGS:
            raise ConfigurationError(f"no option {flag!r}; there are {', '.join(FLAGS)}")
        value = value if sign else next(rest, "")
        if not value:
            raise ConfigurationError(f"{flag} has no value")
        given[FLAGS[flag]] = value
    return given


def data_folder(environ: Mapping[str, str]) -> str:
    """Where this user's local files are, as `Settings.data_path` says.

    Raises:
        ConfigurationError: nothing says where.
    """
    if given := environ.get("TELLBACK_DATA_DIR"):
        return given
    share = environ.get("XDG_DATA_HOME") or os.path.join(_home(environ), ".local", "share")  # noqa: PTH118 - a path without pathlib
    return os.path.join(share, "tellback")  # noqa: PTH118 - as above


def _home(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - as above
    if not home.startswith("/"):
        raise ConfigurationError("this user has no home directory: set TELLBACK_DATA_DIR")
    return home


def _whole(name: str, text: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise ConfigurationError(f"TELLBACK_{name.upper()} is no whole number from {least} to {most}")
    return value


def _seconds(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 10:
        raise ConfigurationError(f"TELLBACK_{name.upper()} is no number of seconds above 0, to 10")
    return value
