"""BudgetFeedback: how much of the tokens or the money is used."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, cast

from tellback.contracts.guidance import Feedback, Observation, Severity
from tellback.errors import InvalidInput
from tellback.guidance.context import FeedbackContext

THRESHOLDS: Final = (0.5, 0.8, 0.95, 1.0)
CAUTION: Final = Decimal("0.8")


@dataclass(frozen=True)
class BudgetFeedback:
    """Tells when a share of the budget is used that hosts report with `prompt.spent`; use `every_n_calls=1`.

    Of tokens and cost the one that is nearer to its limit counts. It speaks once for each threshold, from 0.8 on as a
    caution, at and above the budget as a warning. `max_cost` is in the currency of the reports; `currency` is shown.
    """

    max_tokens: int | None = None
    max_cost: Decimal | float | None = None
    thresholds: tuple[float, ...] = THRESHOLDS
    currency: str = ""

    def __post_init__(self) -> None:
        """Refuse a budget of nothing, and a share that is none."""
        limits = [limit for limit in (self.max_tokens, self.max_cost) if limit is not None]
        if not limits or not all(map(_is_amount, limits)):
            raise InvalidInput("max_tokens and max_cost: give one of them or both, as numbers above 0")
        shares: Any = self.thresholds
        if not isinstance(shares, tuple | list) or not shares or not all(map(_is_amount, cast("Any", shares))):
            raise InvalidInput(f"thresholds is {shares!r}; use a tuple of shares of the budget above 0")

    @property
    def name(self) -> str:
        """Its name."""
        return "BudgetFeedback"

    def should_run(self, *, context: FeedbackContext) -> bool:
        """Whether a threshold was crossed since it spoke last."""
        now = self._crossed(self._share(context.tokens_spent, context.cost_spent))
        return now > self._crossed(self._share(context.own.tokens, context.own.cost))

    def provide(self, *, context: FeedbackContext) -> Feedback:
        """The share, and what is left of each budget."""
        share = self._share(context.tokens_spent, context.cost_spent)
        severity: Severity = "warning" if share >= 1 else "caution" if share >= CAUTION else "info"
        suggestions: tuple[str, ...] = ()
        if severity == "caution":
            suggestions = ("Prioritize what is still needed.", "Prefer cheap steps.")
        elif severity == "warning":
            suggestions = ("Wrap up now with what you have.",)
        return Feedback(
            provider_name=self.name,
            summary=f"You have used {int(share * 100)}% of the budget.",
            observations=tuple(self._spent(context)),
            suggestions=suggestions,
            severity=severity,
        )

    def _spent(self, context: FeedbackContext) -> list[Observation]:
        seen: list[Observation] = []
        if self.max_tokens is not None:
            seen.append(Observation("tokens", f"{context.tokens_spent:,} of {self.max_tokens:,}"))
        if self.max_cost is not None:
            unit = f" {self.currency}" if self.currency else ""
            limit = _plain(_exact(self.max_cost))
            seen.append(Observation("cost", f"{_plain(context.cost_spent)} of {limit}{unit}"))
        return seen

    def _share(self, tokens: int, cost: Decimal) -> Decimal:
        shares = [Decimal(0)]
        if self.max_tokens is not None:
            shares.append(Decimal(tokens) / self.max_tokens)
        if self.max_cost is not None:
            shares.append(cost / _exact(self.max_cost))
        return max(shares)

    def _crossed(self, share: Decimal) -> int:
        return sum(share >= _exact(threshold) for threshold in self.thresholds)


def _is_amount(value: object) -> bool:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return False
    exact = _exact(value)
    return exact.is_finite() and exact > 0


def _exact(number: Decimal | float) -> Decimal:
    """The number as it is written: 0.1 is a tenth."""
    return Decimal(str(number))


def _plain(amount: Decimal) -> str:
    """Without an exponent, and without noughts at the end."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
