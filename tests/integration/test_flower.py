"""Flower of `tellback up` in a real browser: who works, and what was done."""

from __future__ import annotations

import os
import shutil
from base64 import b64encode
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, sync_playwright

from tellback import connect
from tellback.settings import Settings
from tests.support.up import RunningUp
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

PICTURES = Path(__file__).parents[2] / "build"
QUIET = (  # Chromium's own traffic would be refused, or wait for hosts that are not there
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """The browser of this machine; without one the test is skipped, save in continuous integration."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        reason = "no Chromium on this machine: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningUp]:
    """A system with Flower, that has done something."""
    chromium()
    with RunningUp(tmp_path_factory.mktemp("up"), "--port", "0", "--flower-port", "0") as system:
        with connect(system.redis_url) as tb:
            prompt = tb.prompt("s1", "tests:flower")
            for _ in range(3):
                prompt.tool_invoked("search", params={"q": "geheim"}, status="success", result="r", duration_ms=1)
        yield system


@contextmanager
def browser(up: RunningUp) -> Generator[Page]:
    """A page that knows Flower's password."""
    parts = urlsplit(str(up.flower_url))
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium refuses to sandbox itself as root
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=[*QUIET, *root])
        context = running.new_context(
            base_url=f"http://{parts.hostname}:{parts.port}",
            http_credentials={"username": parts.username or "", "password": parts.password or ""},
            viewport={"width": 1400, "height": 800},
        )
        try:
            yield context.new_page()
        finally:
            context.close()
            running.close()


def picture(page: Page, name: str) -> None:
    """Save a screenshot of the page."""
    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / f"flower-{name}.png")


def test_workers_are_shown_online(up: RunningUp) -> None:
    host = Settings().host_name
    with browser(up) as page:
        page.goto("/workers")
        for name in ("loops-1", "commands-1", "model"):
            row = page.locator("#workers-table tbody tr", has_text=f"{name}@{host}")
            row.get_by_text("Online").wait_for(timeout=15_000)
        picture(page, "workers")


def test_tasks_appear_without_what_they_carry(up: RunningUp) -> None:
    """The events went through `tellback.consume`, whose arguments name a stream and hold no payload."""
    with browser(up) as page:

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


def test_without_the_password_nothing_is_shown(up: RunningUp) -> None:
    parts = urlsplit(str(up.flower_url))
    with browser(up) as page:
        assert page.context.browser is not None
        stranger = page.context.browser.new_context()
        answer = stranger.request.get(f"http://{parts.hostname}:{parts.port}/workers")
        assert answer.status == 401
        assert "loops-1" not in answer.text()
        stranger.close()


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
