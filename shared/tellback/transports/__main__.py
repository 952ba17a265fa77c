"""Run a reference transport: `python -m tellback.transports print | webhook | telegram --channel NAME`.

SIGTERM and SIGINT stop it cleanly: it finishes and settles the current delivery and takes no other.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from types import FrameType
from typing import Final

from tellback.client.connection import Tellback, connect
from tellback.errors import ConfigurationError, InvalidInput, TellbackError
from tellback.process_privacy import forbid_dumps
from tellback.transports.serving import PrintTransport, Transport, serve
from tellback.transports.telegram import API, TelegramTransport
from tellback.transports.webhook import WebhookTransport

# Names of variables in the environment.
SIGNING: Final = "TELLBACK_WEBHOOK_SECRET"
BOT: Final = "TELLBACK_TELEGRAM_TOKEN"


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal; return 0, or 2 for invalid arguments or settings, or 1 for another Tellback error."""
    given = _parser().parse_args(arguments)
    stop = threading.Event()

    def stop_serving(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_serving)
    try:
        transport = _build_transport(given)
        with connect(given.redis_url, team=given.team) as tb:
            _serve_all(tb, given.channel, transport, stop, given.threads)
    except TellbackError as error:
        print(f"tellback: {error}", file=sys.stderr)  # noqa: T201 - a command line
        return 2 if isinstance(error, InvalidInput | ConfigurationError) else 1
    return 0


def _serve_all(tb: Tellback, channel: str, transport: Transport, stop: threading.Event, threads: int) -> None:
    failures: list[Exception] = []

    def serve_one() -> None:
        try:
            serve(tb, channel, transport, stop=stop)
        except Exception as error:  # noqa: BLE001 - ends the process, which its supervisor restarts
            failures.append(error)
            stop.set()

    # A delivery blocks its thread until the platform replies; further threads serve other conversations meanwhile.
    running = [threading.Thread(target=serve_one, name=f"transport-{number}") for number in range(threads)]
    for thread in running:
        thread.start()
    while any(thread.is_alive() for thread in running):
        for thread in running:
            thread.join(0.2)  # short waits, so that a signal's handler runs between two of them
    if failures:
        raise failures[0]


def _build_transport(given: argparse.Namespace) -> Transport:
    if given.transport == "webhook":
        secret = _read_secret(SIGNING)
        return WebhookTransport(given.url, secret, timeout=given.timeout, deduplicates=given.deduplicates)
    if given.transport == "telegram":
        return TelegramTransport(_read_secret(BOT), api=given.api, timeout=given.timeout)
    return PrintTransport()


def _read_secret(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigurationError(f"{name}: set it in the environment; a command line can be read by others")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tellback.transports", description=(__doc__ or "").strip())
    kinds = parser.add_subparsers(dest="transport", required=True)
    webhook = kinds.add_parser("webhook", help=f"post to a URL, signed with {SIGNING}")
    webhook.add_argument("--url", required=True, help="where to post: https, or http on this host")
    webhook.add_argument(
        "--deduplicates", action="store_true", help="the receiver ignores an Idempotency-Key that it has seen"
    )
    telegram = kinds.add_parser("telegram", help=f"send by a bot, whose token is in {BOT}")
    telegram.add_argument("--api", default=API, help="the bot API (default: %(default)s)")
    for kind in (kinds.add_parser("print", help="print to standard output"), webhook, telegram):
        kind.add_argument("--channel", required=True, help="the channel whose deliveries it sends")
        kind.add_argument("--timeout", type=float, default=10.0, help="seconds for one request (default: %(default)s)")
        kind.add_argument("--threads", type=_thread_count, default=1, help="conversations served at once (default: 1)")
        kind.add_argument("--redis-url", help="Redis of the state; default: TELLBACK_REDIS_URL")
        kind.add_argument("--team", help="the team; default: TELLBACK_TEAM")
    return parser


def _thread_count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 64:
        raise argparse.ArgumentTypeError("1 to 64")
    return number


if __name__ == "__main__":
    forbid_dumps()  # the environment has a login and the platform's secret; commands may run as this user
    sys.exit(main())
