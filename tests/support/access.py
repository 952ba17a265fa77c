"""A deployment whose Redis knows users: the files of `tellback acl`, and real servers that loaded them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from tellback.access.actions import OTHER, OWN, Server
from tellback.access.files import BROKER_FILE, STATE_FILE, Deployment, files_of, write_files
from tellback.access.users import Release, agent_name
from tellback.settings import Settings, load
from tests.support.redis_server import RedisServer, free_port, server_binary

TEAMS = (OWN, OTHER)


def name_of(kind: str) -> str:
    """The user of a kind of users; the agent is that of the first team."""
    return agent_name(OWN) if kind == "agent" else kind


def release_of(program: str) -> Release:
    """The release for which `tellback acl` writes files that this server loads; that on PATH may be Debian's."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"v=(\d+)\.(\d+)", said)
    assert found is not None, said
    version = int(found[1]), int(found[2])
    if version < (7, 2):
        return "7.0"
    return "8" if version >= (8, 0) and "valkey" not in said.lower() else "7.2"


class AccessDeployment(NamedTuple):
    """The folder with the files, and the servers; with one Redis both are the same."""

    folder: Path
    state: RedisServer
    broker: RedisServer

    def environ(self, user: str) -> dict[str, str]:
        """The settings of a user, as its process gets them."""
        lines = (self.folder / f"{user}.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def settings(self, user: str) -> Settings:
        """The same as `Settings`, with a data directory of its own."""
        read = load({**self.environ(user), "TELLBACK_DATA_DIR": str(self.folder / f"data-{user}")})
        return msgspec.structs.replace(read, shards=1)

    def url(self, user: str, server: Server) -> str:
        """The URL by which a user reaches a server; without a right to do so, the password that it has."""
        environ = self.environ(user)
        given = environ.get("TELLBACK_REDIS_URL" if server == "state" else "TELLBACK_BROKER_URL")
        if given is None:
            other = next(value for name, value in environ.items() if name.endswith("_URL"))
            target = self.state if server == "state" else self.broker
            given = f"{other.rpartition('@')[0]}@127.0.0.1:{target.port}/0"
        return given


@contextmanager
def running_access(folder: Path, *, one_redis: bool = False, program: str | None = None) -> Generator[AccessDeployment]:
    """Start the servers of a deployment of two teams, of another `program` if one is named."""
    ports = (free_port(), free_port())
    state, broker = (f"redis://127.0.0.1:{port}/0" for port in ports)
    write_files(
        folder,
        files_of(Deployment(TEAMS, state, "" if one_redis else broker, release=release_of(program or server_binary()))),
    )
    with ExitStack() as stack:
        started: list[RedisServer] = []
        for port, name in list(zip(ports, (STATE_FILE, BROKER_FILE), strict=True))[: 1 if one_redis else 2]:
            data = folder / name.removesuffix(".acl")
            data.mkdir()
            server = RedisServer(data, "--aclfile", str(folder / name))
            server.port = port
            server.program = program or server.program
            server.launch()
            assert server.running, (data / "redis.log").read_text()
            started.append(stack.enter_context(server))
        yield AccessDeployment(folder, started[0], started[-1])
