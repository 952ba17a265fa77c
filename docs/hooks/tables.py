"""Fills `<!-- generated: NAME -->` in a page with what the code says, so that no table can drift from it."""  # noqa: INP001 - loaded by path, in no package

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tellback import _EXPORTS
from tellback.access.actions import ACTIONS, KINDS
from tellback.alerts.settings import PREFIX as ALERT_PREFIX
from tellback.alerts.settings import AlertSettings
from tellback.contracts import limits as wire
from tellback.contracts.codec import MESSAGES, schema_of
from tellback.contracts.commands import CommandRecord
from tellback.contracts.message import Message
from tellback.contracts.signal_types import SIGNAL_TYPES, STEP
from tellback.settings import PREFIX, Settings
from tellback.state.keys import FAMILIES

MARK: Final = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
BOUNDS: Final = {
    "minLength": "{:,} characters or more",
    "maxLength": "{:,} characters or fewer",
    "minItems": "{:,} items or more",
    "maxItems": "{:,} items or fewer",
    "minimum": "from {:,}",
    "exclusiveMinimum": "above {:,}",
    "maximum": "to {:,}",
    "pattern": "matches `{}`",
}
# Page -> the part of a module's name that puts its exports there; what fits nowhere stands on the first.
TOPICS: Final = {
    "Connecting": ("client.connection", "settings"),
    "Commands": ("commands",),
    "Guidance": ("guidance",),
    "Turns": ("turns", "outbox"),
    "Signals": ("signals",),
    "Errors": ("errors",),
}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Put each message's JSON Schema on the site."""
    for message in MESSAGES:
        text = json.dumps(schema_of(message), indent=2, ensure_ascii=False) + "\n"
        files.append(File.generated(config, f"schemas/{message.__name__}.json", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill the marks; an unknown one is an error."""
    return MARK.sub(lambda mark: MAKERS[mark[1]](), markdown)


def settings() -> str:
    """A row for each setting."""
    return _settings_of(Settings, PREFIX)


def alert_settings() -> str:
    """A row for each setting of alerts."""
    return _settings_of(AlertSettings, ALERT_PREFIX)


def _settings_of(settings_class: type[msgspec.Struct], prefix: str) -> str:
    rows: list[Sequence[str]] = []
    schemas = msgspec.json.schema(settings_class)["$defs"][settings_class.__name__]["properties"]
    for name, schema in schemas.items():
        default = schema["default"]
        bounds = _bounds(schema)
        meaning = f"{schema['description']}{f' ({bounds})' if bounds else ''}"
        rows.append((f"`{prefix}{name.upper()}`", "empty" if default == "" else f"`{default}`", meaning))
    return _table(("variable", "default", "meaning"), rows)


def keys() -> str:
    """A row for each family of keys."""
    rows = [
        (
            f"`{family.name}`",
            family.owner,
            family.type,
            "stays" if family.lifetime is None else _duration(family.lifetime),
            "" if family.cap is None else f"{family.cap:,}",
            family.bound,
        )
        for family in FAMILIES.values()
    ]
    return _table(("key", "owner", "type", "lives", "cap", "what it is, and what bounds it"), rows)


def limits() -> str:
    """A row for each limit of the wire format."""
    units = {"BYTES": "bytes", "CHARS": "characters"}
    rows = [
        (meaning[0].upper() + meaning[1:], f"{getattr(wire, name):,} {units.get(name.rpartition('_')[2], '')}".rstrip())
        for name, meaning in wire.MEANINGS.items()
    ]
    return _table(("what", "at most"), rows)


def messages() -> str:
    """A section for each message."""
    return "\n\n".join(_message(message) for message in MESSAGES)


def signal_types() -> str:
    """A row for each signal type."""
    rows = [
        (
            f"`{kind.name}`",
            f"{kind.weight:+.1f}".replace("-", "−"),
            f"{kind.weight * STEP:+.2f}".replace("-", "−"),
            kind.prune,
            kind.send_when,
        )
        for kind in SIGNAL_TYPES
    ]
    return _table(("`signal_type`", "weight", "at confidence 1.0", "for or against the fact", "send it when"), rows)


def record() -> str:
    """A row for each field of a command's record."""
    fields = msgspec.json.schema(CommandRecord)["$defs"]["CommandRecord"]["properties"]
    rows = [(f"`{name}`", field["description"]) for name, field in fields.items()]
    return _table(("field", "meaning"), rows)


def commands() -> str:
    """Every command of the command line, by typer's own generator."""
    generator = [sys.executable, "-m", "typer", "tellback.cli.app", "utils", "docs", "--name", "tellback"]
    text = subprocess.run(generator, check=True, capture_output=True, text=True).stdout
    text = text.replace("* `--help`: Show this message and exit.\n", "").replace("**Options**:\n\n\n", "")
    return text.partition("\n## ")[1].lstrip() + text.partition("\n## ")[2]


def reference_index() -> str:
    """A row for each topic: its page, and the exported names there."""
    rows: list[tuple[str, str]] = []
    for topic, names in _exports_by_topic().items():
        page = f"{topic.lower()}.md"
        rows.append((f"[{topic}]({page})", ", ".join(f"[`{name}`]({page}#tellback.{name})" for name in names)))
    return _table(("page", "names"), rows)


def _reference(topic: str) -> str:
    """The docstring of each exported name of a topic."""
    return "\n\n".join(map(_docstring, _exports_by_topic()[topic]))


def _exports_by_topic() -> dict[str, list[str]]:
    topics: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for name, module in sorted(_EXPORTS.items(), key=lambda export: _functions_first(export[0])):
        fitting = [topic for topic, parts in TOPICS.items() if any(part in module for part in parts)]
        topics[[*fitting, "Connecting"][0]].append(name)
    return topics


def _docstring(name: str) -> str:
    if name == "Settings":  # its fields have a page of their own
        return (
            "::: tellback.Settings\n    options:\n      members: false\n\nThe fields: [settings](../configuration.md)."
        )
    return f"::: tellback.{name}"


def _functions_first(name: str) -> tuple[bool, str]:
    return name[0].isupper(), name


def _message(message: type[Message]) -> str:
    schema = schema_of(message)
    lines = [
        f"### {message.__name__}",
        _prose(message.__doc__),
        f"Stream `in:{message.family}`, in the shard of {_routing(message)}.",
        f"[JSON Schema](schemas/{message.__name__}.json)",
        _fields(schema),
    ]
    for name, inner in schema.get("$defs", {}).items():
        lines += [f"A `{name}`: {_prose(inner.get('description'))}", _fields(inner)]
    return "\n\n".join(lines)


def _routing(message: type[Message]) -> str:
    text = _prose(type(message).__getattribute__(message, "routing").__doc__)
    return text[0].lower() + text[1:].rstrip(".")


def _prose(text: str | None) -> str:
    return " ".join((text or "").split())


def _fields(schema: dict[str, Any]) -> str:
    if schema["type"] == "array":
        kinds = ", ".join(_kind(item) for item in schema["prefixItems"])
        return f"An array of {len(schema['prefixItems'])}: {kinds}."
    rows = [
        (f"`{name}`", _kind(field), _default(name, field, schema), _bounds(field))
        for name, field in schema["properties"].items()
    ]
    return _table(("field", "type", "default", "bounds"), rows)


def _default(name: str, field: dict[str, Any], schema: dict[str, Any]) -> str:
    if name in schema.get("required", ()):
        return "**required**"
    return f"`{json.dumps(field['default'])}`" if "default" in field else ""


def _kind(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    if "$ref" in field:
        return f"`{field['$ref'].rpartition('/')[2]}`"
    if "anyOf" in field:
        return " or ".join(_kind(choice) for choice in field["anyOf"])
    if field.get("type") == "array" and "items" in field:
        return f"array of {_kind(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"object of {_kind(field['additionalProperties'])}"
    return str(field.get("type", "any"))


def _bounds(field: dict[str, Any]) -> str:
    inner = [*field.get("anyOf", ()), field]
    texts = (text.format(choice[key]) for choice in inner for key, text in BOUNDS.items() if key in choice)
    text = re.sub(r"(from [\d,.]+), to", r"\1 to", ", ".join(texts))
    return re.sub(r"\b1 (characters|items) or more", "not empty", text)


def _duration(seconds: int) -> str:
    size, unit = next((size, unit) for size, unit in UNITS if seconds % size == 0)
    return f"{seconds // size} {unit}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def access() -> str:
    """A row for each action that users try, and who may."""
    rows = [
        (action.text, action.server, *("yes" if kind in action.allowed else "" for kind in KINDS)) for action in ACTIONS
    ]
    return _table(("what", "on", *(f"`{kind}`" for kind in KINDS)), rows)


MAKERS: Final[dict[str, Callable[[], str]]] = {
    "access": access,
    "settings": settings,
    "alert_settings": alert_settings,
    "keys": keys,
    "limits": limits,
    "messages": messages,
    "signal_types": signal_types,
    "record": record,
    "commands": commands,
    "reference": reference_index,
    **{f"reference_{topic.lower()}": partial(_reference, topic) for topic in TOPICS},
}
