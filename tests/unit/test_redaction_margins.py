"""Names and values of which each line stands behind a margin, or within another text."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tellback.redaction import redact_text
from tellback.redaction.stream import StreamRedactor
from tests.support.margins import EACH_LINE

VALUE = "q7Zk2mX9vB4tR8wL1nPs"
LAYOUTS = (
    "Generated password:\n\n    {}",
    "  api_token: |\n    {}",
    "- name: DB_PASSWORD\n  value: {}",
    "<key>ApiToken</key>\n<string>{}</string>",
    "id,name,api_token\n7,billing,{}",
    "api_token = (\n    '{}'\n)",
    "$ cat /run/secrets/api_token\n{}",
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("margin", EACH_LINE.values(), ids=EACH_LINE)
def test_only_the_value_is_hidden_behind_a_margin(margin: Callable[[int], str], layout: str) -> None:
    text = f"before\n{layout.replace('{}', VALUE)}\nafter 12 words"
    lines = [margin(number) + line for number, line in enumerate(text.split("\n"))]
    shown = redact_text("\n".join(lines)).split("\n")
    assert [number for number, line in enumerate(lines) if line != shown[number]] == [
        number for number, line in enumerate(lines) if VALUE in line
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_text_within_a_text_of_json_is_read_line_by_line(layout: str) -> None:
    once = json.dumps({"output": f"before\n{layout.replace('{}', VALUE)}\nafter"})
    for line in (once, json.dumps({"message": once}), repr(layout.replace("{}", VALUE))):
        shown = redact_text(f"first\n{line}\nlast").split("\n")
        assert shown[0] == "first"
        assert shown[1].startswith("[redacted: ")
        assert shown[2] == "last"


@pytest.mark.parametrize(
    "text",
    [
        "web-1  | Generated password:\nweb-1  | \nweb-1  |     {}\n",
        "2026-03-02 10:11:12,345 INFO app: API token:\n2026-03-02 10:11:12,346 INFO app: {}\n",
        "Mar 02 10:11:12 host app[8]: id,api_token\nMar 02 10:11:12 host app[8]: 7,{}\n",
    ],
)
def test_a_value_behind_a_margin_is_hidden_wherever_the_stream_is_cut(text: str) -> None:
    filled = text.replace("{}", VALUE)
    for cut in range(1, len(filled)):
        assert VALUE not in "".join(StreamRedactor().feed([filled[:cut], filled[cut:]])), cut


@pytest.mark.parametrize(
    "text",
    [
        "db_password | {}",
        "2026-03-02 10:11:12,345 INFO db_password: {}",
        "db1.example.com:5432:app:svc:{}",
        " id | api_token\n----+------\n  7 | {}",
        "CREATED              TOKEN\n2026-03-02 10:11:12  {}",
        "id\tapi_token\n7\t{}",
    ],
)
def test_what_looks_like_a_margin_takes_no_name_away(text: str) -> None:
    assert VALUE not in redact_text(f"before\n{text.replace('{}', VALUE)}\nafter")
