"""The handling of one event, from its JSON to the answer.

The exchange with Redis runs in a second thread; the main thread waits for it no longer than `wait`, prints whatever
feedback arrived, and keeps on disk what was not published.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from tellback import clock
from tellback.hook.claimed_files import ClaimedFiles, subagent_notes, unanswered_requests
from tellback.hook.event import TOOL_EVENTS, HookEvent, encode_json, read_event, tool_invoked, user_spoke
from tellback.hook.exchange import HookExchange, HookRequest
from tellback.hook.failure_log import log_failure
from tellback.hook.options import PROMPT, HookOptions, find_file, read_config, read_options
from tellback.messaging.team_cache import TeamCache
from tellback.own_passwords import remember_passwords

DELIVERING_EVENTS: Final = frozenset({*TOOL_EVENTS, "UserPromptSubmit"})  # events whose answer the agent gets to see


def handle_event(raw: bytes, name: str, arguments: Sequence[str]) -> None:
    """Publish the event, and print the feedback that is waiting.

    Raises:
        TellbackError: the input, an argument or a setting is wrong.
        OSError: the agent did not read the answer; the next event delivers it.
    """
    options = read_options(arguments, os.environ)
    if options.redaction_rules:
        _add_rules(options.redaction_rules)
    remember_passwords(options.redis_url)
    event = read_event(raw, name)
    folder = event.given.get("cwd")
    options = options.replace(config=find_file(options.config, folder, os.environ))
    prompt = options.prompt or (options.config and read_config(options.config).prompt) or PROMPT
    if event.name == "PreToolUse":
        _decide(options, find_file(options.policy, folder, os.environ), event, prompt)
        return
    if event.name == "SubagentStop":
        _note_ending(options, event, prompt)
        return
    if options.policy and event.name not in TOOL_EVENTS:
        _note_turn(options, event)
    memory = TeamCache(options.data, options.team, options.redis_url)
    delivers = event.name in DELIVERING_EVENTS
    if event.name == "Stop" and (missing := _stop_text(options, event)):
        _write_answer({"decision": "block", "reason": missing})
    unanswered = unanswered_requests(options.data, f"{options.team}\n{event.session}\n{prompt}\n{event.evaluation}")
    operations = [*unanswered.claim(), os.urandom(12).hex()] if delivers else []
    own = _own_event(options, event, prompt)
    asked = HookRequest(event, prompt, lambda: _evaluation_begun(options, event, prompt), own, operations)
    end = clock.monotonic() + options.wait
    exchange = HookExchange(options, asked, memory, end)
    exchange.start()
    imitated = _imitation_note(event)  # meanwhile
    exchange.done.acquire(timeout=max(0.0, end - clock.monotonic()))
    _print_feedback(exchange, options, event, unanswered, imitated)


def _own_event(options: HookOptions, event: HookEvent, prompt: str) -> tuple[str, bytes] | None:
    """Return the id and the JSON of what the event publishes of its own, None if it only begins an evaluation."""
    if event.call:
        return event.call["event_id"], tool_invoked(event, prompt, options.traceparent)
    return user_spoke(event, prompt, options.traceparent) if event.name == "UserPromptSubmit" else None


def _imitation_note(event: HookEvent) -> str:
    if not event.call:
        return ""
    from tellback.contracts.imitations import imitation_note

    return imitation_note(event.given.get("tool_response"), event.given.get("error"))


def _print_feedback(
    exchange: HookExchange, options: HookOptions, event: HookEvent, unanswered: ClaimedFiles, imitated: str
) -> None:
    exchange.guard.acquire()  # never released: what the thread finds from now on is left to a later event
    left, notes = list(exchange.unanswered), _notes_for(options, event)
    try:
        if texts := [*filter(None, [imitated]), *exchange.texts, *notes]:
            context = {"hookEventName": event.name, "additionalContext": "\n\n".join(texts)}
            _write_answer({"hookSpecificOutput": context})
            left, notes = left if not exchange.texts else [], []
    finally:
        try:
            if exchange.refused:
                log_failure(os.environ, f"{event.name}: dropped: {exchange.trouble}")
            elif not exchange.published:
                exchange.keep()
                log_failure(os.environ, f"{event.name}: kept on disk: {exchange.trouble}")
                if options.policy and event.call:
                    _note_turn(options, event, kept=True)
        finally:
            for operation in left:
                unanswered.keep(operation)
            for note in notes:
                _keep_note(options, event, note)


def _decide(options: HookOptions, policy: str, event: HookEvent, prompt: str) -> None:
    """Deny the call if the policy says so; without an answer the agent's program continues as if there were no hook."""
    if not policy:
        return
    from tellback.hook.denial import reason_to_deny

    if reason := reason_to_deny(options, policy, event, prompt):
        decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
        _write_answer({"hookSpecificOutput": {"hookEventName": event.name, **decision}})


def _note_turn(options: HookOptions, event: HookEvent, *, kept: bool = False) -> None:
    """Keep for later decisions that somebody may have changed something before this event, or that it comes late."""
    from tellback.hook.outside_changes import TURN_EVENTS, note_turn

    if kept or event.name in TURN_EVENTS:
        try:
            note_turn(options.data, event, kept=kept)
        except OSError as error:  # the event itself is to be published all the same
            log_failure(os.environ, f"{event.name}: OSError: {error.strerror}")


def _note_ending(options: HookOptions, event: HookEvent, prompt: str) -> None:
    """Keep a note for the main agent if a subagent ended stuck or failed."""
    if not event.agent or not read_config(options.config).subagents:
        return
    from tellback.hook.reading import view_of_agent
    from tellback.hook.subagents import ending_of

    view = view_of_agent(options, event, prompt)
    if view is not None and (text := ending_of(event, view)):
        _keep_note(options, event, text)


def _keep_note(options: HookOptions, event: HookEvent, note: str) -> None:
    subagent_notes(options.data, event.session).keep(os.urandom(8).hex(), note)


def _notes_for(options: HookOptions, event: HookEvent) -> list[str]:
    """Return the notes about subagents for the main agent."""
    if event.agent or event.name not in DELIVERING_EVENTS:
        return []
    return list(subagent_notes(options.data, event.session).claim().values())


def _stop_text(options: HookOptions, event: HookEvent) -> str:
    """Return what the agent must do before it stops; "" the second time, or it could never stop."""
    if event.given.get("stop_hook_active") is not False or not options.config:
        return ""
    from tellback.hook.finishing import missing_before_stop

    return missing_before_stop(read_config(options.config), event)


def _write_answer(answer: dict[str, Any]) -> None:
    left = encode_json(answer)
    while left:
        left = left[os.write(1, left) :]


def _evaluation_begun(options: HookOptions, event: HookEvent, prompt: str) -> bytes:
    config = read_config(options.config)
    return encode_json(config.evaluation_begun(event.session, event.evaluation, prompt, options.host))


def _add_rules(path: str) -> None:
    from pathlib import Path

    from tellback.redaction import add_rules
    from tellback.redaction.custom import load_rules

    add_rules(load_rules(Path(path)))
