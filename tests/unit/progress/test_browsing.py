"""Agents that browse: a list that they come back to, forms that they fill in, and pages that lead nowhere."""

from __future__ import annotations

import pytest

from tests.support.dialects import MadeCall, spoken

LIST = "\n".join(f'- link "Hub with {n} ports" [ref=e{20 + n}]' for n in range(8))
FORM = '- textbox "Name" [ref=e1]\n- textbox "City" [ref=e2]\n- button "Save" [ref=e3]'


def page(path: str, snapshot: str) -> str:
    return f"- Page URL: https://shop.example{path}\n- Page Title: Shop\n- Page Snapshot\n{snapshot}"


def click(name: str, said: str) -> MadeCall:
    return "browser_click", {"element": name, "ref": "e3"}, said


def item(n: int) -> MadeCall:
    shown = f'- heading "Hub with {n} ports"\n- text: costs 1{n}.50\n- text: weighs {n}7 g\n- link "Back" [ref=e2]'
    return click(f"Hub with {n} ports", page(f"/hub/{n}", shown))


def filled(n: int) -> MadeCall:
    shown = FORM.replace("[ref=e1]", f"[ref=e1]: Person {n}")
    return "browser_type", {"element": "Name", "ref": "e1", "text": f"Person {n}"}, page("/new", shown)


BACK: list[MadeCall] = [
    ("browser_navigate_back", {}, page("/hubs", LIST)),
    ("browser_navigate", {"url": "https://shop.example/hubs"}, page("/hubs", LIST)),
    click("Back", page("/hubs", LIST)),
]


@pytest.mark.parametrize("back", BACK)
def test_a_list_may_be_seen_again_between_pages_that_are_new(back: MadeCall) -> None:
    """G-295: pages that were seen before lead nowhere."""
    assert not spoken([each for n in range(8) for each in (back, item(n))])
    known = [each for n in range(3) for each in (back, item(n))]
    circle = [each for n in (1, 0, 2, 0) for each in (item(n), back)]
    assert 7 < spoken([*known, *circle])[0] <= 12


@pytest.mark.parametrize("said", ["- status: Saved.", '- alert: Person added "now"', "- text: It was created."])
def test_a_form_that_says_each_time_that_it_worked_is_no_fault(said: str) -> None:
    """G-296: whatever the role of the message."""
    calls = [each for n in range(6) for each in (filled(n), click("Save", page("/new", f"{said}\n{FORM}")))]
    assert not spoken(calls)


@pytest.mark.parametrize("said", ["", "- alert: It could not be saved.\n", "- text: Last updated 2 days ago\n"])
def test_a_form_that_comes_back_as_it_was_is_reported_at_the_third_time(said: str) -> None:
    """G-296."""
    assert spoken([each for n in range(4) for each in (filled(n), click("Save", page("/new", f"{said}{FORM}")))]) == [6]
