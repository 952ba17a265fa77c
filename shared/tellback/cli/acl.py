"""`tellback acl`: write the users of Redis, with random passwords, for a deployment to load."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from tellback.cli.common import OPERATE, JsonOption, UrlOption, echo, named_directory, print_json, report_errors
from tellback.errors import ConfigurationError, InvalidInput
from tellback.sanitize import is_printable

DirectoryArgument = Annotated[
    Path, typer.Argument(parser=named_directory, help="Directory to write to; it is created if necessary.")
]

TeamsOption = Annotated[
    list[str] | None,
    typer.Option("--team", help="Team that gets an agent user; repeatable. Default: TELLBACK_TEAMS or TELLBACK_TEAM."),
]

BrokerOption = Annotated[
    str | None,
    typer.Option("--broker-url", help="URL of the broker's Redis, without a login. Default: TELLBACK_BROKER_URL."),
]

ReleaseOption = Annotated[
    Literal["7.0", "7.2", "8"],
    typer.Option(
        "--redis-version",
        help="Oldest server that loads the files: 8 (with vector sets), 7.2 (also for Valkey) or 7.0.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=OPERATE)(acl)


def acl(
    directory: DirectoryArgument,
    *,
    team: TeamsOption = None,
    broker_url: BrokerOption = None,
    one_redis: Annotated[
        bool, typer.Option("--one-redis", help="State and broker share one Redis: write one ACL file for it.")
    ] = False,
    release: ReleaseOption = "8",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace files that exist. Every user gets a new password.")
    ] = False,
    as_json: JsonOption = False,
    redis_url: UrlOption = None,
) -> None:
    """Write an ACL file for Redis, one for the broker, and each user's login. Needs no Redis and prints no password.

    The users are agent-TEAM, worker, beat, flower and operator. Load a file with `aclfile FILE` in redis.conf; give
    each process the .env file of its user.
    """
    from tellback.access.files import Deployment, files_of, write_files
    from tellback.settings import load
    from tellback.state.unavailable import where_of
    from tellback.urls import check_broker, names_several

    with report_errors():
        settings = load(redis_url=redis_url, broker_url=broker_url)
        if not settings.broker_url and not one_redis:
            raise InvalidInput(
                "name the broker's Redis with --broker-url, or pass --one-redis if it is that of the state"
            )
        if broker_url and one_redis:
            raise InvalidInput("use either --broker-url or --one-redis, not both")
        broker = "" if one_redis else settings.broker_url
        _check_address("--redis-url", settings.redis_url)
        _check_address("--broker-url", broker)
        check_broker(broker or settings.redis_url, "--broker-url" if broker else "--redis-url")
        if broker and not names_several(broker) and where_of(broker) == where_of(settings.redis_url):
            raise InvalidInput("the broker's Redis is that of the state, and a server loads one file: pass --one-redis")
        teams = tuple(team or settings.served_teams or [settings.team])
        deployment = Deployment(teams, settings.redis_url, broker, release=release)
        written = write_files(directory, files_of(deployment), replace=replace)
    if as_json:
        print_json({"files": [str(path) for path in written]})
        return
    for path in written:
        echo(str(path))
    servers = " and ".join(path.name for path in written if path.suffix == ".acl")
    echo(f"Next: give {servers} to the user that Redis runs as, name it by `aclfile` in redis.conf, and start Redis.")
    echo("Each .env file is the login of one user. Keep the directory out of version control.")


def _check_address(option: str, url: str) -> None:
    """Check an address that goes into files which nobody reads before a process fails to start with them.

    Raises:
        ConfigurationError: it is not the URL of a Redis.
        InvalidInput: it has a character that ends or changes a line of an environment file.
    """
    from tellback.state.database import Database
    from tellback.tls_options import FILES

    if not url:
        return
    if not (url.isascii() and is_printable(url)) or " " in url:
        raise InvalidInput(
            f"{option}: it has a space, a control character or one beyond ASCII: percent-encode it, and name the host "
            "as DNS does (xn--...)"
        )
    # It connects to nothing. The files of TLS are those of the hosts to which the .env files go.
    try:
        Database(re.sub(rf"(?<=[?&])(?:{'|'.join(FILES)})=[^&;]*", "", url)).close()
    except ConfigurationError as error:
        raise ConfigurationError(f"{option}: {error}") from None
