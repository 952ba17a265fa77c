"""The folder that `tellback up` keeps between runs: Redis' data, generated passwords, logs, beat's schedule."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

from tellback.errors import ConfigurationError


class DataDir:
    """A data directory held by this process alone, until it ends."""

    def __init__(self, path: Path) -> None:
        """Make the folder where it is missing, and take its lock.

        Raises:
            ConfigurationError: it cannot be written, or another `tellback up` holds it.
        """
        self.path = path.absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in (self.redis, self.logs, self.beat):
                folder.mkdir(exist_ok=True, mode=0o700)
                folder.chmod(0o700)
            self._lock = os.open(self.path / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"cannot write the data directory {path}: {error.strerror}; see --data-dir"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise ConfigurationError(f"another `tellback up` uses the data directory {path}; see --data-dir") from error

    @property
    def redis(self) -> Path:
        """Where Redis keeps its append-only file."""
        return self.path / "redis"

    @property
    def logs(self) -> Path:
        """A file for each process."""
        return self.path / "logs"

    @property
    def beat(self) -> Path:
        """Where beat keeps its schedule: a pickle, so that nobody else may write there."""
        return self.path / "beat"

    def secret(self, name: str) -> str:
        """The password of this name: 32 random bytes in hexadecimal, made once and readable by this user alone.

        Raises:
            ConfigurationError: the file holds something else, or cannot be read.
        """
        path = self.path / f"{name}.password"
        try:
            if not path.exists():
                draft = path.with_suffix(".draft")
                draft.unlink(missing_ok=True)
                with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                    file.write(secrets.token_hex(32))
                draft.replace(path)
            path.chmod(0o600)
            text = path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"cannot keep a password in {path}: {error}") from error
        if not text.isalnum() or not text.isascii():  # it goes into a configuration file and a URL as it stands
            raise ConfigurationError(f"{path} holds no password of ours: delete it to have another made")
        return text

    def close(self) -> None:
        """Let another process have the folder."""
        os.close(self._lock)
