"""Finds commands and client methods that write to Redis outside a script, and whether what they say is enough.

A write that depends on an earlier reading can lose what came between the two. So it belongs into a script, which reads
again. A direct write says in a comment, on its line or above it or its statement, why it loses nothing:

- `# unconditional: REASON`: nothing that was read decides it;
- `# race: REASON`: something was read before it, here or by a caller, and what may come between is harmless.

A function that reads and then writes cannot call the write unconditional. It also reads or writes if another function
does so for it, of its module or of any other, and in a loop, what stands below the write comes before it in the next
round. A command must be written out in upper case, so that this sees it: `command(name, key)` and
`command("DEL" if gone else "EXPIRE", key)` are refused. So is a script in a text of its own.

Functions of other modules are found by their name, without types. So this does not see what a function does whose name
several of them have, nor one that a variable holds.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

_WRITING: Final = """
    APPEND BITFIELD BITOP BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN COPY DECR DECRBY DEL DELEX EVAL
    EXPIRE EXPIREAT FCALL FLUSHALL FLUSHDB GEOADD GETDEL GETEX GETSET HDEL HEXPIRE HEXPIREAT HGETDEL HGETEX HINCRBY
    HINCRBYFLOAT HMSET HPERSIST HPEXPIRE HPEXPIREAT HSET HSETEX HSETNX INCR INCRBY INCRBYFLOAT LINSERT LMOVE LMPOP LPOP
    LPUSH LPUSHX LREM LSET LTRIM MOVE MSET MSETEX MSETNX PERSIST PEXPIRE PEXPIREAT PFADD PSETEX RENAME RENAMENX RESTORE
    RPOP RPOPLPUSH RPUSH RPUSHX SADD SDIFFSTORE SET SETBIT SETEX SETNX SETRANGE SINTERSTORE SMOVE SORT SPOP SREM
    SUNIONSTORE SWAPDB UNLINK VADD VREM VSETATTR XACK XACKDEL XADD XAUTOCLAIM XCLAIM XDEL XDELEX XGROUP XSETID XTRIM
    ZADD ZDIFFSTORE ZINCRBY ZINTERSTORE ZMPOP ZPOPMAX ZPOPMIN ZRANGESTORE ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK
    ZREMRANGEBYSCORE ZUNIONSTORE
"""
_READING: Final = """
    DBSIZE EXISTS EXPIRETIME GET GETBIT GETRANGE HEXISTS HGET HGETALL HKEYS HLEN HMGET HRANDFIELD HSCAN HSTRLEN HVALS
    KEYS LINDEX LLEN LPOS LRANGE MGET OBJECT PEXPIRETIME PTTL RANDOMKEY SCAN SCARD SDIFF SINTER SISMEMBER SMEMBERS
    SMISMEMBER SRANDMEMBER SSCAN STRLEN SUNION TTL TYPE VCARD VEMB VGETATTR VSIM XINFO XLEN XPENDING XRANGE XREAD
    XREADGROUP XREVRANGE ZCARD ZCOUNT ZDIFF ZINTER ZLEXCOUNT ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK
    ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION
"""
HIDDEN: Final = "a command that is not written out in upper case"
WRITES: Final = frozenset(_WRITING.split())
CALL: Final = "a call of a function that reads"
INDIRECT: Final = "a call of a function whose write is called unconditional"
READS: Final = frozenset([*_READING.split(), CALL])
_AMBIGUOUS: Final = frozenset(
    [
        "append",
        "copy",
        "delete",
        "exists",
        "get",
        "keys",
        "persist",
        "move",
        "object",
        "rename",
        "restore",
        "set",
        "sort",
        "spop",
        "type",
        "unlink",
    ]
)
"""Methods of a Redis client that other objects have too."""
METHODS: Final = {verb.lower(): verb for verb in WRITES | READS if verb.lower() not in _AMBIGUOUS}
_SUSPECT: Final = re.compile(
    rf"\b(?:{'|'.join(WRITES)}|{'|'.join(name for name, verb in METHODS.items() if verb in WRITES)})\b"
    r"|\.(?:command|blocking)\(|\bsmall_write\b"
)
"""A module without any of these has no direct write. To parse and search the others takes 4 ms each."""
_REASON: Final = re.compile(r"# (?:.*; )?(unconditional|race): \S+(?: \S+){2,}")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Command(NamedTuple):
    """A command that is written out in the source: `("ZREM", key, member)`, or the arguments of a call."""

    verb: str
    line: int
    function: str
    statement: int
    """The line on which its statement begins."""


class Elsewhere(NamedTuple):
    """Functions and methods of all modules, by names that none shares with another."""

    reading: frozenset[str] = frozenset()
    unconditional: frozenset[str] = frozenset()
    """Those with a write that is called unconditional."""


NOTHING_ELSEWHERE: Final = Elsewhere()


def elsewhere_in(sources: Iterable[str]) -> Elsewhere:
    """Find what the functions of all modules do that can be known by their names."""
    texts = list(sources)
    functions = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]
    named = Counter(function.name for function in functions)
    alone = {function.name: function for function in functions if named[function.name] == 1}
    writing = {
        command.function
        for text in texts
        if "unconditional:" in text
        for command, _ in commands(text)
        if command.verb in WRITES and _reason(text.splitlines(), command) == "unconditional"
    }
    return Elsewhere(frozenset(_reading(list(alone.values()), alone.keys())), frozenset(writing & alone.keys()))


def commands(source: str, elsewhere: Elsewhere = NOTHING_ELSEWHERE) -> Iterator[tuple[Command, bool]]:
    """Commands in the order of the source; True beside one before which its function reads."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    within = {inner for outer in functions for inner in ast.walk(outer) if inner is not outer}
    outermost = [function for function in functions if function not in within]
    outside = [node for node in ast.walk(tree) if node not in within and node not in functions]
    reading, names = _reading(functions) | elsewhere.reading, elsewhere.reading | elsewhere.unconditional
    for name, nodes in [(each.name, list(ast.walk(each))) for each in outermost] + [("the module", outside)]:
        found = sorted(
            [verb for node in nodes for verb in _verbs(node)]
            + [
                (call.lineno, call.col_offset, CALL if called in reading else INDIRECT)
                for call in _calls(nodes)
                if (called := _name_called(call, names)) in (reading | elsewhere.unconditional) - {name}
            ]
        )
        reads = [line for line, _, verb in found if verb in READS]
        begins, loops = _statements(nodes), _loops(nodes)
        for at, (line, _, verb) in enumerate(found):
            again = any(line in loop and read in loop for loop in loops for read in reads)
            yield Command(verb, line, name, begins[line]), again or any(each[2] in READS for each in found[:at])


def _reading(functions: Sequence[Function], methods: Collection[str] = ()) -> set[str]:
    """The names of functions that read, by themselves or through others of these; `methods` are known by name alone."""
    nodes = {function: list(ast.walk(function)) for function in functions}
    reading = {
        each.name for each in functions if any(verb in READS for node in nodes[each] for *_, verb in _verbs(node))
    }
    while True:
        more = {
            each.name
            for each in functions
            if any(_name_called(call, methods) in reading for call in _calls(nodes[each]))
        }
        if more <= reading:
            return reading
        reading |= more


def _calls(nodes: Sequence[ast.AST]) -> list[ast.Call]:
    return [node for node in nodes if isinstance(node, ast.Call)]


def _name_called(call: ast.Call, methods: Collection[str] = ()) -> str:
    """The name of a function, of a method of the same object, or of one among `methods` of any, that a call names."""
    function = call.func
    if isinstance(function, ast.Attribute):
        of_itself = isinstance(function.value, ast.Name) and function.value.id in ("self", "cls")
        return function.attr if of_itself or function.attr in methods else ""
    return function.id if isinstance(function, ast.Name) else ""


def _loops(nodes: Sequence[ast.AST]) -> list[range]:
    """The lines of each loop."""
    loops = [node for node in nodes if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
    return [range(loop.lineno, (loop.end_lineno or loop.lineno) + 1) for loop in loops]


def _statements(nodes: Sequence[ast.AST]) -> dict[int, int]:
    """Of each line, where the innermost statement begins that it is part of."""
    begins: dict[int, int] = {}
    for node in nodes:  # breadth first: inner ones come later
        if isinstance(node, ast.stmt) and not isinstance(node, Function | ast.ClassDef):
            begins.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.lineno))
    return begins


def _verbs(node: ast.AST) -> Iterator[tuple[int, int, str]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        yield node.lineno, node.col_offset, METHODS[node.func.attr]
    if isinstance(node, ast.Call) and (verb := _hidden(node)):
        yield node.lineno, node.col_offset, verb
    parts = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple | ast.List) else []
    if parts and isinstance(parts[0], ast.Constant) and isinstance(parts[0].value, str):
        verb = parts[0].value
        # One alone: `["DEL"] + keys`.
        if verb in WRITES | READS and (len(parts) > 1 or isinstance(node, ast.List)):
            yield parts[0].lineno, parts[0].col_offset, verb


def _hidden(call: ast.Call) -> str | None:
    """Return `HIDDEN` for a call of a client of Redis whose command cannot be read here."""
    taken = 1 if isinstance(call.func, ast.Attribute) and call.func.attr == "blocking" else 0
    if not _calls_redis(call.func) or len(call.args) <= taken or isinstance(call.args[taken], ast.Starred):
        return None  # what is starred is a tuple, whose verb stands where that is made
    verb = call.args[taken]
    is_named = isinstance(verb, ast.Constant) and isinstance(verb.value, str) and verb.value.isupper()
    return None if is_named else HIDDEN


def _calls_redis(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id == "small_write"
    if not isinstance(function, ast.Attribute) or function.attr not in ("command", "blocking"):
        return False
    client = function.value
    name = client.attr if isinstance(client, ast.Attribute) else client.id if isinstance(client, ast.Name) else ""
    return name.endswith(("db", "database"))  # a command line has commands too


def unexplained(source: str, elsewhere: Elsewhere = NOTHING_ELSEWHERE) -> list[str]:
    """List what is wrong with the direct writes of a module, as `LINE: VERB in FUNCTION: WHY`."""
    if not _SUSPECT.search(source) and elsewhere.unconditional.isdisjoint(re.findall(r"\w+", source)):
        return []
    lines = source.splitlines()
    problems: list[str] = []
    for command, after_read in commands(source, elsewhere):
        if command.verb not in WRITES and command.verb not in (HIDDEN, INDIRECT):
            continue
        reason = _reason(lines, command)
        if command.verb == INDIRECT and (reason is not None or not after_read):
            continue
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
