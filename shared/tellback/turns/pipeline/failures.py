"""What is kept of an error: its type, and one redacted, bounded line. No stack trace, no secret that the rules know."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tellback.contracts.llm import MAX_CODE, MAX_FAILURES, MAX_NOTE, LlmError, SystemFailure
from tellback.redaction import redact_text

MAX_READ: Final = 64 << 10  # characters of an error's text that are read at all
_PYTHON: Final = "Traceback (most recent call last)"
_FRAME: Final = re.compile(
    r"\s*(Traceback \(|File \"|at \S|\.\.\. \d+ |Caused by|During handling|The above exception|goroutine \d"
    r"|stack backtrace|Stack trace|\d+: 0x|#\d+ |\+ |\| |[~^]+\s*$)"
)


def failure_of(system: str, error: BaseException) -> SystemFailure:
    """An exception that a system raised."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - their __str__ raises whatever it likes
        said = "(its text cannot be read)"
    return cleaned_failure(SystemFailure(system=system, error=type(error).__name__, message=said))


def cleaned_failure(failure: SystemFailure) -> SystemFailure:
    """The same without secrets and stack traces, and bounded."""
    return SystemFailure(
        system=note(failure.system, MAX_CODE) or "unknown",
        error=note(failure.error, MAX_CODE),
        message=note(failure.message, MAX_NOTE),
    )


def cleaned_failures(failures: Iterable[SystemFailure]) -> tuple[SystemFailure, ...]:
    """The last ones, cleaned."""
    return tuple(cleaned_failure(failure) for failure in list(failures)[-MAX_FAILURES:])


def cleaned_error(error: LlmError) -> LlmError:
    """The same without secrets and stack traces, and bounded."""
    return LlmError(code=note(error.code, MAX_CODE), message=note(error.message, MAX_NOTE))


def note(text: str, limit: int) -> str:
    """One line of what an error says: the last one of a Python traceback, else the first that is no frame."""
    whole = redact_text(text[:MAX_READ].encode(errors="replace").decode())
    lines = [line for line in whole.splitlines() if line.strip()]
    kept = [line for line in lines if not _FRAME.match(line)]
    if _PYTHON in whole:
        kept = [line for line in kept if not line.startswith((" ", "\t"))][-1:]
    line = " ".join("".join(character if character.isprintable() else " " for character in "".join(kept[:1])).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
