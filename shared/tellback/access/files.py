"""The files of a deployment's users: an ACL file for each server, and a file with the settings of each user.

Redis gets the SHA-256 of each password only. The passwords are stored once, in the users' files, in the form that
systemd (`EnvironmentFile=`) and containers (`env_file`) read. Requirement A-95.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tellback.access.users import RedisUser, Release, Rights, users_for
from tellback.errors import InvalidInput
from tellback.settings import PREFIX
from tellback.urls import with_login

STATE_FILE: Final = "redis.acl"

BROKER_FILE: Final = "broker.acl"

_PASSWORD_BYTES: Final = 32  # random ones; in hexadecimal they need no encoding in a URL

# A client without a login is this user, and it is off. It has rights all the same: Redis loads its append-only file as
# this user and drops each MULTI there that the user may not run, the effects of our scripts (seen with 8.2 and 7.0).
_NOBODY: Final = "user default reset off ~* &* +@all"


class Deployment(NamedTuple):
    """The teams and the addresses of the servers; an empty `broker_url` means that both are one server.

    `release` is that of the older server.
    """

    teams: Sequence[str]
    state_url: str
    broker_url: str = ""
    release: Release = "8"


def files_of(deployment: Deployment) -> dict[str, str]:
    """Return the content of each file by its name, with new passwords.

    Raises:
        InvalidInput: the name of a team is not allowed.
    """
    users = users_for(deployment.teams, release=deployment.release)
    passwords = {user.name: secrets.token_hex(_PASSWORD_BYTES) for user in users}
    return {
        **acl_files(users, passwords, one_server=not deployment.broker_url),
        **_user_files(deployment, users, passwords),
    }


def acl_files(users: Sequence[RedisUser], passwords: Mapping[str, str], *, one_server: bool) -> dict[str, str]:
    """Return the ACL file of each server, or of the one that is both."""
    if one_server:
        both = [_line(user.name, passwords[user.name], user.state, user.broker) for user in users]
        return {STATE_FILE: _acl(both)}
    state = [_line(user.name, passwords[user.name], user.state) for user in users if user.state]
    broker = [_line(user.name, passwords[user.name], user.broker) for user in users if user.broker]
    return {STATE_FILE: _acl(state), BROKER_FILE: _acl(broker)}


def _acl(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in (_NOBODY, *lines))


def _line(name: str, password: str, *rights: Rights | None) -> str:
    """Return a user's line; the second rights are a selector: no command of one server acts on keys of the other."""
    first, *others = [each.rules for each in rights if each is not None]
    digest = hashlib.sha256(password.encode()).hexdigest()
    selectors = "".join(f" ({rules})" for rules in others)
    return f"user {name} reset on sanitize-payload #{digest} {first}{selectors}"


def _user_files(deployment: Deployment, users: Sequence[RedisUser], passwords: Mapping[str, str]) -> dict[str, str]:
    broker = deployment.broker_url or deployment.state_url
    files: dict[str, str] = {}
    for user in users:
        password = passwords[user.name]
        values: dict[str, str] = {}
        if user.state is not None or not deployment.broker_url:
            values["REDIS_URL"] = with_login(deployment.state_url, user.name, password)
        if user.broker is not None:
            values["BROKER_URL"] = with_login(broker, user.name, password)
        if user.broker is None:
            values["TEAM"] = user.name.partition("-")[2]
        lines = (f"{PREFIX}{name}={value}\n" for name, value in values.items())
        files[f"{user.name}.env"] = "".join(lines)
    return files


def write_files(folder: Path, files: Mapping[str, str], *, replace: bool = False) -> list[Path]:
    """Write the files, readable by their owner alone, and return their paths. None is written over unless asked.

    Raises:
        InvalidInput: a file exists, or one cannot be written, as on a full disk; nothing was replaced.
    """
    paths = [folder / name for name in files]
    existing = [path.name for path in paths if path.exists() and not (replace and path.is_file())]
    if existing and replace:
        raise InvalidInput(f"{folder} has {', '.join(existing)}, not a file: remove it, or choose an empty directory")
    if existing:
        raise InvalidInput(
            f"{folder} has {', '.join(existing)}: choose an empty directory, or pass --replace, which gives every user "
            "a new password"
        )
    drafts = [path.with_name(f".{path.name}.{os.getpid()}") for path in paths]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # All drafts before the first file: with half of the files new, servers and users would disagree on passwords.
        for draft, text in zip(drafts, files.values(), strict=True):
            _write_draft(draft, text)
        for draft, path in zip(drafts, paths, strict=True):
            if replace:
                draft.replace(path)
            else:
                path.hardlink_to(draft)  # race: fails if another process has written the file since we looked
    except OSError as error:
        raise InvalidInput(f"can't write {error.filename2 or error.filename or folder}: {error.strerror}") from error
    finally:
        for draft in drafts:
            with suppress(OSError):
                draft.unlink()
    return paths


def _write_draft(draft: Path, text: str) -> None:
    """Write a file that nobody reads yet, so that nobody reads half of one."""
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
