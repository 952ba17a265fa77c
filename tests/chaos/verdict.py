"""The verdict of one invariant's check."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ChaosVerdict:
    """An invariant with what was counted and what violates it; `note` says what else the counts tell."""

    invariant: int
    title: str
    counted: int = 0
    violations: list[str] = field(default_factory=list[str])
    note: str = ""

    @property
    def text(self) -> str:
        """The verdict in words."""
        if self.violations:
            return f"VIOLATED {len(self.violations)} times"
        return "holds" if self.counted else "nothing to count"

    def expect(self, condition: object, violation: str) -> None:
        """Count one check, and note the violation if the condition does not hold."""
        self.counted += 1
        if not condition:
            self.violations.append(violation)

    def fail(self, violation: str) -> None:
        """Note what is a violation by itself."""
        self.expect(condition=False, violation=violation)
