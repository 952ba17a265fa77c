"""How the facts that a bank is to hold leave a host: checked, redacted, cut, published in order."""

from __future__ import annotations

from tellback.client.context import Context
from tellback.client.recalling import cut_text
from tellback.contracts.message import new_event_id
from tellback.contracts.signals import FactForgotten, FactRemembered
from tellback.signals.validation import check_fact_text, check_id, check_name


class Remembering:
    """The facts of one bank on their way out of this host."""

    def __init__(self, context: Context, bank: str) -> None:
        """Take the client's context and the bank's name."""
        self._context = context
        self._bank = bank

    def remember(self, fact_id: str, text: str) -> None:
        """What `Bank.remember` says."""
        check_name(fact_id, "fact_id")
        kept = check_fact_text(cut_text(check_fact_text(text)))  # blanks may be all that is left of it
        self._publish(FactRemembered(event_id=new_event_id(), bank=self._bank, fact_id=fact_id, text=kept))

    def forget(self, fact_id: str) -> None:
        """What `Bank.forget` says."""
        self._publish(FactForgotten(event_id=new_event_id(), bank=self._bank, fact_id=check_id(fact_id, "fact_id")))

    def _publish(self, message: FactRemembered | FactForgotten) -> None:
        self._context.publisher.publish(message)
        self._context.told[self._bank] = message.event_id
