"""Secrets that only the head of a column or of a list names: on no path of a text do they reach Redis or a disk."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from redis import Redis

from tellback import FeedbackProviderConfig, FeedbackTrigger, SignalItem, Tellback, ToolUsageMonitor
from tellback.settings import Settings
from tests.support.hooks import run_hook, tool_event
from tests.support.turns import opened
from tests.support.workers import Workers

_CLIENT: Final[Any] = Redis  # its calls are typed in part only
SECRET = "q7Zk2mX9vB4tR8wL1nPs"
CODE = "1a2b3-c4d5e"
TEXTS = (
    f"id,user,db_password\n7,ana,{SECRET}\n",
    f"| Service | API token |\n|---|---|\n| billing | {SECRET} |\n",
    f"$ cat /run/secrets/api_token\n{SECRET}\n",
    f"Your recovery codes are:\n\n{CODE}\n",
)


@contextmanager
def monitored(settings: Settings) -> Generator[list[str]]:
    """Give every command that Redis receives meanwhile, Celery's events among them."""
    seen: list[str] = []
    mark = "the end of the test"
    with _CLIENT.from_url(settings.redis_url) as client, client.monitor() as monitor:

        def read() -> None:
            for command in monitor.listen():
                seen.append(str(command["command"]))
                if mark in seen[-1]:
                    return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        yield seen
        with _CLIENT.from_url(settings.redis_url) as last:
            last.echo(mark)
        reader.join(timeout=60)
        assert not reader.is_alive()


def on_disk(folder: Path) -> str:
    """Return all that is in the files of a folder."""
    return "".join(path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=[pytest.mark.slow] if at else []) for at, text in enumerate(TEXTS)]
)
def test_what_a_head_names_reaches_neither_redis_nor_a_disk(
    tb: Tellback, settings: Settings, workers: Workers, tmp_path: Path, text: str
) -> None:
    (tmp_path / "printed").write_text(text)
    every = FeedbackProviderConfig(ToolUsageMonitor(), FeedbackTrigger(every_n_calls=1))
    with monitored(settings) as seen:
        followed = tb.submit(["cat", "printed"], session="s1", cwd=tmp_path, follow=True)
        shown = "".join(piece.text for piece in followed.follow(timeout=60))
        record = followed.wait(timeout=60)
        prompt = tb.prompt("s2", "p", feedback_providers=[every], tools=["t"], delivery="all")
        prompt.tool_invoked("t", params={"q": text}, result=text)
        prompt.observe("t", params={"q": "y"}, error=text)
        opened(tb, text=text).fail(code="llm.timeout")
        tb.bank("b").signal([SignalItem(fact_id="f", signal_type="helpful", query=text, context=text)], session="s3")
        tb.flush()
        run_hook(settings, tool_event(tool_response={"stdout": text}), "--wait=1")
        run_hook(settings, tool_event(tool_response={"stdout": text}), "--wait=1", "--redis-url=redis://127.0.0.1:1/0")
    places = ["\n".join(seen), shown, str(record), on_disk(settings.data_path)]
    assert all("[redacted" in place for place in places), "the text took every path"
    everything = "\n".join([*places, workers.log()])
    assert SECRET not in everything
    assert CODE not in everything
