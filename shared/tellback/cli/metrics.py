"""`tellback metrics`: what Prometheus scrapes."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.cli.common import OPERATE, TeamOption, UrlOption, client
from tellback.errors import ConfigurationError

if TYPE_CHECKING:
    from tellback.client.connection import Tellback


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=OPERATE)(metrics)


def metrics(
    *,
    serve: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65_535, help="Serve them by HTTP until SIGTERM; 0: a free port."),
    ] = None,
    bind: Annotated[str, typer.Option(help="The address to serve on; whoever reaches it can read them.")] = "127.0.0.1",
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Metrics in the text form of Prometheus: turns, fallbacks, late answers, sweep lag, outbox, intake, signals.

    Printed once, or served. Each scrape asks Redis a bounded number of questions. Needs the extra `metrics`, which
    `workers` includes.
    """
    try:
        from tellback.cli.metrics_text import metrics_text
    except ImportError as error:
        message = "tellback metrics needs prometheus-client: pip install 'tellback[metrics]'"
        with client(redis_url, team):
            raise ConfigurationError(message) from error
    with client(redis_url, team) as tb:
        if serve is None:
            typer.echo(metrics_text(tb), nl=False)
        else:
            _serve(tb, bind, serve)


def _serve(tb: Tellback, address: str, port: int) -> None:
    from prometheus_client import start_http_server

    from tellback.cli.metrics_text import registry_of

    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        server, thread = start_http_server(port, address, registry_of(tb))
    except OSError as error:
        raise ConfigurationError(f"--serve {port}: cannot listen on {address}: {error.strerror}") from error
    typer.echo(f"metrics at http://{address}:{server.server_port}/metrics", err=True)
    while not stop.wait(0.5):
        pass
    server.shutdown()
    server.server_close()
    thread.join()
