"""Failures that real programs report without an exit code, or behind a pipe that hides it."""

from __future__ import annotations

import json

import pytest

from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.commands import without_echoes
from tellback.guidance.observations.evidence import Finding, verdict_of
from tellback.guidance.observations.evidence_builder import build_evidence
from tellback.guidance.shell import simple_commands
from tests.support.dialects import SHELLS, Shell, antigravity, swe_agent


def judged(command: str, text: str) -> Finding:
    return classify(build_evidence("Bash", {"command": command}, text, None), {})


def verdict(command: str, text: str) -> str:
    return verdict_of(judged(command, text).code)


def record(stdout: str, stderr: str = "") -> str:
    return json.dumps({"stdout": stdout, "stderr": stderr, "interrupted": False, "isImage": False})


@pytest.mark.parametrize(
    ("command", "stdout", "name"),
    [
        ("pytest -q 2>&1 | tail -3", "FAILED test_a.py::test_add\n1 failed, 1 passed in 0.1s", "1 failed"),
        ("mypy . | tail -1", "Found 2 errors in 1 file (checked 1 source file)", "Found 2 errors"),
        ("frobnicate; echo done", "bash: line 1: frobnicate: command not found\ndone", "command not found"),
        ("flake8 --exit-zero a.py", "a.py:1:1: F401 'os' imported but unused", "F401"),
    ],
)
def test_a_failure_that_a_pipe_hid_is_named_in_the_record_of_claude_code(command: str, stdout: str, name: str) -> None:
    """Requirement G-224."""
    found = judged(command, record(stdout))
    assert (verdict_of(found.code), name in found.message) == ("failure", True)


@pytest.mark.parametrize(
    ("command", "stdout"),
    [
        ("cat app.log", "Traceback (most recent call last):\n  File 'a.py', line 1\nKeyError: 1\nERROR gave up"),
        ("python retry.py", "Error: the first try\nsent on the second"),
        ("pytest -q", "2 passed, 1 xfailed in 0.1s"),
    ],
)
def test_a_record_of_claude_code_without_a_failure_is_a_success(command: str, stdout: str) -> None:
    """Requirement G-224."""
    assert verdict(command, record(stdout)) == "success"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("bundle install", "Don't run Bundler as root.\nCould not locate Gemfile"),
        ("hg update gone", "abort: unknown revision 'gone'"),
        ("alembic upgrade head", "FAILED: No 'script_location' key found in configuration"),
        ("dpkg -s widget", "dpkg-query: package 'widget' is not installed and no information is available"),
        ("docker run --frob x", "unknown flag: --frob\n\nUsage:  docker run [OPTIONS] IMAGE"),
        ("su www -c 'cat /etc/shadow'", "cat: /etc/shadow: Permission denied"),
    ],
)
def test_a_sentence_in_which_a_program_says_that_it_could_not_is_a_failure(command: str, text: str) -> None:
    """Requirement G-225."""
    assert verdict(command, text) == "failure"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("curl -s localhost:8000/log.txt", "ERROR worker failed: could not connect\nINFO 404 pages served"),
        ("npm install", "npm warn deprecated inflight@1.0.6: This module is not supported\n\nadded 3 packages in 1s"),
        ("psql -f schema.sql", 'NOTICE:  table "errors" does not exist, skipping\nDROP TABLE'),
        ("git log --oneline -2", "a1b2c3d Say what could not be read\nb2c3d4e Fail if there is no such file"),
        ("yamllint a.yml", 'a.yml\n  1:1       warning  missing document start "---"  (document-start)'),
        ("git commit -am x", "[main a1b2c3d] Say what cannot be read\n 1 file changed, 1 insertion(+)"),
        ("cargo search widget", 'widget = "1.0.0"    # For what could not be found'),
        ("pandoc a.md", "Error: this is what a page is about\nand more of it"),
        ("which widget; pip --version", "widget not found\npip 23.2.1 (python 3.11)"),
        ("echo 'error: none today'; true", "error: none today"),
        ("./app", "error: none, 0 failed"),
    ],
)
def test_what_a_page_a_table_a_history_or_an_echo_says_is_no_failure(command: str, text: str) -> None:
    """Requirement G-225."""
    assert verdict(command, text) == "success"


@pytest.mark.parametrize(
    ("command", "text", "name"),
    [
        (
            "gradle hello",
            "FAILURE: Build failed.\n\n* Where:\nFile 'a' line: 1\n\n* What went wrong:\nTask gone",
            "Task gone",
        ),
        (
            "eslint src",
            'Oops! Something went wrong! :(\n\nESLint: 10.1.0\n\nNo files matching "src" found.',
            "No files",
        ),
        (
            "black --check a.py",
            "would reformat a.py\n\nOh no! 💥 💔 💥\n1 file would be reformatted.",
            "1 file would be",
        ),
        ("shellcheck a.sh", "In a.sh line 2:\nrm $1\n   ^-- SC2086 (info): Double quote this.", "SC2086 (info)"),
        (
            "curl --frob x",
            "curl: option --frob: is unknown\ncurl: try 'curl --help' for more information",
            "curl: option",
        ),
        (
            "Rscript a.R",
            "Error in library(widget) : there is no package called 'widget'\nExecution halted",
            "Error in library(widget) : there is no package",
        ),
    ],
)
def test_a_failure_is_named_by_what_went_wrong_and_not_that_something_did(command: str, text: str, name: str) -> None:
    """Requirement G-226."""
    assert judged(command, text).message.startswith(name)


def test_an_echo_of_the_exit_code_shows_that_of_the_command_before_it() -> None:
    """Requirement G-227."""
    assert verdict("diff -u a b; echo rc=$?", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\nrc=1") == "success"
    assert verdict("diff -u a b; echo rc=$?", "diff: a: No such file or directory\nrc=2") == "failure"
    assert verdict("./build.sh; echo rc=$?", "building\nrc=1") == "failure"


def test_jq_may_be_asked_for_a_truth() -> None:
    """Requirement G-227."""
    text = "<returncode>1</returncode>\n<output>\nfalse\n</output>"
    assert verdict("jq -e .ok a.json", text) == "success"
    assert verdict("jq .ok a.json", text) == "failure"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("git stash pop", "Auto-merging a.txt\nCONFLICT (content): Merge conflict in a.txt\nThe stash entry is kept"),
        ("git branch -d topic", "error: The branch 'topic' is not fully merged.\nIf you are sure, run 'git branch -D'"),
        (
            "git show nothere",
            "fatal: ambiguous argument 'nothere': unknown revision.\nUse '--' to separate paths\nlike this",
        ),
    ],
)
def test_a_verb_of_git_that_may_only_show_is_read_for_failures_where_it_changes_something(
    command: str, text: str
) -> None:
    """Requirement G-228."""
    assert verdict(command, text) == "failure"
    assert verdict("git stash show -p", f"diff --git a/a b/a\n+{text}") == "success"


@pytest.mark.parametrize("sh", SHELLS)
def test_the_exit_code_is_known_wherever_a_program_puts_it(sh: Shell) -> None:
    """Requirement G-320: what was printed alone says nothing here."""
    tool, params, text = sh("./build.sh", "building\nready", 3)
    reports_code = sh not in (swe_agent, antigravity)  # which have none
    found = classify(build_evidence(tool, params, text, None), {})
    assert verdict_of(found.code) == ("failure" if reports_code else "success")
    tool, params, text = sh("./build.sh", "building\nready", 0)
    assert verdict_of(classify(build_evidence(tool, params, text, None), {}).code) == "success"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("borg list /srv/backup", "Repository /srv/backup does not exist."),
        ("ip link show eth9", 'Device "eth9" does not exist.'),
        ("ruby import.rb", "ruby: No such file or directory -- import.rb (LoadError)"),
    ],
)
def test_one_line_that_an_argument_of_the_command_is_absent_is_a_failure(command: str, text: str) -> None:
    """Requirement G-394: the verb may be one of listings, and the program any."""
    assert judged(command, text).message == text
    assert (
        judged(f"{command} 2>&1 | tail -5", f"<returncode>0</returncode>\n<output>\n{text}\n</output>").message == text
    )


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("ruby exists.rb invoice-7", "invoice-7 does not exist"),
        ("npm search leftpad-x", "leftpad-x not found"),
        ("docker logs web", "web: route not found"),
        ("borg list /srv/backup", "monday-does-not-exist    Mon, 2026-11-30 02:00:00"),
        ("etcdctl get greeting", "greeting not found"),
        ("dropdb --if-exists shop", 'NOTICE:  database "shop" does not exist, skipping'),
        ("bats checks/ | tail -1", "ok 3 says that config does not exist"),
        ("mycli switch topic", "topic does not exist, creating it"),
    ],
)
def test_an_answer_a_search_and_a_log_may_name_an_argument_too(command: str, text: str) -> None:
    """Requirement G-394."""
    assert verdict(command, text) == "success"


def test_an_exit_of_0_that_nothing_hides_is_the_word_of_a_command_that_reads() -> None:
    """Requirement G-395: the last subject of a history may be "fatal: ..."."""
    said = "fatal: handle a full disk"
    assert verdict("git log -1 --format=%s", f"<returncode>0</returncode>\n<output>\n{said}\n</output>") == "success"
    piped = f"<returncode>0</returncode>\n<output>\n{said}\n</output>"
    assert verdict("git log -1 nope | head -1", piped) == "failure"


LOG_WITH_TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/srv/shop/cart.py", line 3, in total\n'
    "    return prices[name]\n"
    "KeyError: 'price'"
)


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c \"print(open('app.log').read())\"",
        "python3 -c \"print(open('app.log').read())\" | tail -40",
        "python3 - <<'E'\nprint(open('app.log').read())\nE",
        "perl -ne 'print if /Error|File/ .. /^$/' app.log",
        "xsv select message app.csv",
        "qsv select message app.csv | head -20",
    ],
)
def test_a_traceback_that_a_filter_or_inline_code_shows_is_none_of_its_own(command: str) -> None:
    """Requirement G-396."""
    assert verdict(command, LOG_WITH_TRACEBACK) == "success"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            "python3 -c 'import cart; cart.total()'",
            LOG_WITH_TRACEBACK.replace("last):\n", 'last):\n  File "<string>", line 1, in <module>\n'),
        ),
        ("python3 cart.py", LOG_WITH_TRACEBACK),
        (
            "python3 - <<'E' | tail -40\nimport cart\nE",
            LOG_WITH_TRACEBACK.replace("last):\n", 'last):\n  File "<stdin>", line 1, in <module>\n'),
        ),
        ("python3 -c 'import cart' && python3 cart.py", LOG_WITH_TRACEBACK),
        ("perl -ne 'print if /x' app.log", "Search pattern not terminated at -e line 1."),
        ("perl -pe 's/a/b/' none.log", "Can't open none.log: No such file or directory."),
        (
            "perl -MNo::Such -ne 'print' a",
            "Can't locate No/Such.pm in @INC (@INC contains: /etc/perl).\nBEGIN failed--compilation aborted.",
        ),
    ],
)
def test_a_traceback_of_inline_code_and_a_fault_of_a_filter_are_failures(command: str, text: str) -> None:
    """Requirement G-396: what `python -c` raises has a frame in `<string>` or `<stdin>`."""
    assert verdict(command, text) == "failure"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("jira issue create -s 'cart not found' -t Bug", "SHOP-12: cart not found"),
        ("linear issue create --title='cannot open settings'", "SHOP-77 cannot open settings"),
        ("todo.sh add fix: cart not found", "7 fix: cart not found"),
        ('zip o.zip "file not found.md"', "  adding: file not found.md (stored 0%)"),
        (
            "slackcat -m 'deploy failed: image not found' 2>&1 | tail -3",
            "posted to #ops: deploy failed: image not found",
        ),
    ],
)
def test_what_a_program_repeats_of_its_command_is_no_failure(command: str, text: str) -> None:
    """Requirement G-406."""
    assert verdict(command, text) == "success"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("task 'deploy prod'", 'task: Task "deploy prod" does not exist'),
        ("jira issue create -s 'cart not found'", "jira: command not found"),
        ("frob 'cart not found'", "error: cannot frob 'cart not found': no such cart"),
        ("ls 'no such file'", "ls: cannot access 'no such file': No such file or directory"),
        ("jira issue create -s 'command not found'", "bash: line 1: jira: command not found"),
        ("jira issue create -s 'command not found'", "zsh: command not found: jira"),
        ("frob put command not found", "frob: command not found"),
        ("curl -d 'my cart' http://shop/carts", '{"error": "bad cart", "given": "my cart"}'),
        ("curl -A 'my agent' http://shop", "<title>Just a moment...</title><p>my agent</p>"),
        ("jiractl create -s 'my cart'", '{"errors": [{"message": "my cart is a duplicate"}]}'),
    ],
)
def test_what_fails_and_repeats_its_command_is_a_failure(command: str, text: str) -> None:
    """Requirement G-406."""
    assert verdict(command, text) == "failure"


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("mysql -Ne 'select said from log limit 1'", "Access denied for user guest", "success"),
        ("mysql -Ne 'select 1'", "ERROR 1045 (28000): Access denied for user 'guest'@'localhost'", "failure"),
        ("psql -Atc 'select said from log limit 1'", "connection refused", "success"),
        ("psql -Atc 'select 1'", "psql: error: connection to server failed: Connection refused", "failure"),
        ("terraform output last_said", "connection refused", "success"),
        ("terraform output gone", 'Error: Output "gone" not found', "failure"),
        ("terraform apply", "connection refused", "failure"),
    ],
)
def test_a_value_alone_is_no_report(command: str, text: str, expected: str) -> None:
    """Requirement G-81."""
    assert verdict(command, text) == expected


def test_only_some_of_a_long_command_is_sought_in_an_output() -> None:
    """Each argument is sought in the whole output, and 2,000 took half a second."""
    commands = simple_commands(" ".join(["frob", *(f"'a {n:03}'" for n in range(999))]))
    left = without_echoes("; ".join(f"a {n:03}" for n in range(999)), commands)  # not as one argument
    assert 0 < left.count("_") < 100


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git commit -m x", "failure"),
        ("git add -A && git commit -qm x && git push", "failure"),
        ("git -C shop commit -am x", "failure"),
        ("git status", "success"),
        ("git commit -qm x; git status", "success"),
        ("git commit --dry-run", "success"),
    ],
)
def test_a_commit_of_nothing_differs_from_the_answer_of_git_status(command: str, expected: str) -> None:
    """Requirement G-407."""
    assert verdict(command, "On branch main\nnothing to commit, working tree clean") == expected


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ('python -c "import shop; print(shop.check())"', "Error: the cart is empty", "success"),
        ("python3 -u - <<'E'\nprint(x)\nE", "error: the cart is empty", "success"),
        ("node -e 'console.log(check())'", "Connection refused", "success"),
        ("python - <<'E'\nprint(x)\nE", "shop.CartError: the cart is empty", "success"),
        # Behind a pipe the line may be what is left of a trace.
        ('python -c "import shop; shop.check()" 2>&1 | tail -1', "Error: the cart is empty", "failure"),
        ("python check.py", "Error: the cart is empty", "failure"),
        ("python check.py", "shop.CartError: the cart is empty", "failure"),
        ("python check.py -c", "Error: the cart is empty", "failure"),
        ('python -c "import shopp"', "python: command not found", "failure"),
    ],
)
def test_what_code_of_the_command_prints_may_be_any_words(command: str, text: str, expected: str) -> None:
    """Requirement G-370."""
    assert verdict(command, text) == expected


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("X=$(terraform plan 2>&1); echo $X", "Error: Unclosed configuration block", "failure"),
        ('OUT="$(npm test -- --ci 2>&1)"; echo "$OUT"', "Tests: 1 failed, 2 passed, 3 total", "failure"),
        ('LAST=$(tail -1 app.log); echo "$LAST"', "Error: the cart is empty", "success"),
        ("N=$((1 + 2)); echo $N", "error: 3", "success"),
    ],
)
def test_a_command_whose_output_a_variable_takes_is_one_of_the_commands(command: str, text: str, expected: str) -> None:
    """Requirement G-408."""
    assert verdict(command, text) == expected


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("helm template shop", "kind: ConfigMap\ndata:\n  error: none\n  state: failed", "success"),
        ("helm template shop", "Error: chart not found\nname: shop\nstate: failed", "failure"),
        (
            "ssh web1 rm a b c",
            "rm: a: Permission denied\nrm: b: Permission denied\nrm: c: Permission denied",
            "failure",
        ),
        ("jq -r .message last.json | head -1", "unable to pay: no such card", "success"),
        ("jq .a gone.json | head -1", "jq: error: Could not open file gone.json: No such file or directory", "failure"),
        ("gh pr view 9 | head -1", "no pull requests found for branch 'x'", "failure"),
        ("gh api repos/a/b/actions/jobs/1/logs", "1 failed, 2 passed in 0.1s", "success"),
        ("gh api repos/a/b/issues/1", '{"number": 1, "title": "Error: not found"}', "success"),
        ("docker exec web tail -2 app.log", "Started\nOCI runtime exec failed: of a log", "success"),
        ("git commit -qm x; git log --oneline -2", "66c9dd2 Fix error: it fails\na240bff fatal: no", "success"),
    ],
)
def test_a_document_a_value_and_a_history_are_content(command: str, text: str, expected: str) -> None:
    """Requirement G-409."""
    assert verdict(command, text) == expected
