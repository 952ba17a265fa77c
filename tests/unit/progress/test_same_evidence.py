"""Failures that are the same but for places, options and who is asked, and those that only look the same."""

from __future__ import annotations

import pytest

from tellback.guidance.progress.failed_tests import failed_names
from tellback.guidance.progress.substance import without_places, without_volatile
from tests.support.dialects import MadeCall, claude_code, codex_exec, mini_swe_agent, spoken


def edit(n: int) -> MadeCall:
    params: dict[str, object] = {"file_path": "/r/a.ts", "old_string": f"a{n}", "new_string": f"b{n}"}
    return "Edit", params, "The file /r/a.ts has been updated successfully."


def after_edits(*runs: MadeCall) -> list[MadeCall]:
    return [call for n, run in enumerate(runs) for call in (edit(n), run)]


def searched(tool: str, words: str, said: str) -> MadeCall:
    return tool, {"query": words}, said


def linted(line: int, rule: str) -> MadeCall:
    said = f"\n/r/a.ts\n  {line}:9  error  Broken in a way  {rule}\n\n\u2716 1 problem (1 error, 0 warnings)"
    return claude_code("npx eslint src", said, 1)


NGINX = 'nginx: [emerg] unknown directive "proxy_pas" in /etc/nginx/r.conf:{}\nnginx: configuration test failed'
FAILED_ONE = "============ 1 failed, 4 passed in 0.1s ============"
IRRELEVANT = "Found 26 code sections.\n\nNone of the search results was relevant to the task."

STUCK: dict[str, list[MadeCall]] = {
    "addresses of hosts that nobody resolves": [
        codex_exec(f"curl -sS https://{host}.example/{n}", f"curl: (6) Could not resolve host: {host}.example", 6)
        for n, host in enumerate(("api.acme", "raw.acme", "www.other"))
    ],
    "a machine without a network, whichever program asks": [
        mini_swe_agent(line, "denied by the sandbox policy: network access is disabled", 1)
        for line in ("npm install", "pip download x", "git clone https://git.example/a")
    ],
    "a login that has expired, for other operations": [
        claude_code(
            f"aws {words}",
            f"An error occurred (ExpiredToken) when calling the {name} operation: The token is expired",
            254,
        )
        for words, name in (("s3 ls", "ListBuckets"), ("ec2 ls", "Describe"), ("sts whoami", "GetCallerIdentity"))
    ],
    "a line that no label names, further down each time": after_edits(
        *(mini_swe_agent("nginx -t", NGINX.format(40 + n), 1) for n in range(3))
    ),
    "one finding of a linter that moves down": after_edits(*(linted(40 + n, "no-alert") for n in range(3))),
    "a short assertion in one test": after_edits(
        *(
            mini_swe_agent(
                f"tox {option}", f"t.py:{n}: AssertionError\nFAILED t.py::test_n - assert 3 == 2\n{FAILED_ONE}", 1
            )
            for n, option in enumerate(("", "-e py311", "-e py311 -- -k n"))
        )
    ),
    "a statement that the database quotes": [
        mini_swe_agent(f'psql a -c "{query}"', f'ERROR:  relation "runs" is not there\nLINE 1: {query}\n        ^', 1)
        for query in ("select * from runs", "select count(*) from runs", "select id from runs")
    ],
    "a run that is cut off without a word": [
        mini_swe_agent(f"timeout 60 pytest {option} tests/e2e.py", "", 124) for option in ("", "-x", "-q")
    ],
    "one answer to many questions": [
        mini_swe_agent(line, "\n".join(f"RELAY_{name}=1" for name in ("HOST", "PORT", "USER", "MODE", "ZONE")))
        for line in ("bat -r 1:5 relay.env", "git show HEAD:relay.env | head -5", "less relay.env | head -5")
    ],
    "searches of other kinds that find nothing": [
        codex_exec("gh search code lease_gc"),
        searched("WebSearch", "lease gc", 'Web search results for query: "lease gc"\n\nNo links found.'),
        searched("mcp__jira__search_issues", "leaseGc", '{"issues": [], "total": 0, "startAt": 0}'),
        codex_exec("gh search code gcLease"),
        searched("mcp__wiki__search", "gc of leases", '{"results": [], "total": 0}'),
        searched("WebSearch", "collect leases", 'Web search results for query: "collect leases"\n\nNo links found.'),
    ],
    "results that are found and never relevant": [
        searched("SemanticSearch", words, IRRELEVANT)
        for words in ("lazy", "lazily", "later", "deferred", "put off", "on use")
    ],
}


@pytest.mark.parametrize("name", list(STUCK))
def test_what_stands_around_a_failure_makes_it_no_other(name: str) -> None:
    found = spoken(STUCK[name])
    assert len(found) == 1
    assert found[0] >= len(STUCK[name]) - 1


HEALTHY: dict[str, list[MadeCall]] = {
    "one test run in each of several packages": [
        codex_exec(f"cd packages/{name} && npx tsc --noEmit && echo ok", "ok") for name in ("core", "api", "ui", "cli")
    ],
    "packages of which each has more failures": [
        mini_swe_agent(
            f"cd packages/{n} && npm test", f"Tests:       {n} failed, {20 + n} passed, {20 + 2 * n} total", 1
        )
        for n in range(1, 5)
    ],
    "packages without a script": [
        mini_swe_agent(f"cd packages/{n} && npm run build", 'npm error Missing script: "build"', 1) for n in range(4)
    ],
    "another finding after each edit, one in all": after_edits(
        *(linted(40 + n, rule) for n, rule in enumerate(("no-alert", "no-eval", "no-var", "no-void")))
    ),
    "another module that is missing, named below the place": after_edits(
        *(
            claude_code(
                "npm run build", f"ERROR in ./src/index.js {n}:0-31\nModule not found: Error: Can't resolve './{n}x'", 1
            )
            for n in range(4)
        )
    ),
    "another name that is not in scope, named below the code": after_edits(
        *(
            claude_code("cabal build", f"A.hs:{n}:2: error: [GHC-88464]\n    Variable not in scope: {name}\n   |", 1)
            for n, name in enumerate(("drain", "flush", "lease", "close"))
        )
    ),
    "a last look at the work before it is pushed": [
        mini_swe_agent(line, "\n".join(f"{n} of what {of} shows" for n in "abcdef"))
        for lines in (
            ("git log main..", "git diff main..", "git show"),
            ("git log -6", "git diff HEAD~6", "git show HEAD"),
        )
        for line, of in zip(lines, ("log", "diff", "show"), strict=True)
    ],
    "buckets of which some are closed": [
        claude_code(
            f"aws s3 ls s3://b{n}",
            *(("An error occurred (AccessDenied): Access Denied", 254) if n % 2 else (f"{n} a.csv", 0)),
        )
        for n in range(8)
    ],
}


@pytest.mark.parametrize("name", list(HEALTHY))
def test_what_differs_in_what_it_says_is_no_repeat(name: str) -> None:
    assert spoken(HEALTHY[name]) == []


def test_a_folder_that_was_the_first_one_may_be_left_out() -> None:
    runs = [mini_swe_agent(f"{cd}pytest -q", "4 passed in 0.1s") for cd in ("cd /r && ", "", "cd /r && ")]
    assert spoken(runs) == [3]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1..2\nok 1 opens\nnot ok 2 - drains # time=3ms", ("drains ",)),
        ("The following tests FAILED:\n\t  1 - lease_test (Failed)", ("lease_test",)),
        ("//relay:lease_test          FAILED in 0.3s", ("//relay:lease_test",)),
    ],
)
def test_tap_ctest_and_bazel_name_their_failed_tests(text: str, names: tuple[str, ...]) -> None:
    assert failed_names(text) == names


def test_places_are_taken_out_and_counts_stay() -> None:
    assert without_places("a.py:12:3: bad\n  40 | x\nline 3, column 9: odd\nLINE 1: y") == "a.py: bad\n x\n odd\n y"
    counted = "finish: 3 of 10\n3 failed, 4 passed"
    assert without_places(counted) == counted
    assert without_volatile("_logs/2026-03-01T10_20_30_123Z-debug.log") == "_logs/~-debug.log"
