"""Values that are not plain: of a library's own classes, and of objects that let nobody ask for anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellback import Tellback
from tellback.state.database import Database
from tellback.state.evaluation_codec import EvaluationId
from tellback.state.evaluations import Evaluations
from tellback.state.keys import Layout


class Scraped(str):
    """A text of a library, as scrapers, templates and NumPy return them."""

    __slots__ = ()


class Count(int):
    """A number of a library."""


def test_texts_and_numbers_of_a_librarys_own_classes_are_sent_as_such(
    tb: Tellback, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    text = Scraped("found")
    prompt = tb.prompt(Scraped("s"), Scraped("p"), evaluation=Scraped("e"), question=text, tools=[Scraped("t")])
    given = {"name": text, "names": [text], "count": Count(0)}
    prompt.tool_invoked(Scraped("t"), params=given, result=text, error=text, call_id=text)
    assert (
        "found" in prompt.observe(Scraped("t"), params=given, result=[text], status=Scraped("success")).to_observation()
    )
    prompt.observe("t", result=text)
    tb.context_changed(Scraped("s"), Scraped("file"), text, by=Scraped("other"))
    consume()
    calls = [entry for entry in tb.history("s") if entry["kind"] == "tool_call"]
    assert [entry["result"] for entry in calls] == ["found", '["found"]', "found"]
    assert [entry["params"] for entry in calls[:2]] == [{"name": "found", "names": ["found"], "count": 0}] * 2
    assert Evaluations(database, layout.of("s")).counts(EvaluationId("s", "p", "e")).calls == 3


class Expired:
    """An object like a web framework's proxy outside its request: it lets nobody ask for its class or its truth."""

    @property
    def __class__(self) -> type:
        raise RuntimeError("outside a request")

    @__class__.setter
    def __class__(self, _: type) -> None:
        raise RuntimeError("outside a request")

    def __bool__(self) -> bool:
        raise RuntimeError("outside a request")


def test_an_object_that_lets_nobody_ask_for_its_class_costs_no_tool_call(
    tb: Tellback, consume: Callable[[], None], database: Database, layout: Layout
) -> None:
    prompt = tb.prompt("s", "p", evaluation="e")
    expired: Any = Expired()
    values: list[Any] = [
        expired,
        [expired],
        {"type": expired, "content": "x"},
        {"is_error": True, "content": [expired]},
    ]
    for value in values:
        prompt.tool_invoked("t", params=value, result=value, error=value)
        prompt.observe("t", params=value, result=value, error=value).to_observation()
        prompt.observe(value, result=value, metadata=value, headers=value)
    consume()
    assert Evaluations(database, layout.of("s")).counts(EvaluationId("s", "p", "e")).calls == 12
