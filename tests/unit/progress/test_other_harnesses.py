"""Agents in harnesses, browsers and logs that differ from those that the detectors were tuned on."""

from __future__ import annotations

import pytest

from tellback.guidance.next_steps import MISCALLED_STEP, RAN_OUT_STEP, REFUSED_EDIT_STEP
from tellback.guidance.stuck_feedback import TEXTS
from tests.support.dialects import MadeCall, nudges_in, spoken


def graded(passed: int, *failed: str) -> MadeCall:
    return "run_tests", {}, "\n".join((f"{passed}/{passed + len(failed)} tests passed", *failed))


def rewritten(n: int) -> MadeCall:
    params: dict[str, object] = {"path": "src/lexer.py", "old": f"step {n}", "new": f"step {n + 1}"}
    return "replace_in_file", params, "replaced 1 occurrence in src/lexer.py"


LEFT = (
    "FAIL: nested_quotes: raised TypeError: 'NoneType' object is not iterable",
    "FAIL: empty_input: tokens was [''], expected []",
)


def test_a_harness_that_counts_in_its_own_words_is_understood() -> None:
    """G-230: the same failures after three edits, counted as "9/11 tests passed" by no runner that is known."""
    stuck = [each for n in range(4) for each in (rewritten(n), graded(9, *LEFT))]
    assert spoken(stuck)[0] == 6
    better = [each for n in range(8) for each in (rewritten(n), graded(3 + n, *LEFT * (8 - n)))]
    assert not spoken(better)


def linted(n: int, finding: str) -> MadeCall:
    refused = "Your proposed edit has introduced new syntax error(s). Please read this error message carefully.\n\n"
    return (
        "edit",
        {"start_line": n, "replacement": f"x{n}"},
        f"{refused}ERRORS:\n- {finding}\n\nThis is how it looks",
    )


def test_an_editor_that_refuses_for_another_reason_each_time_is_not_the_same_failure() -> None:
    """G-323: it is SWE-agent's, which checks the syntax first; three in a row say that edits do not work out."""

    def taken(n: int) -> MadeCall:
        return "edit", {"start_line": n, "replacement": f"y{n}"}, "File updated. Please review the changes."

    faults = ("F821 undefined name 'tf'", "E999 SyntaxError: unmatched ')'", "E999 IndentationError: unexpected indent")
    assert not spoken([each for n, fault in enumerate(faults) for each in (linted(n, fault), taken(n))])
    block = "edit {}:9\nx = {}\nend_of_edit"
    typed: list[MadeCall] = [("bash", {"command": block.format(n, n)}, linted(n, faults[n])[2]) for n in range(3)]
    assert [(call, said.summary) for call, said in nudges_in(typed)] == [
        (3, "edit has failed 3 times in a row since call 1.")
    ]
    assert spoken([linted(n, faults[2]) for n in range(4)]) == [3]


@pytest.mark.parametrize(
    "found",
    [
        '<workspace_result workspace_path="/r">\nNo matches found\n</workspace_result>',
        "<system>No matches found.</system>",
    ],
)
def test_searches_in_vain_are_known_inside_a_tag(found: str) -> None:
    """G-324: the forms of Cursor and Kimi."""
    words = ("getUser", "fetchAccount", "loadPerson", "findMember", "readProfile", "userOf", "memberBy")
    assert spoken([("Grep", {"pattern": word}, found) for word in words]) == [6]


CRASHED = 'heading "Something went wrong"\n text "TypeError: failed to fetch /src/pages/Reports.tsx"\n button "Retry"'
FINE = 'heading "Reports"\n button "Export"\n link "Help"'


def viewed(text: str, tab: int = 1) -> MadeCall:
    return "mcp__browser__read_page", {"tabId": tab, "filter": ""}, text


def scripted(code: str) -> MadeCall:
    return "mcp__browser__javascript_tool", {"text": code, "tabId": 1}, "undefined"


def opened(tab: int) -> MadeCall:
    return "mcp__browser__navigate", {"url": "http://localhost:3000", "tabId": tab}, f"Navigated in tab {tab}"


def test_a_page_that_shows_the_same_fault_after_each_attempt_is_reported() -> None:
    """G-231: whatever is tried with it, in whichever tab."""
    calls = [opened(1), viewed(CRASHED), scripted("location.reload()"), viewed(CRASHED), opened(2), viewed(CRASHED, 2)]
    assert spoken(calls) == [6]


@pytest.mark.parametrize("page", [CRASHED.replace("Reports", "{}"), FINE])
def test_pages_that_differ_and_pages_without_a_fault_are_not(page: str) -> None:
    """G-231."""
    pages = [page.format(name) for name in ("Reports", "Users", "Billing", "Audit")]
    assert not spoken([each for tab, text in enumerate(pages) for each in (opened(tab), viewed(text, tab))])


def test_an_answer_that_there_is_a_problem_with_the_tool_is_a_failure() -> None:
    """G-233: it says nothing of what was asked, also in the words of a search."""
    trouble = "There's an issue with the selected search model (quick-2). It may not exist."
    asked = ("gauge widget constructor", "gauge widget colour", "GaugeWidget site:forum.example")
    calls: list[MadeCall] = [("WebSearch", {"query": words}, trouble) for words in asked]
    fetched: MadeCall = ("WebFetch", {"url": "https://widgets.example/gauge"}, "Gauge: a widget with a needle.")
    assert spoken([*calls[:2], fetched, calls[2]]) == [4]


OPENCODE = (
    "Listening\n\n<shell_metadata>\nshell tool terminated command after exceeding timeout {}000 ms.\n</shell_metadata>"
)
CLAUDE_CODE = "Command timed out after {}.0s\nListening"


def ran(command: str, said: str) -> MadeCall:
    return "bash", {"command": command, "timeout": 15_000}, said


@pytest.mark.parametrize("said", [OPENCODE, CLAUDE_CODE])
def test_the_third_command_that_runs_out_of_time_is_reported(said: str) -> None:
    """G-235: whatever it is, though nothing was changed; the step is another way to start it."""
    starts = ("npm run preview", "npx serve dist -l 4100", "python3 -m http.server 4200")
    calls = [ran(f"{start} & curl localhost", said.format(n + 7)) for n, start in enumerate(starts)]
    listing = ran("ls dist", "index.html\nassets")
    assert [(at, each.suggestions) for at, each in nudges_in([*calls[:2], listing, calls[2]])] == [(4, (RAN_OUT_STEP,))]
    others = [ran(f"node scripts/step_{n}.mjs", f"step {n} of 9 went through") for n in range(9)]
    assert not spoken([*calls[:2], *others, calls[2]])


SHOP = "src/shop/cart.rs"
MISMATCH = "ERROR [{}:9] expected `Money`, found `f64`\nconsider using `Money::from`"
CHECKED = "Edit applied successfully.\n\nLSP errors detected in "
OPENCODE_EDIT = CHECKED + 'this file, please fix:\n<diagnostics file="{}">\n{}\n</diagnostics>'
CRUSH_EDIT = "\nThis file has errors, please fix\n<file_diagnostics>\n{1}\n</file_diagnostics>\n"


def changed(old: str, new: str, said: str = "Edit applied successfully.") -> MadeCall:
    return "edit", {"filePath": SHOP, "oldString": old, "newString": new}, said


@pytest.mark.parametrize("form", [OPENCODE_EDIT, CRUSH_EDIT])
def test_a_text_that_is_written_over_and_over_while_the_editor_finds_the_same_is_reported(form: str) -> None:
    """G-236: wherever it stands by then; edits elsewhere in the file, and other findings, do not count."""
    texts = ("total: f64", "total: Money", "total: impl Into<Money>", "total: Option<Money>", "total: &Money")
    found = [form.format(SHOP, MISMATCH.format(40 + n)) for n in range(5)]
    over = [changed(texts[n], texts[n + 1], found[n]) for n in range(4)]
    assert spoken(over) == [3]
    elsewhere = [changed(f"fn part_{n}()", f"fn piece_{n}()", found[n]) for n in range(4)]
    assert not spoken(elsewhere)
    different = [changed(texts[n], texts[n + 1], found[n].replace("f64", f"f{n}")) for n in range(4)]
    assert not spoken(different)
    others = CHECKED + 'other files:\n<diagnostics file="a.rs">\nERROR [1:1] `x` is unknown\n</diagnostics>'
    assert not spoken([changed(texts[n], texts[n + 1], others) for n in range(4)])


BUILD = "cd web && npm run build 2>&1 | tail -12"
HEADED = "Failed to compile.\n\n./app/{0}.tsx:{1}:7\nType error: {2}\n\nELIFECYCLE  Command failed with exit code 1."


def test_builds_that_fail_to_compile_differ_by_the_message_below() -> None:
    """G-237: the first line is the same of any failure, as Next.js prints it."""
    faults = ("Cannot find name 'Crumb'.", "Property 'slug' does not exist on type 'Page'.", "Expected 2 arguments.")
    each = [HEADED.format(f"part{n}", 20 + n, fault) for n, fault in enumerate(faults)]
    gets_on = [call for said in each for call in (rewritten(len(said)), ran(BUILD, said))]
    assert not spoken(gets_on)
    same = [HEADED.format("page", 40 + n, faults[1]) for n in range(3)]
    assert spoken([call for n, said in enumerate(same) for call in (rewritten(n), ran(BUILD, said))]) == [6]


LOADED = "[10:02:11] loading the index\n[10:02:14] index: 4 shards\n[10:02:15] loading the model\n[10:02:15] warming up"


def test_to_wait_for_what_a_run_prints_is_not_to_learn_nothing() -> None:
    """G-238: the run has shown it; the third of the same waits has not."""
    started = ran("python serve.py --detach", LOADED)
    waits = [ran("sleep 30; cat serve.txt", LOADED), ran("sleep 30; pgrep -f serve; cat serve.txt", LOADED)]
    assert not spoken([started, *waits])
    again = [each for n in range(3) for each in (waits[0], ran(f"cat part_{n}.py", f"PART = {n}"))]
    assert spoken([started, *again]) == [6]


NO_PATH = "Error: EISDIR: illegal operation on a directory, open '/srv/shop'"


@pytest.mark.parametrize(
    ("call", "step"),
    [
        (("write", {"content": "# Notes", "filePath": ""}, NO_PATH), MISCALLED_STEP),
        (
            ("edit", {"path": "a"}, 'Error: The edit tool was called with invalid arguments: Missing key at ["old"].'),
            MISCALLED_STEP,
        ),
        (ran("node build.mjs", f"{NO_PATH}\n    at Object.openSync (node:fs:561:18)"), TEXTS["same_failure"][1]),
    ],
)
def test_a_tool_that_is_called_wrongly_has_a_step_of_its_own(call: MadeCall, step: str) -> None:
    """G-239: no code raises it, unless a program that a shell ran says so."""
    calls = [each for n in range(3) for each in (rewritten(n), call)]
    assert nudges_in(calls)[0][1].suggestions == (step,)


def test_of_a_block_that_aider_could_not_place_no_marker_is_quoted() -> None:
    """G-385: "<<<<<<< SEARCH" was the error, and the step to find out what raises it."""
    said = (
        "# 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch: This SEARCH block failed to "
        "exactly match lines in a.py\n<<<<<<< SEARCH\n{0}\n=======\nb\n>>>>>>> REPLACE"
    )
    calls: list[MadeCall] = [
        ("apply_edit", {"path": "a.py", "search": f"a{n}"}, said.format(f"a{n}")) for n in range(3)
    ]
    ((_, feedback),) = nudges_in(calls)
    assert feedback.observations[0].value == "# 1 SEARCH/REPLACE block failed to match!"
    assert feedback.suggestions == (REFUSED_EDIT_STEP,)
