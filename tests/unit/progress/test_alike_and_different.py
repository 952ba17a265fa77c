"""Failures and pages that look alike and are not the same, and some that are the same in other words."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.dialects import (
    MadeCall,
    Shell,
    claude_code,
    codex_exec,
    mini_swe_agent,
    nudges_in,
    openhands,
    spoken,
)
from tests.support.stretches import apply_patch, claude_edit

SHELLS: Final[list[Shell]] = [claude_code, codex_exec, mini_swe_agent, openhands]


def edited(runs: list[MadeCall]) -> list[MadeCall]:
    return [call for n, run in enumerate(runs) for call in (run, apply_patch(n, old=f"old{n}"))]


# Each has a line that all of its failures share; "{}" is what failed.
HEADED: Final = {
    "npm run build": (
        "vite v6.0.1 building for production...\n\u2717 Build failed in 3.1s\nerror during build:\n{}",
        (
            '[rollup] Could not resolve "./logo.svg" from "src/Nav.tsx"',
            "[vite:css] [postcss] Cannot find module 'postcss-import'",
            'src/worker.ts (3:2): "default" is not exported by "comlink"',
        ),
    ),
    "ansible-playbook -i inv site.yml": (
        (
            'TASK [web : it] ***\nfatal: [web1]: FAILED! => {{"changed": false, "msg": "{}"}}\n\nPLAY RECAP ****\n'
            "web1                : ok=4    changed=1    unreachable=0    failed=1    skipped=1"
        ),
        (
            "No package matching 'nginx-extra' is available",
            "'server_name' is undefined",
            "Unable to start service nginx",
        ),
    ),
    "git add app.py && git rebase --continue": (
        "Auto-merging app.py\nCONFLICT (content): Merge conflict in app.py\nerror: could not apply 9ab{}",
        ("12cd... Add a cart", "77fe... Round totals", "31bb... Send a receipt"),
    ),
    "./gradlew lintDebug | tail -6": (
        "> Task :app:lintDebug FAILED\nLint found {}, 2 warnings.\n\nBUILD FAILED in 9s",
        ("9 errors", "4 errors", "2 errors"),
    ),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", HEADED)
def test_failures_below_one_heading_are_kept_apart(command: str, shell: Shell) -> None:
    """G-357: an upgrade breaks one thing after another, and a rebase stops at one commit after another."""
    said, reasons = HEADED[command]
    assert not spoken(edited([shell(command, said.format(why), 1) for why in reasons]))
    again = nudges_in(edited([shell(command, said.format(reasons[0]), 1)] * 4))
    assert [call for call, _ in again] == [5]


def test_what_failed_on_a_host_is_quoted_and_not_how_many_did() -> None:
    """G-357."""
    said, reasons = HEADED["ansible-playbook -i inv site.yml"]
    run = openhands("ansible-playbook -i inv site.yml", said.format(reasons[1]), 2)
    assert f"error: {reasons[1]}" in nudges_in(edited([run] * 3))[0][1].render()


def test_a_target_that_bazel_refuses_is_the_same_wherever_it_stands() -> None:
    """G-357: how much was loaded and how long that took says nothing."""
    refused = (
        "INFO: Analyzed target //app:server ({0} packages loaded, 9{0} targets configured).\n"
        "ERROR: /r/lib/BUILD:1{0}:11: in cc_library rule //lib:codec: target '//base:log' is not visible\n"
        "INFO: Elapsed time: 0.{0}12s\nFAILED: Build did NOT complete successfully"
    )
    runs = [mini_swe_agent("bazel build //app:server", refused.format(n), 1) for n in range(4)]
    assert spoken(edited(runs)) == [5]
    step = "ERROR: /r/lib/BUILD:3:11: Compiling lib/enc.cc failed: (Exit 1): gcc failed\nlib/enc.cc:{0}:3: error: {1}"
    faults = ("'a' was not declared", "expected ';' before 'b'", "no match for 'operator<<'", "too few arguments")
    assert not spoken(
        edited([mini_swe_agent("bazel build //app:server", step.format(n, each), 1) for n, each in enumerate(faults)])
    )


NO_MSBUILD: Final = (
    "'msbuild' is not recognized as an internal or external command,\noperable program or batch file.",
    (
        "msbuild : The term 'msbuild' is not recognized as the name of a cmdlet, function, script file, or operable "
        "program.\nAt line:1 char:1\n+ msbuild Shop.sln\n    + FullyQualifiedErrorId : CommandNotFoundException"
    ),
    "bash: line 1: msbuild: command not found",
    "/bin/sh: 1: msbuild: not found",
    "zsh: command not found: msbuild",
)


@pytest.mark.parametrize("first", range(3))
def test_a_program_that_is_not_there_is_missing_in_every_shell(first: int) -> None:
    """G-358."""
    lines = ("cmd /c msbuild Shop.sln", "msbuild Shop.sln", "bash -c 'msbuild Shop.sln'")
    assert spoken(
        [claude_code(line, said, 1) for line, said in zip(lines, NO_MSBUILD[first : first + 3], strict=True)]
    ) == [3]
    others = [said.replace("msbuild", f"tool{n}") for n, said in enumerate(NO_MSBUILD)]
    assert not spoken([claude_code(f"tool{n} --version", said, 1) for n, said in enumerate(others)])


def page(n: int, *parts: str) -> str:
    shown = "\n".join(f"- {part} [ref=e{n + m}]" for m, part in enumerate(parts))
    return f"### Page state\n- Page URL: http://localhost:5173/\n- Page Title: Shop\n- Page Snapshot:\n{shown}"


def clicked(n: int, element: str, *parts: str) -> MadeCall:
    return "mcp__playwright__browser_click", {"element": element, "ref": f"e{n}"}, page(n, *parts)


def test_a_part_of_a_page_is_the_same_whatever_number_the_snapshot_gives_it() -> None:
    """G-359."""
    form = ('heading "Settings"', 'textbox "Name"', 'button "Save"', "alert: The name is invalid")
    assert spoken([clicked(n, "Save button", *form) for n in range(4)]) == [3]
    rows = [clicked(n, "Add to cart", 'heading "Shop"', f'button "Cart ({n})"') for n in range(6)]
    assert not spoken(rows)


def test_a_page_whose_style_is_edited_may_have_the_same_text() -> None:
    """G-360: what a style changes, only a picture shows."""
    shop = page(3, 'heading "Shop"', 'button "Cart (0)"', "list")
    seen: MadeCall = ("mcp__playwright__browser_navigate", {"url": "http://localhost:5173/"}, shop)
    shot: MadeCall = ("mcp__playwright__browser_take_screenshot", {}, "### Result\n- [Screenshot](page.png)")
    assert not spoken([each for n in range(6) for each in (claude_edit(n, "/r/Cart.css"), seen, shot)])
    broken: MadeCall = (*seen[:2], page(3, 'heading "Shop"', "alert: The list could not be loaded"))
    assert spoken([each for n in range(4) for each in (claude_edit(n, "/r/List.tsx"), broken)]) == [6]


@pytest.mark.parametrize("shell", SHELLS)
def test_tests_that_pass_may_be_run_again_and_again_to_see_one_fail(shell: Shell) -> None:
    """G-361: as a user asks who has a flaky test; the twelfth run is reported."""
    passed = [shell("pytest -q tests/test_sync.py", f"......    [100%]\n14 passed in 3.{n}s") for n in range(12)]
    failed = shell("pytest -q tests/test_sync.py", "FAILED tests/test_sync.py::test_two - assert 1 == 2\n1 failed", 1)
    assert not spoken([*passed[:9], failed])
    assert spoken(passed) == [12]
    status = claude_code("git status --short", "")
    assert spoken([each for run in passed[:3] for each in (run, status)])  # no hunt: something else stands between


# Of runners that print the value that a test got beside the one that it expects, or above it.
GOT: Final = {
    "npx vitest run": " FAIL  src/a.test.ts > cart > half\nAssertionError: expected 1.0{0} to be 1.07\n\n"
    "- 1.07\n+ 1.0{0}\n\n      Tests  1 failed | 11 passed (12)",
    "npx mocha": "  3 passing (12ms)\n  1 failing\n\n  1) raft\n       elects:\n"
    "     AssertionError: expected {0} to equal 9\n      at raft.js:88:5",
    "./raft_test": "[ RUN      ] Raft.Elects\na.cc:88: Failure\nExpected equality of these values:\n  f()\n"
    "    Which is: {0}\n  9\n[  FAILED  ] Raft.Elects (0 ms)\n\n 1 FAILED TEST",
    "swift test": '/r/T.swift:2{0}: error: -[T.T testA] : XCTAssertEqual failed: ("{0}") is not equal to ("9")\n'
    "\t Executed 24 tests, with 1 failures (0 unexpected) in 0.{0} (0.4) seconds",
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", GOT)
def test_another_wrong_value_is_the_same_failure_of_every_runner(command: str, shell: Shell) -> None:
    """G-274."""
    assert spoken(edited([shell(command, GOT[command].format(n), 1) for n in range(1, 5)])) == [5]
