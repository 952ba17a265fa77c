"""The guidance report in a real browser, opened as a file: nothing is loaded, filters and timelines work."""

from __future__ import annotations

import io
import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page

from tellback.replay.analysis import analyze_file
from tellback.replay.html_report import render_html
from tests.integration.test_flower import PICTURES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

EVIL = '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">'


def talk(name: str, reward: float | None, results: list[str]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"I am {name}. {EVIL}"}]
    for number, result in enumerate(results):
        call = {"id": str(number), "function": {"name": "book", "arguments": json.dumps({"seat": number, "x": EVIL})}}
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": str(number), "content": result},
        ]
    return {"task_id": name, "reward": reward, "messages": [*messages, {"role": "assistant", "content": "Done."}]}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    talks = [
        talk("calm", 1.0, ["fine", "[]", "good"]),
        talk("stuck", 0.0, [f"Error: seat {n} is taken" for n in range(5)]),
        talk("odd", None, [f"Error: {EVIL}", EVIL]),
    ]
    raw = b"".join(json.dumps(each).encode() + b"\n" for each in talks)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text("".join(render_html(analyze_file(io.BytesIO(raw), source="talks.jsonl"))), "utf-8")
    return path


@contextmanager
def opened(browser: Browser, report: Path, scheme: Literal["light", "dark"] = "light") -> Generator[Page]:
    """The page, as from a disk; an error or a request of it fails the test."""
    with browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme=scheme) as page:
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("request", lambda request: None if request.url.startswith("file:") else wrong.append(request.url))
        page.goto(report.as_uri())
        yield page
        assert page.evaluate("window.hacked") is None
        assert wrong == []


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    with opened(browser, report) as found:
        yield found


def shown(page: Page) -> list[str]:
    return page.locator("details.talk:not([hidden]) > summary > b").all_inner_texts()


def test_conversations_are_listed_with_what_became_of_them(page: Page) -> None:
    assert shown(page) == ["stuck", "calm", "odd"], "those with nudges first"
    line = page.locator("details.talk", has_text="stuck").locator("summary").first.inner_text().split("\n")
    assert line == ["stuck", "not solved", "5 calls", "5 errors", "1 nudge", "first at call 3"]


def test_they_are_filtered_and_ordered(page: Page) -> None:
    page.get_by_label("with nudges").check()
    page.locator("#shown", has_text="1 of 3 conversations").wait_for()
    assert shown(page) == ["stuck"]
    page.get_by_role("button", name="Reset").click()
    page.locator("#shown", has_text="3 of 3").wait_for()
    page.get_by_label("Order").select_option("most errors")
    assert shown(page) == ["stuck", "odd", "calm"]
    page.get_by_label("Outcome").select_option("solved")
    page.locator("#shown", has_text="1 of 3").wait_for()
    assert shown(page) == ["calm"]
    page.get_by_label("Outcome").select_option("all")
    page.locator("#shown", has_text="3 of 3").wait_for()
    page.get_by_label("Find").fill("SEAT 4 IS")
    page.locator("#shown", has_text="1 of 3").wait_for()
    assert shown(page) == ["stuck"]


def test_a_mark_of_the_timeline_shows_a_tip_and_opens_its_text(page: Page) -> None:
    page.locator("details.talk", has_text="stuck").locator("summary").first.click()
    mark = page.locator("#c2 svg a", has=page.locator("path.nudge")).first
    mark.hover()
    tip = page.locator("#tip")
    assert "StuckFeedback: book has failed 3 times in a row since call 1" in tip.inner_text()
    entry = page.locator("#c2-1")
    assert not entry.locator("pre").first.is_visible()
    page.locator("#c2 svg a", has=page.locator("path.error")).first.click()
    entry.locator("pre").first.wait_for(state="visible")
    assert "✗ book failed" in entry.locator("pre").first.inner_text()
    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / "report-light.png")


def test_it_is_used_by_keyboard(page: Page) -> None:
    page.locator("details.talk", has_text="calm").locator("summary").first.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith("message 0, the user: I am calm.")
    assert page.locator("#tip").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_an_address_of_an_entry_leads_to_it(report: Path, page: Page) -> None:
    page.goto(f"{report.as_uri()}#c2-3")
    page.reload()
    page.locator("#c2-3 pre").first.wait_for(state="visible")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, report: Path, scheme: Literal["light", "dark"]) -> None:
    """The colours of texts have a contrast of at least 4.5 : 1 (WCAG AA), in both schemes."""
    with opened(browser, report, scheme) as page:
        colours = page.evaluate(
            """() => { const s = getComputedStyle(document.documentElement);
            return Object.fromEntries(['fg','bg','soft','dim','link','nudge','error','ok','partial'].map(
              (name) => [name, s.getPropertyValue('--' + name).trim()])); }"""
        )
    for name in ("fg", "dim", "link", "nudge", "error", "ok", "partial"):
        for ground in ("bg", "soft"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (scheme, name, ground)


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    digits = "".join(digit * 2 for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
