"""Calls from which an agent learns nothing: reads, searches, services that fail, checks after the end.

Each entry has the calls and the one at which a careful reader has seen enough, by `benchmarks/labels/RULES.md`.
"""

from __future__ import annotations

import json

import pytest

from tests.support.dialects import (
    MadeCall,
    claude_code,
    cline,
    codex_exec,
    mini_swe_agent,
    openhands,
    swe_agent,
)
from tests.support.stretches import (
    Stretch,
    check_reported_in_time,
    claude_edit,
    str_replace,
)

NO_BLOCK = (
    "The tool execution failed with the following error:\n<error>\n"
    "The SEARCH block:\na\n...does not match anything in the file.\n</error>"
)


ALTERNATING: dict[str, Stretch] = {
    "two listings": ([mini_swe_agent("ls src", "a.py"), mini_swe_agent("ls tests", "b.py")] * 3, 4),
    "two tabs": (
        [
            ("browser_click", {"ref": "tab1"}, "Tab 1 is open: 3 items"),
            ("browser_click", {"ref": "tab2"}, "Tab 2 is open: no items"),
        ]
        * 3,
        4,
    ),
    "two files": (
        [("Read", {"file_path": "/r/a.py"}, "import b"), ("Read", {"file_path": "/r/b.py"}, "import a")] * 3,
        4,
    ),
    "two queries": (
        [("mcp__db__query", {"sql": "select * from a"}, "[]"), ("mcp__db__query", {"sql": "select * from b"}, "3 rows")]
        * 3,
        4,
    ),
    "two commands of Codex": ([codex_exec("node -v", "v18.2.0"), codex_exec("npm -v", "9.1.0")] * 3, 4),
    "two pages": (
        [("browser_navigate", {"url": "/a"}, "Page A"), ("browser_navigate", {"url": "/b"}, "Page B")] * 3,
        4,
    ),
}


def lines(first: int, last: int) -> str:
    return "\n".join(f"{n}\tvalue_{n} = compute({n})" for n in range(first, min(last, first + 60) + 1))


SAME_READ: dict[str, Stretch] = {
    "sed with shifting ranges": (
        [mini_swe_agent(f"sed -n '{100 + n},{160 + n}p' /testbed/a.py", lines(100 + n, 160 + n)) for n in range(6)],
        3,
    ),
    "other programs": (
        [
            cline(line, lines(1, 50))
            for line in (
                "head -50 a.py",
                "cat a.py | head -n 50",
                "sed -n 1,50p a.py",
                "nl -ba a.py | sed -n 1,50p",
                "awk 'NR<=50' a.py",
            )
        ],
        3,
    ),
    "view_range": (
        [
            (
                "str_replace_editor",
                {"command": "view", "path": "/r/a.py", "view_range": [10 + n, 60]},
                lines(10 + n, 60),
            )
            for n in range(5)
        ],
        3,
    ),
    "Read with offsets": (
        [
            ("Read", {"file_path": "/r/a.py", "offset": 10 + 2 * n, "limit": 50}, lines(10 + 2 * n, 60))
            for n in range(5)
        ],
        3,
    ),
    "Cursor's read_file": (
        [
            (
                "read_file",
                {
                    "target_file": "a.go",
                    "start_line_one_indexed": 1 + n,
                    "end_line_one_indexed_inclusive": 60,
                    "should_read_entire_file": False,
                },
                lines(1 + n, 60),
            )
            for n in range(5)
        ],
        3,
    ),
    "Gemini's read_file": (
        [("read_file", {"absolute_path": "/r/a.ts", "offset": n, "limit": 60}, lines(1 + n, 60 + n)) for n in range(5)],
        3,
    ),
    "the whole file": ([("read_file", {"path": "src/a.ts"}, lines(1, 50))] * 5, 3),
    "PowerShell": (
        [("powershell", {"command": f"Get-Content a.ps1 -TotalCount {50 + n}"}, lines(1, 50 + n)) for n in range(5)],
        3,
    ),
}


WORDS = ("handler", "Handler", "onRequest", "request_handler", "dispatch", "route", "entry_point", "serve")


EMPTY: dict[str, Stretch] = {
    "grep": ([mini_swe_agent(f"grep -rn '{word}' src", "", 1) for word in WORDS], 4),
    "rg by Codex": ([codex_exec(f"rg -n '{word}' src", "", 1) for word in WORDS], 4),
    "Claude Code's Grep": ([("Grep", {"pattern": word, "path": "src"}, "No matches found") for word in WORDS], 4),
    "Gemini's": (
        [
            (
                "search_file_content",
                {"pattern": word},
                f'No matches found for pattern "{word}" in the workspace directory.',
            )
            for word in WORDS
        ],
        4,
    ),
    "Cline's": ([("search_files", {"path": "src", "regex": word}, "Found 0 results.") for word in WORDS], 4),
    "Cursor's": ([("grep_search", {"query": word, "explanation": word}, "No matches found.") for word in WORDS], 4),
    "find": ([openhands(f"find . -name '*{word}*'", "") for word in WORDS], 4),
    "the web": ([("web_search", {"query": f"acme {word} api"}, json.dumps({"results": []})) for word in WORDS], 4),
    "moatless": (
        [("FindFunction", {"function_name": word}, f"No functions found with the name {word}") for word in WORDS],
        4,
    ),
}


TOOL_FAILS: dict[str, Stretch] = {
    "an MCP server": (
        [("mcp__jira__get_issue", {"id": f"P-{n}"}, "MCP error -32000: Connection closed") for n in range(5)],
        3,
    ),
    "a browser": (
        [
            (
                "browser_navigate",
                {"url": f"https://a/{n}"},
                "Error: Browser is already in use for /home/u/.cache/ms-playwright, use --isolated",
            )
            for n in range(5)
        ],
        3,
    ),
    "edits refused": (
        [
            str_replace(n, said="No replacement was performed, old_str `a` did not appear verbatim in /r/app.py.")
            for n in range(5)
        ],
        3,
    ),
    "Cline's diffs": (
        [
            (
                "replace_in_file",
                {"path": "a.ts", "diff": f"<<<<<<< SEARCH\na{n}\n=======\nb\n>>>>>>> REPLACE"},
                NO_BLOCK,
            )
            for n in range(5)
        ],
        3,
    ),
    "SQL": (
        [("execute_sql", {"query": f"select {n} from t"}, 'ERROR: relation "t" does not exist') for n in range(5)],
        3,
    ),
    "docker": (
        [
            claude_code(
                f"docker {verb}",
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                1,
            )
            for verb in ("ps", "info", "compose up -d", "run hello-world", "images")
        ],
        3,
    ),
    "apply_patch": (
        [
            (
                "apply_patch",
                {"input": f"*** Begin Patch\n*** Update File: a.py\n-x{n}\n+y\n*** End Patch"},
                "apply_patch verification failed: Failed to find expected lines in a.py",
            )
            for n in range(5)
        ],
        3,
    ),
}


DEAD: dict[str, Stretch] = {
    "a server that ended": (
        [
            claude_code(
                "sleep 5 && curl -s localhost:3000",
                "curl: (7) Failed to connect to localhost port 3000: Connection refused",
                7,
            )
        ]
        * 4,
        3,
    ),
    "BashOutput": (
        [
            (
                "BashOutput",
                {"bash_id": "bash_1"},
                f"<status>killed</status>\n\n<timestamp>2026-01-01T10:0{n}:00Z</timestamp>",
            )
            for n in range(5)
        ],
        3,
    ),
    "write_stdin": (
        [
            (
                "write_stdin",
                {"session_id": 7, "chars": ""},
                f"Wall time: {n}.0 seconds\nProcess exited with code 137\nOutput:\n",
            )
            for n in range(5)
        ],
        3,
    ),
    "a log that stands still": (
        [mini_swe_agent(f"sleep {30 + n}; tail -1 build.log", "error: linker killed by signal 9") for n in range(5)],
        3,
    ),
    "a process id": ([openhands("sleep 10; ps -p 4242", "    PID TTY          TIME CMD", 1)] * 5, 3),
    "a container": (
        [codex_exec(f"sleep {n + 5}; docker inspect -f '{{{{.State.Status}}}}' web", "exited") for n in range(5)],
        3,
    ),
    "a deployment": (
        [
            ("wait_for_deployment", {"id": "d1", "seconds": 30 + n}, '{"state": "failed", "error": "image not found"}')
            for n in range(5)
        ],
        3,
    ),
}


AFTER_DONE: dict[str, Stretch] = {
    "mini-swe-agent": (
        [
            mini_swe_agent("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
            *(mini_swe_agent(f"cat f{n}.py", f"text {n}") for n in range(5)),
        ],
        4,
    ),
    "SWE-agent": (
        [("submit", {}, "diff --git a/x b/x"), *(swe_agent(f"cat f{n}.py", f"text {n}") for n in range(5))],
        4,
    ),
    "OpenHands": (
        [("finish", {"message": "Done."}, ""), *(openhands(f"cat f{n}.py", f"text {n}") for n in range(5))],
        4,
    ),
    "Cline": (
        [("attempt_completion", {"result": "Done."}, ""), *(cline(f"cat f{n}.ts", f"text {n}") for n in range(5))],
        4,
    ),
    "the same green run": (
        [
            claude_edit(1),
            *(claude_code(f"pytest -q {flag}", "12 passed in 0.31s") for flag in ("", "-v", "-x", "--tb=short", "-q")),
        ],
        4,
    ),
}


def repeated_check(n: int) -> MadeCall:
    return mini_swe_agent(
        ("ls src", "git status --short", "cat a.py", "git diff --stat")[n % 4],
        ("a.py b.py", "M a.py", lines(1, 9), "a.py | 2 +-")[n % 4],
    )


NO_NEWS: dict[str, Stretch] = {
    "the same four looks": ([repeated_check(n) for n in range(14)], 8),
    "searches that find the same": (
        [
            mini_swe_agent(
                f"grep -rn 'handle.*{n}\\|def' src",
                "\n".join(f"src/part{(n + m) % 9}.py: def handle_{(n + m) % 9}(request)" for m in range(9)),
            )
            for n in range(13)
        ],
        8,
    ),
    "a page that stays": (
        [
            ("browser_snapshot", {"depth": n % 3}, "- heading: Sign in\n- textbox: Email address\n- button: Continue")
            for n in range(13)
        ],
        7,
    ),
    "Grep in other modes": (
        [
            (
                "Grep",
                {"pattern": "def total", "path": "src", "-C": n},
                "src/a.py:3:def total(self):\nsrc/b.py:9:def total(self, tax):",
            )
            for n in range(13)
        ],
        8,
    ),
    "SQL that shows the same rows": (
        [
            (
                "query",
                {"sql": f"select * from orders limit {n + 5}"},
                "order 1001 | paid | 42.00\norder 1002 | open | 17.50",
            )
            for n in range(13)
        ],
        8,
    ),
}


STUCK = {
    "alternating": ALTERNATING,
    "same read": SAME_READ,
    "empty": EMPTY,
    "tool fails": TOOL_FAILS,
    "dead": DEAD,
    "after done": AFTER_DONE,
    "no news": NO_NEWS,
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, stretches in STUCK.items() for name in stretches])
def test_calls_that_teach_nothing_are_reported_in_time(kind: str, name: str) -> None:
    check_reported_in_time(STUCK[kind][name])
