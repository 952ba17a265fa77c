"""One event, from its JSON to the answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from tellback import clock
from tellback.hook.config import Config, read_config
from tellback.hook.event import TOOL_EVENTS, Event, encode_json, read_event, tool_invoked
from tellback.hook.exchange import EVENTS, Asked, Exchange
from tellback.hook.options import PROMPT, Options, read_options
from tellback.hook.troubles import note
from tellback.hook.unanswered import Unanswered
from tellback.messaging.places import HostMemory

DELIVERING: Final = frozenset({*TOOL_EVENTS, "UserPromptSubmit"})  # what an agent's program shows the answer of


def handle(raw: bytes, name: str, arguments: Sequence[str]) -> None:
    """Publish what happened, and print the feedback that waits.

    Raises:
        TellbackError: the input, an argument or a setting is wrong.
        OSError: the answer was not read; it is given to the next event.
    """
    options = read_options(arguments, os.environ)
    if options.redaction_rules:
        _add_rules(options.redaction_rules)
    event = read_event(raw, name)
    memory = HostMemory(options.data, options.team, options.redis_url)
    prompt = options.prompt or (options.config and read_config(options.config).prompt) or PROMPT
    delivers = event.name in DELIVERING
    if event.name == "Stop" and (missing := _missing(options, event)):
        _write({"decision": "block", "reason": missing})
    unanswered = Unanswered(options.data, f"{options.team}\n{event.session}\n{prompt}\n{event.evaluation}")
    operations = [*unanswered.claim(), os.urandom(12).hex()] if delivers else []
    fact = (event.call["event_id"], tool_invoked(event, prompt)) if event.call else None
    asked = Asked(event, prompt, lambda: _begun(options, event, prompt), fact, operations)
    exchange = Exchange(options, asked, memory, clock.monotonic() + options.wait)
    exchange.start()
    _finish(exchange, options, event, memory, unanswered)


def _finish(exchange: Exchange, options: Options, event: Event, memory: HostMemory, unanswered: Unanswered) -> None:
    exchange.done.acquire(timeout=options.wait)
    exchange.guard.acquire()  # and never given back: what is not known now comes with a later event
    left = list(exchange.unanswered)
    try:
        if exchange.texts:
            _print(event.name, exchange.texts)
            left = []
    finally:
        if left:
            unanswered.keep(left)
        if not exchange.published:
            _spool(exchange, options, memory)
            note(os.environ, f"{event.name}: kept on disk: {exchange.trouble}")


def _missing(options: Options, event: Event) -> str:
    """What an agent is to do before it stops; nothing where it was told before, so that it can stop at all."""
    if event.given.get("stop_hook_active") is not False or not options.config:
        return ""
    from tellback.hook.finishing import missing  # noqa: PLC0415 - only an agent that stops pays for it

    return missing(read_config(options.config), event)


def _print(name: str, texts: Sequence[str]) -> None:
    _write({"hookSpecificOutput": {"hookEventName": name, "additionalContext": "\n\n".join(texts)}})


def _write(answer: dict[str, Any]) -> None:
    left = encode_json(answer)
    while left:
        left = left[os.write(1, left) :]


def _begun(options: Options, event: Event, prompt: str) -> bytes:
    config: Config = read_config(options.config)
    begun: dict[str, Any] = config.evaluation_begun(event.session, event.evaluation, prompt)
    return encode_json(begun)


def _add_rules(path: str) -> None:
    from pathlib import Path  # noqa: PLC0415 - only who has such a file pays for reading it

    from tellback.redaction import add_rules  # noqa: PLC0415 - as above
    from tellback.redaction.custom import load_rules  # noqa: PLC0415 - as above

    add_rules(load_rules(Path(path)))


def _spool(exchange: Exchange, options: Options, memory: HostMemory) -> None:
    """Keep what was not published, or not known to be: what comes twice has no effect."""
    from tellback.messaging.spool import Spool  # noqa: PLC0415 - only in an outage

    spool = Spool(memory.place(exchange.known), EVENTS, max_bytes=options.spool_max_bytes, chunk=100)
    spool.append([(exchange.stream(), raw) for raw in exchange.facts()])
