"""Flower of `tellback up` in a real browser: who works, and what was done."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page

from tellback import connect
from tellback.settings import Settings
from tests.support.up import RunningUp
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

PICTURES = Path(__file__).parents[2] / "build"


@pytest.fixture(scope="module")
def up(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningUp]:
    """A system with Flower, that has done something."""
    with RunningUp(tmp_path_factory.mktemp("up"), "--port", "0", "--flower-port", "0") as system:
        with connect(system.redis_url) as tb:
            prompt = tb.prompt("s1", "tests:flower")
            for _ in range(3):
                prompt.tool_invoked("search", params={"q": "geheim"}, status="success", result="r", duration_ms=1)
        yield system


@pytest.fixture
def page(browser: Browser, up: RunningUp) -> Iterator[Page]:
    """A page that knows Flower's password."""
    parts = urlsplit(str(up.flower_url))
    with browser.new_context(
        base_url=f"http://{parts.hostname}:{parts.port}",
        http_credentials={"username": parts.username or "", "password": parts.password or ""},
        viewport={"width": 1400, "height": 800},
    ) as context:
        yield context.new_page()


def picture(page: Page, name: str) -> None:
    """Save a screenshot of the page."""
    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / f"flower-{name}.png")


def test_workers_are_shown_online(page: Page) -> None:
    host = Settings().host_name
    page.goto("/workers")
    for name in ("loops-1", "commands-1", "model"):
        row = page.locator("#workers-table tbody tr", has_text=f"{name}@{host}")
        row.get_by_text("Online").wait_for(timeout=15_000)
    picture(page, "workers")


def test_tasks_appear_without_what_they_carry(page: Page) -> None:
    """The events went through `tellback.consume`, whose arguments name a stream and hold no payload."""

    def consumed() -> bool:
        page.goto("/tasks")
        page.locator("input[type=search]").fill("tellback.consume")
        rows = page.locator("#tasks-table tbody tr", has_text="tellback.consume").filter(has_text="SUCCESS")
        page.wait_for_timeout(500)
        return rows.count() > 0

    wait_until(consumed, "a consume task that succeeded is listed")
    picture(page, "tasks")
    page.locator("#tasks-table tbody tr a[href*='/task/']").first.click()
    page.get_by_text("default").first.wait_for()  # the team, the first of the task's arguments
    picture(page, "task")
    assert "geheim" not in page.content()


def test_without_the_password_nothing_is_shown(browser: Browser, up: RunningUp) -> None:
    parts = urlsplit(str(up.flower_url))
    with browser.new_context() as stranger:
        answer = stranger.request.get(f"http://{parts.hostname}:{parts.port}/workers")
        assert answer.status == 401
        assert "loops-1" not in answer.text()


def test_metrics_ask_for_the_password_and_the_health_check_does_not(up: RunningUp) -> None:
    parts = urlsplit(str(up.flower_url))
    page = f"http://{parts.hostname}:{parts.port}"
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"{page}/metrics", timeout=60)
    login = b64encode(f"{parts.username}:{parts.password}".encode()).decode()
    with urlopen(Request(f"{page}/metrics", headers={"Authorization": f"Basic {login}"}), timeout=60) as shown:
        assert b"flower_" in shown.read()
    with urlopen(f"{page}/healthcheck", timeout=60) as healthy:
        assert healthy.read() == b"OK"
