"""docs/loops/transports.md is right, beside the examples that `test_page_examples` runs."""

from __future__ import annotations

import re
import shlex

import pytest

from tellback import Tellback
from tellback.cli.metrics_collector import TURN_EVENTS, render_metrics
from tellback.transports.__main__ import _parser
from tellback.transports.webhook import GATEWAY_STATUSES, RETRY_STATUSES, UNREACHABLE_STATUSES
from tests.support.pages import ROOT, console

PAGE = "docs/loops/transports.md"
TEXT = (ROOT / PAGE).read_text("utf-8")


@pytest.mark.parametrize("line", console(PAGE))
def test_each_command_is_one(line: str) -> None:
    words = shlex.split(line)
    assert _parser().parse_args(words[words.index("tellback.transports") + 1 :]).channel


def test_the_table_of_the_webhook_names_each_status() -> None:
    def statuses(beginning: str) -> set[int]:
        [row] = [row for row in TEXT.splitlines() if row.startswith(f"| {beginning}")]
        return {int(number) for number in re.findall(r"\b\d{3}\b", row)}

    assert statuses("3xx, 401") == UNREACHABLE_STATUSES
    assert statuses("408, 409") == {*RETRY_STATUSES, 500}
    assert statuses("502, 504, no reply") == GATEWAY_STATUSES


def test_the_page_names_every_metric(tb: Tellback) -> None:
    families = set(re.findall(r"^# TYPE (\w+) ", render_metrics(tb), re.MULTILINE))
    short = {name.removeprefix("tellback_outbox").removesuffix("_created") for name in families}
    assert not [name for name in short if name not in TEXT]
    assert not [event for event in TURN_EVENTS if f"`{event}`" not in TEXT]
