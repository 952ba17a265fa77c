"""`tellback metrics`: print metrics in Prometheus' text format, serve them by HTTP, or export them by OTLP."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tellback.cli.common import (
    OPERATE,
    TeamOption,
    UrlOption,
    client,
    echo,
    listed_team,
    report_errors,
    stop_event,
)
from tellback.errors import ConfigurationError

if TYPE_CHECKING:
    from tellback.client.connection import Tellback

_LAST_EXPORT_SECONDS: Final = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=OPERATE)(metrics)


def metrics(
    *,
    serve: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65_535, help="Serve by HTTP until SIGTERM. 0 picks a free port."),
    ] = None,
    bind: Annotated[str, typer.Option(help="Address to serve on. There is no authentication.")] = "127.0.0.1",
    otlp: Annotated[
        bool,
        typer.Option("--otlp", help="Export to an OpenTelemetry collector until SIGTERM. Requires the extra `otel`."),
    ] = False,
    redis_url: UrlOption = None,
    team: TeamOption = None,
) -> None:
    """Print, serve or export metrics: turns, sweep lag, outbox, intake, commands, signals.

    Each scrape makes a bounded number of Redis calls. If Redis does not answer, `tellback_up` is 0; when it prints, the
    command then exits 1 with the reason. Requires the extra `metrics`, which `workers` includes. `--otlp` sends the
    same metrics by HTTP to OTEL_EXPORTER_OTLP_ENDPOINT every OTEL_METRIC_EXPORT_INTERVAL milliseconds.
    """
    try:
        from tellback.cli.metrics_collector import render_metrics
    except ImportError as error:
        message = "`tellback metrics` requires prometheus-client: pip install 'tellback[metrics]'"
        with report_errors():
            raise ConfigurationError(message) from error
    # A service may start before its team's first event, so it creates the team as a host does.
    with (client if otlp or serve is not None else listed_team)(redis_url, team) as tb:
        if otlp:
            _export_forever(tb, serve)
        elif serve is None:
            sys.stdout.write(render_metrics(tb))
            tb.context.database.now_ms()  # if Redis is away, raises why
        else:
            _serve_forever(tb, bind, serve)


def _export_forever(tb: Tellback, serve: int | None) -> None:
    if serve is not None:
        raise ConfigurationError("--otlp and --serve exclude each other: run one process for each")
    try:
        from tellback.cli.otlp_metrics import export_until, period_of
    except ImportError as error:
        raise ConfigurationError(f"--otlp: {error.name} is missing: pip install 'tellback[otel]'") from error
    from tellback.cli.metrics_collector import TellbackCollector

    stop = stop_event()
    failures: list[Exception] = []

    def export() -> None:
        try:
            export_until(stop.wait, TellbackCollector(tb), period_of(os.environ))
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)
            stop.set()

    echo("exporting metrics by OTLP", err=True)
    # In a thread that can be left: the SDK tries a collector that is away for ten seconds, and nothing interrupts it.
    exporting = threading.Thread(target=export, name="tellback-metrics", daemon=True)
    exporting.start()
    stop.wait()
    exporting.join(_LAST_EXPORT_SECONDS)
    for failure in failures:
        raise failure


def _serve_forever(tb: Tellback, address: str, port: int) -> None:
    from prometheus_client import start_http_server

    from tellback.cli.metrics_collector import build_registry

    stop = stop_event()
    try:
        server, thread = start_http_server(port, address, build_registry(tb))
    except OSError as error:
        raise ConfigurationError(f"--serve {port}: can't listen on {address}: {error.strerror}") from error
    echo(f"serving metrics at http://{address}:{server.server_port}/metrics", err=True)
    while not stop.wait(0.5):
        pass
    server.shutdown()
    server.server_close()
    thread.join()
