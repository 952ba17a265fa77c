"""The limits of the wire format have one source: types, client, hook and documents take them from there."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from tellback.contracts import limits

ROOT: Final = Path(__file__).resolve().parents[2]
CONTRACTS: Final = ROOT / "shared" / "tellback" / "contracts"
LIMITS: Final = {name: value for name, value in vars(limits).items() if name.startswith("MAX_")}
SOURCES: Final = [
    path
    for top in ("shared", "workers", "beat")
    for path in sorted((ROOT / top).rglob("*.py"))
    if path != CONTRACTS / "limits.py"
]


def test_each_limit_is_documented() -> None:
    assert set(limits.MEANINGS) == set(LIMITS), "docs/messages.md lists them by these words"


def test_no_other_module_defines_a_limit_of_the_wire() -> None:
    again = [
        f"{path.relative_to(ROOT)}:{node.lineno} {target.id}"
        for path in SOURCES
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.AnnAssign | ast.Assign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id.lstrip("_") in LIMITS
    ]
    assert not again, again


def test_types_of_messages_take_their_limits_by_name() -> None:
    literal = [
        f"{path.relative_to(ROOT)}:{node.value.lineno}"
        for path in sorted(CONTRACTS.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "max_length" and isinstance(node.value, ast.Constant)
    ]
    assert not literal, literal


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("messages.md", f"An entry above {limits.MAX_MESSAGE_BYTES >> 20} MiB goes to the dead letters"),
        ("messages.md", f"Truncate long texts at {limits.MAX_FIELD_BYTES >> 10} KiB"),
        ("operations/dead-letters.md", f"| `MessageTooLarge` | above {limits.MAX_MESSAGE_BYTES >> 20} MiB |"),
        ("loops/guidance.md", f"then truncated to {limits.MAX_FIELD_BYTES >> 10} KiB each"),
        ("loops/guidance.md", f"question at most {limits.MAX_CONFIG_BYTES >> 10} KiB"),
        (
            "loops/guidance.md",
            (
                f"Session names have at most {limits.MAX_SESSION_CHARS} characters; "
                f"prompt, evaluation and tool names {limits.MAX_NAME_CHARS}"
            ),
        ),
        ("loops/signals.md", f"A query or remark is truncated at {limits.MAX_FIELD_BYTES >> 10} KiB"),
        ("loops/turns.md", f"then cut to {limits.MAX_FIELD_BYTES >> 10} KiB"),
        ("loops/turns.md", f"most {limits.MAX_REFERENCE_BYTES} bytes each"),
        (
            "loops/turns.md",
            (
                f"at most {limits.MAX_FIELD_BYTES >> 10} KiB of text, {limits.MAX_FIELD_BYTES >> 10} KiB of voice, "
                f"and {limits.MAX_ATTACHMENTS} attachments of {limits.MAX_ATTACHMENT_BYTES >> 10} KiB"
            ),
        ),
    ],
)
def test_pages_say_what_the_code_does(page: str, sentence: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text("utf-8").split())
    assert sentence in text
