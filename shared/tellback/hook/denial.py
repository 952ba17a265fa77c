"""`tellback hook pre-tool-use`: deny a call that is certain to repeat a failure, where a policy file says so.

Without a policy file nothing is denied, and nothing is read. The file is TOML:

[deny_repeated_failures]
after = 3                # identical failures with nothing in between; at least 2
within = 600             # seconds since the last of them; later the world may have changed
tools = ["Bash"]         # optional; without it every tool

Requirement G-79.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from tellback import clock
from tellback.errors import ConfigurationError
from tellback.hook.event import HookEvent, published_arguments
from tellback.hook.options import HookOptions, read_toml
from tellback.hook.outside_changes import may_differ, seconds_since_turn
from tellback.hook.reading import AgentView, view_of_agent
from tellback.light_struct import LightStruct
from tellback.quoting import QUOTE
from tellback.sanitize import inert_line
from tellback.truncation import truncate_chars

TABLE: Final = "deny_repeated_failures"
_KEYS: Final = ("after", "within", "tools")
_WITHIN: Final = 600.0  # seconds; a person may fix things meanwhile, which no trail shows
_CLOCK_STEP: Final = 0.02  # seconds; the kernel gives a changed file the time of its last tick, 10 ms apart at most
_SHOWN: Final = 300  # characters of the error in the reason


class DenialPolicy(LightStruct):
    """The rule of a policy file; `tools` is empty for every tool."""

    after: int
    within: float = _WITHIN
    tools: frozenset[str] = frozenset()


class AskedCall(LightStruct):
    """A call that an agent is about to make, `turn` seconds after its session was last begun, resumed or spoken to."""

    evaluation: str
    tool: str
    params: dict[str, Any]
    turn: float = float("inf")


def read_denial_policy(path: str) -> DenialPolicy | None:
    """Return the rule in the policy file at `path`; None if the file has none, so that nothing is denied.

    Raises:
        ConfigurationError: the file cannot be read or is invalid; the text names file, table and field.
    """
    found = read_toml(path)
    if unknown := sorted(set(found) - {TABLE}):
        raise ConfigurationError(f"{path}: unknown table or field {unknown[0]!r}; the only table is [{TABLE}]")
    table = found.get(TABLE)
    return None if table is None else _checked(f"{path}: [{TABLE}]", table)


def _checked(where: str, table: object) -> DenialPolicy:
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where}: write it as a table, with after = 3 below it")
    given = cast("dict[str, Any]", table)
    if unknown := sorted(set(given) - set(_KEYS)):
        raise ConfigurationError(f"{where}: unknown field {unknown[0]!r}; use {', '.join(_KEYS)}")
    after, within, tools = given.get("after"), given.get("within", _WITHIN), given.get("tools", [])
    if type(after) is not int or after < 2:  # one failure proves nothing: the next try may be the one that works
        raise ConfigurationError(f"{where}: after is {after!r}; use a whole number of failures, 2 or more")
    if type(within) not in (int, float) or not 0 < within <= 86_400:
        raise ConfigurationError(f"{where}: within is {within!r}; use seconds above 0, to 86400")
    names = cast("list[object]", tools) if isinstance(tools, list) else [None]
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"{where}: tools is {tools!r}; use a list of names of tools")
    return DenialPolicy(after, float(within), frozenset(cast("list[str]", names)))


def reason_to_deny(options: HookOptions, policy: str, event: HookEvent, prompt: str) -> str:
    """Return why the call is denied; "" to let it pass, as in every case of doubt.

    Raises:
        ConfigurationError: the policy file is invalid.
        InvalidInput: the event names no tool.
    """
    rule = read_denial_policy(policy)
    tool, params = published_arguments(event)
    if rule is None or params is None or (rule.tools and tool not in rule.tools):
        return ""
    view = view_of_agent(options, event, prompt)
    if view is None:
        return ""
    asked = AskedCall(event.evaluation, tool, params, seconds_since_turn(options.data, event))

    def differs(seconds: float) -> bool:
        # The failure is that much older by now: a file that changed right after it would seem to be older.
        return may_differ(event.given.get("cwd"), seconds + clock.wall() - view.asked_at + _CLOCK_STEP)

    return denial(rule, view, asked, differs)


def denial(rule: DenialPolicy, view: AgentView, asked: AskedCall, may_differ: Callable[[float], bool]) -> str:
    """Return the reason by this rule; "" if the call is not certain to repeat its failure.

    A person, or a published change, may have fixed anything, so failures before them do not count. `may_differ` is
    asked last, for the seconds since the newest failure: files that changed before it did not help.
    """
    if len(view.calls) < rule.after:
        return ""
    # Its patterns cost as much as the rest of this process, and most calls come from agents that have no failure.
    from tellback.hook.certainty import certain_failures, failure_text

    changed = max((change.get("at", 0) for change in view.state.get("changes") or ()), default=-1)
    changed = max(changed, view.now_ms - asked.turn * 1000)
    same = certain_failures(view.calls, asked.evaluation, asked.tool, asked.params)
    failures = [call for call in same if call.get("at", 0) > changed]
    if len(failures) < rule.after:
        return ""
    passed = (view.now_ms - failures[0].get("at", 0)) / 1000
    if passed > rule.within or may_differ(passed):
        return ""
    # On lines of their own: within our sentences an error could continue in our name.
    tool, error = (truncate_chars(inert_line(text), _SHOWN) for text in (asked.tool, failure_text(failures[0])))
    return (
        f"Denied by Tellback's policy: this exact call failed {len(failures)} times in the same way, and nothing has "
        "changed since. Change something that can affect the result, or try another way; the call is allowed again "
        f"after any change. The tool and its last error:\n{QUOTE}{tool}\n{QUOTE}{error}"
    )
