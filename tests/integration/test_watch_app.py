"""`tellback watch` as a person uses it: by keyboard and mouse, on a small terminal and a wide one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from threading import Event
from typing import Any

import pytest
from textual.events import MouseScrollUp
from textual.pilot import Pilot
from textual.widgets import Input, Static

from tellback.contracts.commands import CommandRecord, StreamFlags
from tellback.errors import InvalidInput
from tellback.tui.app import WatchApp
from tellback.tui.page import HelpScreen, RecordScreen
from tellback.tui.rows import RecordList, header_line
from tellback.tui.sources import CHUNK, DeliverRecords
from tests.support.costs import counted_calls

SMALL, WIDE = (80, 24), (140, 40)
BOTH = pytest.mark.parametrize("size", [SMALL, WIDE], ids=["80x24", "140x40"])
OUTPUT = "\n".join(["head", "...truncated 200 lines...", *(f"line {number}" for number in range(28)), "tail [x]"])

Scene = Callable[["WatchDriver"], Coroutine[Any, Any, None]]


class Given:
    """A source that delivers what a test gives it."""

    title = "session s1"

    def __init__(self, records: list[CommandRecord], error: InvalidInput | None = None) -> None:
        self.records, self.error = records, error
        self.ready = Event()

    def run(self, deliver: DeliverRecords, stopped: Event) -> None:
        self.deliver = deliver
        for start in range(0, len(self.records), CHUNK):
            deliver(self.records[start : start + CHUNK], "")
        if self.error:
            raise self.error
        self.ready.set()
        stopped.wait()


class WatchDriver:
    """The app, and how a test sees and drives it."""

    def __init__(self, app: WatchApp, pilot: Pilot[None], source: Given) -> None:
        self.app, self.pilot, self.source = app, pilot, source

    @property
    def screen(self) -> str:
        """The text on the terminal, line by line."""
        return "\n".join(
            "".join(segment.text for segment in line) for line in self.app.screen._compositor.render_strips()
        )

    @property
    def selected(self) -> str | None:
        row = self.app.screen_stack[0].query_one(RecordList).selected
        return row.record.command_id if row else None

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def come(self, *records: CommandRecord) -> None:
        """More records, from the source's thread."""
        await asyncio.to_thread(self.source.deliver, list(records), "")
        await self.pilot.pause(0.05)


def watched(scene: Scene, records: list[CommandRecord], size: tuple[int, int] = SMALL) -> WatchApp:
    """Play a scene on an app that shows these records."""

    async def play() -> WatchApp:
        source = Given(records)
        app = WatchApp(source, slow=10)
        async with app.run_test(size=size) as pilot:
            while not (source.ready.is_set() and len(app.review.rows) == len(records)):
                await pilot.pause(0.01)
            watch = WatchDriver(app, pilot, source)
            while "q Quit" not in watch.screen:  # the footer is drawn last, a moment after the rest
                await pilot.pause(0.01)
            await scene(watch)
        return app

    return asyncio.run(play())


def record(id_: str, exit_code: int | None = 0, argv: str = "pytest -q", **more: Any) -> CommandRecord:
    given: dict[str, Any] = {"cwd": "/srv/app", "duration_ms": 300, "started_at": "2026-11-21T12:01:02Z", **more}
    return CommandRecord(command_id=id_, session="s1", command=argv.split(), exit_code=exit_code, **given)


RECORDS = [
    record("a", argv="git status", agent_note="a clean tree"),
    record("b", 1, agent_note="expect one failure", stdout_tail=OUTPUT, truncated=StreamFlags(stdout=True)),
    record("c", agent_note="all pass", parent_command_id="b"),
    record("d", None, "make docs", error="timed out after 30 s", duration_ms=30_000),
    record("e", 2, "ruff check", cwd="/srv/web", redacted=StreamFlags(stderr=True)),
    record("f", argv="deploy [staging]"),
]


@BOTH
def test_everything_that_a_reviewer_needs_is_in_sight(size: tuple[int, int]) -> None:
    async def scene(watch: WatchDriver) -> None:
        seen = watch.screen
        for part in (
            "session s1 · 6 records · following",
            "Latest failure  exit 2 · ruff check",
            "1 All 6  2 Failed 2  3 Null 1  4 Open 2  5 Retries 2  6 Slow 1  7 Partial 2",
            "✗ 1     12:01:02  300 ms   1/2 T   pytest -q",
            "∅ null  12:01:02  30.0 s       S   make docs",
            "expect one f",
            "deploy '[staging]'",
            "⏎ Record",
            "q Quit",
        ):
            assert part in seen

    watched(scene, RECORDS, size)


@BOTH
def test_the_cursor_moves_and_the_page_follows(size: tuple[int, int]) -> None:
    async def scene(watch: WatchDriver) -> None:
        assert watch.selected == "f"
        await watch.press("up", "k")
        assert watch.selected == "d"
        assert "no exit: timed out after 30 s" in watch.screen
        await watch.press("home")
        assert watch.selected == "a"
        await watch.press("pagedown", "j")
        assert watch.selected == "f"

    watched(scene, RECORDS, size)


@BOTH
def test_the_whole_record_opens_and_its_neighbours_and_attempts_are_a_key_away(size: tuple[int, int]) -> None:
    async def scene(watch: WatchDriver) -> None:
        await watch.press("home", "down", "enter")
        assert isinstance(watch.app.screen, RecordScreen)
        assert "Expected   expect one failure" in watch.screen
        assert "...truncated 200 lines..." in watch.screen
        await watch.press("end")
        assert "tail [x]" in watch.screen
        await watch.press("right_square_bracket")
        assert "record 3 of 6" in watch.screen
        await watch.press("left_square_bracket", "n", "n", "p", "p", "p")
        assert "record 1 of 6" in watch.screen
        await watch.press("x", "l", "2")  # keys of the list
        assert "record 1 of 6" in watch.screen
        await watch.press("escape")
        assert watch.selected == "b"

    watched(scene, RECORDS, size)


def test_filters_by_key() -> None:
    async def scene(watch: WatchDriver) -> None:
        await watch.press("d", *"web")
        assert "1 of 6" in watch.screen
        assert watch.selected == "e"
        await watch.press("escape", "x")
        assert "6 records" in watch.screen
        await watch.press("c", *"pytest", "enter", "e", "0", "enter")
        assert "1 of 6" in watch.screen
        assert watch.selected == "c"
        await watch.press("x", "3")
        assert watch.selected == "d"
        await watch.press("4")
        assert "2 of 6" in watch.screen
        await watch.press("e", *"12x")
        assert watch.app.query_one("#exit", Input).has_class("-unreadable")
        assert "Esc Back to the list" in watch.screen
        assert "2 of 6" in watch.screen
        await watch.press("escape", "x")
        assert "6 records" in watch.screen
        await watch.press("c", *"nothing")
        assert "No record is shown." in watch.screen
        await watch.press("enter", "enter", "up", "left_square_bracket")  # on nothing
        assert not isinstance(watch.app.screen, RecordScreen)

    watched(scene, RECORDS)


def test_the_latest_failure_is_a_key_away_whatever_the_filter() -> None:
    async def scene(watch: WatchDriver) -> None:
        await watch.press("3", "l")
        assert watch.selected == "e"
        assert "6 records" in watch.screen

    watched(scene, RECORDS)


def test_attempts_are_walked_in_the_list() -> None:
    async def scene(watch: WatchDriver) -> None:
        await watch.press("home", "down", "right_square_bracket")
        assert watch.selected == "c"
        await watch.press("right_square_bracket", "left_square_bracket")
        assert watch.selected == "b"

    watched(scene, RECORDS)


@pytest.mark.parametrize("size", [SMALL, pytest.param(WIDE, marks=pytest.mark.slow)], ids=["80x24", "140x40"])
def test_the_mouse_does_it_too(size: tuple[int, int]) -> None:
    async def scene(watch: WatchDriver) -> None:
        await watch.pilot.click("#rows", offset=(10, 1))
        await watch.pilot.pause()
        assert watch.selected == "b"
        await watch.pilot.click("#rows", offset=(10, 8))  # below the last
        assert watch.selected == "b"
        await watch.pilot.click("#rows", offset=(10, 3), times=2)
        await watch.pilot.pause()
        assert isinstance(watch.app.screen, RecordScreen)
        await watch.press("escape")
        await watch.pilot.click("#kind-2")
        await watch.pilot.pause()
        assert "2 of 6" in watch.screen
        await watch.pilot.click("#kind-1")
        await watch.pilot.click("#latest")
        await watch.pilot.pause()
        assert watch.selected == "e"
        await watch.pilot.click("#command")
        await watch.press(*"git")
        assert watch.selected == "a"

    watched(scene, RECORDS, size)


def test_help() -> None:
    async def scene(watch: WatchDriver) -> None:
        await watch.press("question_mark")
        assert isinstance(watch.app.screen, HelpScreen)
        assert "x clears all" in watch.screen
        assert all(len(line.rstrip()) < 80 for line in watch.screen.splitlines())
        await watch.press("q")
        assert not isinstance(watch.app.screen, HelpScreen)

    watched(scene, RECORDS)


@pytest.mark.parametrize(
    "keys", [(), ("question_mark",), ("enter",), ("c", "g")], ids=["list", "help", "page", "input"]
)
def test_ctrl_c_quits(keys: tuple[str, ...]) -> None:
    """Textual's own Ctrl-C shows a notice, and a person who does not know the program stays in it."""

    async def scene(watch: WatchDriver) -> None:
        await watch.press(*keys)
        await watch.press("ctrl+c")
        assert watch.app._exit

    watched(scene, RECORDS)


def test_new_records_are_followed_until_the_reader_scrolls_back() -> None:
    async def scene(watch: WatchDriver) -> None:
        await watch.come(record("g"))
        assert watch.selected == "g"
        await watch.press("up")
        await watch.come(record("h"))
        assert watch.selected == "f"
        assert "at 6" in watch.screen
        await watch.press("end")
        await watch.come(record("i", 3))
        assert watch.selected == "i"
        assert "Latest failure  exit 3" in watch.screen

    watched(scene, RECORDS)


def test_a_reader_who_scrolls_back_is_left_alone() -> None:
    async def scene(watch: WatchDriver) -> None:
        rows = watch.app.query_one(RecordList)
        for _ in range(20):
            rows.post_message(MouseScrollUp(rows, 5, 2, 0, -1, 0, False, False, False))  # noqa: FBT003  # Textual's order
        await watch.pilot.pause(0.4)
        seen = rows.scroll_offset.y
        assert seen < 180
        await watch.come(record("new"))
        assert rows.scroll_offset.y == seen
        assert watch.selected == "199"
        await watch.press("end")
        assert watch.selected == "new"

    watched(scene, [record(str(number)) for number in range(200)])


def test_a_retry_resolves_a_record_that_is_open_on_the_screen() -> None:
    async def scene(watch: WatchDriver) -> None:
        await watch.press("home", *["down"] * 4, "enter")
        assert "resolved" not in watch.screen
        await watch.come(record("g", 0, "ruff check", cwd="/srv/web", parent_command_id="e"))
        assert "resolved by g" in watch.screen

    watched(scene, RECORDS)


def test_a_terminal_may_change_its_size() -> None:
    async def scene(watch: WatchDriver) -> None:
        for size in ((140, 40), (40, 10), (20, 5), (80, 24)):
            await watch.pilot.resize_terminal(*size)
            await watch.pilot.pause()
            heading = str(watch.app.query_one("#heading", Static).content)
            assert heading == header_line(watch.app.query_one(RecordList).size.width), size
            # The list of a small terminal has one line, which a scroll bar for its width took.
            assert size[1] < 10 or "\n✓ 0 " in watch.screen, size
        assert watch.selected == "f"
        assert "deploy '[staging]'" in watch.screen

    watched(scene, RECORDS)


def test_without_records_there_is_a_screen_too() -> None:
    async def scene(watch: WatchDriver) -> None:
        assert "0 records" in watch.screen
        assert "No command has failed." in watch.screen
        await watch.press("up", "enter", "l", "left_square_bracket", "2", "end")
        await watch.come(record("a"))
        await watch.press("1")
        assert watch.selected == "a"

    watched(scene, [])


def test_a_source_that_cannot_be_read_ends_the_app() -> None:
    async def play() -> WatchApp:
        app = WatchApp(Given([], InvalidInput("no such thing")), slow=10)
        async with app.run_test() as pilot:
            await pilot.pause(0.2)
        return app

    app = asyncio.run(play())
    assert app.return_code == 1
    assert isinstance(app.error, InvalidInput)


def _calls(count: int) -> dict[str, int]:
    """Count the functions that each key's press calls at least, with so many records."""
    taken: dict[str, list[int]] = {}

    async def scene(watch: WatchDriver) -> None:
        for _ in range(3):
            for key in ("home", "pagedown", "up", "l", "2", "4", "1", "c", "p", "escape", "x"):
                with counted_calls() as calls:
                    await watch.press(key)
                taken.setdefault(key, []).append(calls[0])

    argv = ("pytest -q", "ruff check .", "make docs")
    records = [
        record(str(at), (0, 1, None)[at % 3], argv[at % 3], parent_command_id=str(at - 3) if at % 2 else None)
        for at in range(count)
    ]
    watched(scene, records, WIDE)
    return {key: min(numbers) for key, numbers in taken.items()}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_hundred_thousand_records_answer_keys_as_a_hundred_do() -> None:
    few, many = _calls(100), _calls(100_000)
    assert {key: number for key, number in many.items() if number > 1.5 * few[key]} == {}
