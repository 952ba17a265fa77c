"""Read `tests/data/results`: what coding tools print, with the verdict of a reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tellback.contracts.guidance import OutcomeCode
from tellback.guidance.observations.observer import ToolObserver

FOLDER: Final = Path(__file__).parents[1] / "data" / "results"

# Pytest's own lines begin with "===" too.
_HEAD: Final = re.compile(r"^=== (success|failure|neutral): (.+)$", re.MULTILINE)
_OPTION: Final = re.compile(r"(names|host|code): (.+)")


@dataclass(frozen=True, slots=True)
class PrintedResult:
    """The result of one call. The option `names` is what a failure must be called by, `host` what the host says."""

    verdict: str
    about: str
    tool: str
    params: dict[str, Any]
    text: str
    options: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def flagged(self) -> bool:
        return self.options.get("host") == "error"

    def arguments(self) -> dict[str, Any]:
        """Return what a host passes to `observe` besides the tool's name."""
        said = {"error": self.text, "result": None} if self.flagged else {"result": self.text, "error": None}
        return {"params": self.params, **said}


def read_samples(folder: Path = FOLDER) -> Iterator[PrintedResult]:
    for path in sorted(folder.glob("*.txt")):
        text = path.read_text()
        heads = list(_HEAD.finditer(text))
        for head, following in zip(heads, [*heads[1:], None], strict=True):
            body = text[head.end() + 1 : following.start() if following else None].removesuffix("\n").split("\n")
            yield _sample(head[1], f"{path.stem}: {head[2]} ({head[1]})", body)


def _sample(verdict: str, about: str, lines: list[str]) -> PrintedResult:
    options: dict[str, str] = {}
    while found := _OPTION.match(lines[0]):
        options[found[1]] = found[2]
        del lines[0]
    call = lines.pop(0)
    if call.startswith("$ "):
        return PrintedResult(verdict, about, "Bash", {"command": call[2:]}, "\n".join(lines), options)
    _, tool, params = call.split(" ", 2)
    return PrintedResult(verdict, about, tool, json.loads(params), "\n".join(lines), options)


def code(result: object = None, error: object = None, tool: str = "wikipedia", **given: Any) -> OutcomeCode:
    """Return the outcome that an observer gives such a call."""
    seen = ToolObserver().observe(tool, params={"query": "x"}, result=result, error=error, **given)
    assert seen.envelope is not None
    assert seen.to_observation()
    return seen.envelope.code
