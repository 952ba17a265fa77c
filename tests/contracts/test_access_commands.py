"""The commands of an agent's user are those that our code sends: none is missing, and none is there for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tellback.access.users import AGENT_COMMANDS, BEAT, FLOWER, OPERATOR, WORKER, agent
from tellback.state.keys import NOTIFICATIONS

PACKAGE: Final = Path(__file__).parents[2] / "shared" / "tellback"
IN_LUA: Final = re.compile(r"redis\.p?call\(\s*'([A-Z]+)'")
IN_PYTHON: Final = re.compile(r"""[(\[,]\s*"([A-Z]{3,})\"""")
SERVERS: Final = {
    "asking",
    "cluster|slots",
    "ping",
    "select",
    "time",
    "wait",
    "waitaof",
    "client|setname",
    "client|setinfo",
}
"""Commands that redis-py and our connections send on their own."""

OF_WORKERS: Final = {"info", "type", "vadd", "vrem", "xack", "xgroup", "xinfo", "xpending", "xreadgroup", "zmscore"}

CONTAINERS: Final = {"memory": "usage", "cluster": "slots"}


def _names(pattern: re.Pattern[str], texts: Iterable[str]) -> set[str]:
    found = {match.group(1).lower() for text in texts for match in pattern.finditer(text)}
    return {f"{name}|{CONTAINERS[name]}" if name in CONTAINERS else name for name in found}


def sent_by_scripts() -> set[str]:
    return _names(IN_LUA, (path.read_text() for path in (PACKAGE / "state" / "lua").rglob("*.lua")))


def sent_by_python() -> set[str]:
    """Every word that stands where a command may stand; some are none."""
    folders = ("state", "messaging", "hook")
    return _names(IN_PYTHON, (path.read_text() for folder in folders for path in (PACKAGE / folder).rglob("*.py")))


def test_an_agent_may_run_what_scripts_send() -> None:
    """Commands that Python sends beside them are tried by `test_all_loops_work_under_these_users`."""
    rights = agent("acme").state
    assert rights is not None
    assert {f"+{name}" for name in sent_by_scripts() - OF_WORKERS} <= set(rights.commands)


def test_an_agent_may_run_nothing_that_the_code_never_sends() -> None:
    allowed = {command.removeprefix("+") for command in AGENT_COMMANDS}
    assert allowed <= sent_by_scripts() | sent_by_python() | SERVERS


def test_no_agent_brings_a_script_or_a_category_or_a_channel() -> None:
    rights = agent("acme").state
    assert rights is not None
    assert agent("acme").broker is None
    assert not [rule for rule in rights.commands if "@" in rule or not rule.startswith("+")]
    assert not {"+eval", "+script", "+script|load", "+fcall", "+function"} & set(rights.commands)
    own, *others = rights.keys
    assert (own, rights.channels) == ("~tb:{acme.*", ())
    assert all(rule.startswith("%R~tb:{_fleet.0}:") for rule in others), "none of another team"
    assert [each.rules for each in rights.selectors] == [f"-@all +xadd %W~{NOTIFICATIONS}"]


def test_flower_and_beat_hold_no_state_and_no_user_holds_all() -> None:
    assert FLOWER.state is None
    assert BEAT.state is not None
    assert all(key.startswith("%R~") for key in BEAT.state.keys)
    for user in (WORKER, BEAT, FLOWER, OPERATOR):
        for rights in (user.state, user.broker):
            assert rights is None or not {"+@all", "~*", "allkeys", "allcommands"} & {*rights.commands, *rights.keys}


def test_the_threat_model_names_tests_that_exist() -> None:
    page = (PACKAGE.parents[1] / "docs" / "operations" / "threat-model.md").read_text("utf-8")
    files = list((PACKAGE.parents[1] / "tests").rglob("test_*.py"))
    known = {path.stem for path in files} | {
        name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", page))
    assert named
    assert not named - known
