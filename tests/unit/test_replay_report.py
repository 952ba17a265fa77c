"""Reports of the guidance that a file would have got: what they say, leave out, and do not let through."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from tellback import FeedbackProviderConfig, FeedbackTrigger, StaticFeedback, recommended_providers
from tellback.cli.app import app
from tellback.errors import TellbackError
from tellback.replay import analysis as digests
from tellback.replay.accounts import GuidanceAnalyzer
from tellback.replay.analysis import AnalysisDigest, analyze_file
from tellback.replay.html_report import render_html
from tellback.replay.markdown_report import render_markdown
from tests.support.examples import examples

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> | **bold** [x](javascript:alert(3)) \x00\u202e"


def turn(tool: str, result: str, **arguments: object) -> list[dict[str, Any]]:
    call = {"id": "c", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    return [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "name": tool, "content": result},
    ]


def talk(*turns: list[dict[str, Any]], **fields: object) -> dict[str, object]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Where is my bag?"}]
    return {
        **fields,
        "messages": [*messages, *(m for each in turns for m in each), {"role": "assistant", "content": "x"}],
    }


def failing(times: int, **fields: object) -> dict[str, object]:
    return talk(*(turn("book", f"Error: seat {n} is taken", seat=n) for n in range(times)), **fields)


def file_of(*values: object) -> io.BytesIO:
    return io.BytesIO(b"".join(json.dumps(value).encode() + b"\n" for value in values))


def digest_of(*values: object, **how: Any) -> AnalysisDigest:
    return analyze_file(file_of(*values), source="talks.jsonl", **how)


def test_nudges_stand_at_the_call_that_earned_them() -> None:
    card = digest_of(failing(4, task_id=7, reward=0.0)).cards[0]
    reported = [(line.index, line.position, nudge.provider) for line in card.lines for nudge in line.nudges]
    assert reported == [(3, 6, "StuckFeedback")]
    assert (card.label, card.group, card.calls, card.errors, card.nudges, card.first_nudge) == (
        *("7", "not solved", 4, 4, 1, 3),
    )  # fmt: skip
    assert [line.kind for line in card.lines] == ["user", "call", "call", "call", "call", "agent"]
    assert [line.position for line in card.lines] == [0, 2, 4, 6, 8, 9]


def test_each_call_has_its_observation_and_next_steps() -> None:
    line = digest_of(failing(1)).cards[0].lines[1]
    assert line.headline == "✗ book failed"
    assert "Error: seat 0 is taken" in line.text
    assert line.steps == ("Check your arguments: seat 0", "Try a different approach")


def test_figures_are_of_all_conversations_by_outcome() -> None:
    digest = digest_of(
        failing(3, reward=0.0), failing(1, reward=1.0), talk(turn("look", "fine")), failing(3, reward=0.5)
    )
    counted = {name: (f.conversations, f.calls, f.errors, f.nudges) for name, f in digest.groups.items()}
    assert counted == {"solved": (1, 1, 1, 0), "not solved": (2, 6, 6, 2), "unknown": (1, 1, 0, 0)}
    assert (digest.totals.conversations, digest.totals.nudged) == (4, 2)


def test_what_is_not_shown_is_counted_and_said() -> None:
    digest = digest_of(*(failing(n) for n in (0, 4, 1, 2, 3)), top=2)
    assert [(card.line, card.nudges) for card in digest.cards] == [(2, 1), (5, 1)]
    assert digest.left_out == 3
    for text in ("".join(render_markdown(digest)), "".join(render_html(digest))):
        assert "3 others are counted above and left out here" in text


def test_a_long_conversation_and_a_long_text_are_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "ENTRIES_MAX", 4)
    card = digest_of(talk(*(turn("look", "y" * 50_000, n=n) for n in range(9)))).cards[0]
    assert (len(card.lines), card.left_out, card.calls) == (4, 7, 9)
    assert max(len(line.text) for line in card.lines) < 2 * digests.TEXT_MAX
    assert "characters left out" in card.lines[1].text
    digest = digest_of(talk(*(turn("look", "y", n=n) for n in range(9))))
    assert "7 further messages and calls are left out" in "".join(render_markdown(digest))


def test_forms_of_errors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "SHAPES_MAX", 2)
    names = ("one", "two", "three", "four")
    digest = digest_of(talk(*(turn("t", f"Error: {name} went wrong", n=n) for n, name in enumerate(names))))
    assert [(named.example, named.count) for named in digest.errors.values()] == [
        *(("Error: one went wrong", 1), ("Error: two went wrong", 1)),
    ]  # fmt: skip
    assert digest.errors_beyond == 2
    assert "2 errors of further forms are left out" in "".join(render_html(digest))


def test_errors_that_differ_in_numbers_alone_are_one_form() -> None:
    digest = digest_of(failing(5))
    assert [named.count for named in digest.errors.values()] == [5]


def test_a_tool_that_never_existed_is_proposed_to_nobody() -> None:
    wrong = talk(turn("lookup_bag", "Unknown action lookup_bag", q="bag"), turn("look_bag", "[]", q="bag"))
    digest = digest_of(talk(turn("find_bag", "[]", query="bag")), wrong, talk(turn("find_bag", "blue", query="x")))
    assert digest.tools == ["find_bag", "look_bag"]
    steps = [step for card in digest.cards for line in card.lines for step in line.steps]
    assert any("find_bag" in step for step in steps)
    assert not any("lookup_bag(" in step for step in steps)


def test_tools_of_one_domain_are_not_proposed_in_another() -> None:
    first = talk(turn("search_flights", "[]", query="x"), domain="air")
    second = talk(turn("search_shoes", "[]", query="x"), domain="shop")
    lines = [line for card in digest_of(first, second).cards for line in card.lines]
    steps = {line.tool: " ".join(line.steps) for line in lines if line.kind == "call"}
    assert "search_shoes" not in steps["search_flights"]
    assert "search_flights" not in steps["search_shoes"]


def test_declared_tools_count_with_their_schemas() -> None:
    schema = {"type": "object", "properties": {"seat": {"type": "integer"}}, "required": ["seat"]}
    declared = [{"type": "function", "function": {"name": "book", "parameters": schema}}, {"no": "name"}, 3]
    line = digest_of(talk(turn("book", "Error: invalid arguments", seat="3"), tools=declared)).cards[0].lines[1]
    assert any("book(seat: 3)" in step for step in line.steps), line.steps


def test_the_providers_may_be_others() -> None:
    always = FeedbackProviderConfig(StaticFeedback("Breathe."), FeedbackTrigger(every_n_calls=3))
    digest = analyze_file(file_of(failing(7)), analyzer=GuidanceAnalyzer([always]))
    assert [nudge.summary for line in digest.cards[0].lines for nudge in line.nudges] == ["Breathe."] * 2


def test_a_provider_that_fails_ends_the_analysis_with_its_name() -> None:
    class RaisingProvider:
        name = "RaisingProvider"

        def should_run(self, *, context: object) -> bool:
            raise AssertionError(context)

        def provide(self, *, context: object) -> Any:
            raise AssertionError(context)

    config = FeedbackProviderConfig(RaisingProvider(), FeedbackTrigger(every_n_calls=1))
    with pytest.raises(TellbackError, match="no provider RaisingProvider"):
        analyze_file(file_of(failing(1)), analyzer=GuidanceAnalyzer([config]))


def test_recommended_providers_are_made_again_each_time() -> None:
    first, second = recommended_providers(), recommended_providers()
    assert first == second
    assert first is not second
    names = [config.provider.name for config in first]
    assert names == ["StuckFeedback"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("Error: no"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
CALLS = st.lists(
    st.fixed_dictionaries({"id": JSON, "function": st.fixed_dictionaries({"name": JSON, "arguments": JSON})}),
    max_size=2,
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool", "x"]), "content": JSON})
    | st.fixed_dictionaries({"role": st.just("assistant"), "tool_calls": CALLS})
    | st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": JSON, "name": JSON, "content": JSON}),
    min_size=1,
    max_size=6,
)
TALKS = st.fixed_dictionaries({"messages": MESSAGES, "reward": JSON, "domain": JSON, "tools": JSON | st.lists(JSON)})


@given(st.lists(TALKS, max_size=3))
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
def test_no_transcript_however_odd_ends_the_analysis(talks: list[dict[str, object]]) -> None:
    digest = digest_of(*talks)
    assert digest.totals.conversations == len(talks)
    parsed = Parsed("".join(render_html(digest)))
    assert parsed.open == []
    assert parsed.tags.count("script") == 1
    assert "".join(render_markdown(digest))


@pytest.mark.parametrize("name", ["t" * 300, " ", "\ud800", "a|b`<c>", ""])
def test_a_tool_with_a_name_that_no_host_could_declare_is_analysed(name: str) -> None:
    digest = digest_of(talk(turn(name, "Error: no"), turn(name, "fine"), turn("look", "[]", query="x")))
    assert digest.totals.errors == 1
    assert digest.totals.calls == 3


def test_no_secret_of_a_transcript_stands_in_a_report() -> None:
    """The secret stands in messages of people and agents, arguments, results and errors, and nudges that quote them."""
    secret = "ghp_" + "pLIix6MEOLeMa61EqJomTEI1JEzO3joOj37H"
    turns = [turn("book", f"Error: {secret} is not accepted", token=secret, note=f"with {secret}") for _ in range(4)]
    reported = talk(*turns, turn("look", f'{{"key": "{secret}"}}', query="x"))
    reported["messages"] += [{"role": role, "content": f"my key is {secret}"} for role in ("user", "assistant")]  # type: ignore[operator]  # a list
    digest = digest_of(reported)
    assert digest.totals.nudges
    for report in ("".join(render_markdown(digest)), "".join(render_html(digest))):
        assert "redacted: github-token" in report
        assert secret.lower() not in report.lower()


@pytest.mark.parametrize("place", [970, 980, 990])
def test_a_secret_is_redacted_before_an_error_is_truncated(place: int) -> None:
    """The first 1,000 characters were taken first, and a part of a secret matches no rule. Requirement G-271."""
    secret = "ghp_" + "pLIix6MEOLeMa61EqJomTEI1JEzO3joOj37H"
    error = "Error: ".ljust(place, "z") + f" {secret} is not accepted"
    digest = digest_of(talk(turn("book", error)))
    for report in ("".join(render_markdown(digest)), "".join(render_html(digest)), repr(digest.errors.values())):
        assert secret[:6].lower() not in report.lower()


class Parsed(HTMLParser):
    """The elements of a page, whether they are closed, and all that could act."""

    EMPTY = frozenset({"meta", "input", "rect", "circle", "path", "line", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "action", "srcset", "data"):
                self.links.append(value or "")
            if name.startswith("on") or name == "style":
                self.handlers.append(name)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag


def hostile() -> dict[str, object]:
    first = [{"role": "user", "content": EVIL}, *turn(EVIL, f"Error: {EVIL}", **{EVIL: EVIL}), *turn(EVIL, EVIL)]
    again = [*turn("book", EVIL, q=EVIL)] * 4
    return {"task_id": EVIL[:60], "messages": [*first, *again, {"role": "assistant", "content": EVIL}], "domain": EVIL}


def test_a_page_lets_nothing_through_and_needs_nothing_beside_it() -> None:
    page = "".join(render_html(analyze_file(file_of(hostile(), failing(3)), source=EVIL)))
    parsed = Parsed(page)
    assert parsed.open == []
    assert parsed.tags.count("script") == parsed.tags.count("style") == 1
    assert not {"img", "iframe", "link", "object", "embed", "base"} & set(parsed.tags)
    assert parsed.handlers == []
    assert all(link.startswith("#") for link in parsed.links)
    assert {link[1:] for link in parsed.links} <= set(parsed.ids)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert "\x00" not in page
    assert "\u202e" not in page
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")


def test_markdown_lets_no_markup_through() -> None:
    text = "".join(render_markdown(analyze_file(file_of(hostile(), failing(3)), source=EVIL)))
    assert "<script" not in text
    assert "<img" not in text
    assert not re.search(r"(?<!\\)\]\(", text)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    plain = [row.replace("\\|", "") for row in rows]
    assert {row.count("|") for row in plain} <= {3, 5, 6, 8}, "a cell of theirs ended"


def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["replay", *arguments], input=stdin)


@pytest.fixture
def talks(tmp_path: Path) -> str:
    path = tmp_path / "talks.jsonl"
    path.write_bytes(file_of(failing(4, task_id=1, reward=0), talk(turn("look", "fine"), reward=1)).read() + b"{torn")
    return str(path)


def test_reports_are_written_without_any_redis(talks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELLBACK_REDIS_URL", "redis://127.0.0.1:1/0")
    page, text = tmp_path / "r.html", tmp_path / "r.md"
    done = invoke(talks, "--report", str(page), "--report", str(text), "--json")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert reported["all"]["nudges"] == 1
    assert [nudge["call"] for nudge in reported["conversations"][0]["nudges"]] == [3]
    assert [bad["line"] for bad in reported["bad_lines"]] == [3]
    assert f"{talks}, line 3: not JSON" in done.stderr
    assert page.read_text().startswith("<!doctype html>")
    assert text.read_text().startswith("# Guidance for talks.jsonl")
    assert "line 3: not JSON" in text.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "r.md", "talks.jsonl"]


def test_figures_alone_are_printed_from_a_pipe(talks: str) -> None:
    done = invoke("-", "--offline", stdin=Path(talks).read_bytes())
    assert done.exit_code == 0, done.output
    assert "Guidance that would have been delivered" in done.stdout
    assert "not solved" in done.stdout


@pytest.mark.parametrize(
    ("report", "why"),
    [("r.pdf", "use a file name ending in .html or .md"), ("absent/r.md", "does not exist")],
)
def test_a_report_that_cannot_be_written_is_refused_first(talks: str, tmp_path: Path, report: str, why: str) -> None:
    done = invoke(talks, "--report", str(tmp_path / report))
    assert done.exit_code == 2
    assert why in done.stderr
    assert done.stdout == ""


def test_an_old_report_stays_where_the_new_one_cannot_be_written(talks: str, tmp_path: Path) -> None:
    (tmp_path / "r.md").mkdir()
    done = invoke(talks, "--report", str(tmp_path / "r.md"))
    assert done.exit_code == 2
    assert "can't write" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.md", "talks.jsonl"]


def test_a_report_whose_name_is_too_long_is_refused(talks: str, tmp_path: Path) -> None:
    """Its draft can't be removed either, as on a read-only file system. Requirement A-392."""
    done = invoke(talks, "--report", str(tmp_path / f"{'r' * 250}.md"))
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("tellback: can't write")
    assert done.stderr.endswith(".md: File name too long\n")


def test_a_file_without_conversations_writes_no_report(tmp_path: Path) -> None:
    done = invoke("-", "--report", str(tmp_path / "r.md"), stdin=b"[]\n")
    assert done.exit_code == 2
    assert "tellback: standard input contains no conversation\n" in done.stderr
    assert list(tmp_path.iterdir()) == []
