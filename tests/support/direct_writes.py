"""Finds commands and client methods that write to Redis outside a script, and whether what they say is enough.

A write that depends on an earlier reading can lose what came between the two. So it belongs into a script, which reads
again. A direct write says in a comment, on its line or above it or its statement, why it loses nothing:

- `# unconditional: REASON`: nothing that was read decides it;
- `# race: REASON`: something was read before it, here or by a caller, and what may come between is harmless.

A function that reads and then writes cannot call the write unconditional.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_WRITING: Final = """
    APPEND BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN COPY DECR DECRBY DEL EXPIRE
    EXPIREAT FLUSHALL FLUSHDB GETDEL GETEX GETSET HDEL HEXPIRE HGETDEL HGETEX HINCRBY HINCRBYFLOAT HMSET HPERSIST
    HPEXPIRE HSET HSETEX HSETNX INCR INCRBY INCRBYFLOAT LINSERT LMOVE LMPOP LPOP LPUSH LPUSHX LREM LSET LTRIM MSET
    MSETNX PERSIST PEXPIRE PEXPIREAT PSETEX RENAME RENAMENX RESTORE RPOP RPOPLPUSH RPUSH RPUSHX SADD SDIFFSTORE SET
    SETBIT SETEX SETNX SETRANGE SINTERSTORE SMOVE SPOP SREM SUNIONSTORE UNLINK VADD VREM VSETATTR XACK XACKDEL XADD
    XAUTOCLAIM XCLAIM XDEL XDELEX XGROUP XSETID XTRIM ZADD ZINCRBY ZMPOP ZPOPMAX ZPOPMIN ZRANGESTORE ZREM ZREMRANGEBYLEX
    ZREMRANGEBYRANK ZREMRANGEBYSCORE ZUNIONSTORE
"""
_READING: Final = """
    EXISTS GET GETRANGE HEXISTS HGET HGETALL HKEYS HLEN HMGET HSCAN HVALS LINDEX LLEN LPOS LRANGE MGET PTTL SCARD
    SISMEMBER SMEMBERS SMISMEMBER SSCAN STRLEN TTL TYPE XINFO XLEN XPENDING XRANGE XREAD XREADGROUP XREVRANGE ZCARD
    ZCOUNT ZMSCORE ZRANGE ZRANK ZREVRANGE ZSCAN ZSCORE
"""
WRITES: Final = frozenset(_WRITING.split())
READS: Final = frozenset(_READING.split())
_AMBIGUOUS: Final = frozenset(
    ["append", "copy", "delete", "exists", "get", "persist", "rename", "restore", "set", "spop", "type", "unlink"]
)
"""Methods of a Redis client that other objects have too."""
METHODS: Final = {verb.lower(): verb for verb in WRITES | READS if verb.lower() not in _AMBIGUOUS}
_REASON: Final = re.compile(r"# (?:.*; )?(unconditional|race): \S+(?: \S+){2,}")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Command(NamedTuple):
    """A command that is written out in the source: `("ZREM", key, member)`, or the arguments of a call."""

    verb: str
    line: int
    function: str
    statement: int
    """The line on which its statement begins."""


def commands(source: str) -> Iterator[tuple[Command, bool]]:
    """Commands in the order of the source; True beside one before which its function reads."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    within = {inner for outer in functions for inner in ast.walk(outer) if inner is not outer}
    outermost = [function for function in functions if function not in within]
    for function in outermost:
        read = False
        begins = _statements(function)
        for line, _, verb in sorted(_verbs(function)):
            yield Command(verb, line, function.name, begins[line]), read
            read = read or verb in READS


def _statements(function: Function) -> dict[int, int]:
    """Of each line, where the innermost statement begins that it is part of."""
    begins: dict[int, int] = {}
    for node in ast.walk(function):  # breadth first: inner ones come later
        if isinstance(node, ast.stmt) and not isinstance(node, Function):
            begins.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.lineno))
    return begins


def _verbs(function: Function) -> Iterator[tuple[int, int, str]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            yield node.lineno, node.col_offset, METHODS[node.func.attr]
        parts = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple | ast.List) else []
        if len(parts) < 2 or not isinstance(parts[0], ast.Constant):
            continue
        verb = parts[0].value
        if isinstance(verb, str) and verb in WRITES | READS:
            yield parts[0].lineno, parts[0].col_offset, verb


def unexplained(source: str) -> list[str]:
    """List what is wrong with the direct writes of a module, as `LINE: VERB in FUNCTION: WHY`."""
    lines = source.splitlines()
    problems: list[str] = []
    for command, after_read in commands(source):
        if command.verb not in WRITES:
            continue
        reason = _reason(lines, command)
        where = f"{command.line}: {command.verb} in {command.function}"
        if reason is None:
            problems.append(f"{where}: no reason")
        elif after_read and reason == "unconditional":
            problems.append(f"{where}: called unconditional, and the function reads before it")
    return problems


def _reason(lines: list[str], command: Command) -> str | None:
    """The kind of its reason, from its own line, or from the comment above it or its statement."""
    for line in (command.line, command.statement):
        found = _REASON.search(lines[line - 1])
        above = line - 1
        while found is None and above >= 1 and lines[above - 1].lstrip().startswith("# "):
            found = _REASON.search(lines[above - 1])
            above -= 1
        if found is not None:
            return found[1]
    return None
