"""Cells of notebooks, tools that run code, and failures whose first labelled line says nothing of the reason."""

from __future__ import annotations

import pytest

from tellback.contracts.guidance import ToolInvoked
from tellback.guidance.observations.tracebacks import raised_line
from tellback.guidance.progress.reading import call_features
from tellback.guidance.progress.substance import fails_in, labelled_error
from tellback.guidance.progress.trail import ProgressTrail
from tellback.guidance.shell import simple_commands
from tests.support.dialects import (
    MadeCall,
    Shell,
    claude_code,
    gemini_cli,
    mini_swe_agent,
    nudges_in,
    openhands,
    spoken,
    woven,
)
from tests.support.stretches import claude_edit

RULE = "-" * 75
TRACE = "Traceback (most recent call last):\n"
TOOLS = ("mcp__ide__executeCode", "execute_ipython_cell", "execute_code", "python_repl")


def cell(error: str, code: str, number: int) -> str:
    name = error.partition(":")[0]
    frames = f"Cell In[{number}], line 1\n----> 1 {code}\n"
    return f"{RULE}\n{name:42}Traceback (most recent call last)\n{frames}\n{error}"


def test_a_cell_names_its_exception_below_the_frames() -> None:
    """G-325: it was named by the rule of dashes above them."""
    shown = cell("KeyError: 'order_date'", "df['order_date']", 4)
    assert raised_line(shown) == "KeyError: 'order_date'"
    assert fails_in(shown) == "<stdin>"
    library = shown.replace("\n\nKeyError", "\n\nFile /opt/pandas/core/frame.py:4102, in get(self)\n  1 x\n\nKeyError")
    assert fails_in(library) == "frame.py"
    assert raised_line(cell("StopIteration", "next(i)", 2)) == "StopIteration"
    assert raised_line(shown.partition("\nCell In")[0] + "\n") == "KeyError"


@pytest.mark.parametrize("tool", TOOLS)
def test_cells_that_fail_in_the_same_way_are_reported_and_others_are_not(tool: str) -> None:
    """G-325: three values in a column that are no numbers are three steps of a clean-up."""
    day = "df['order_date']"
    codes = (f"{day}.dt.month", "df.set_index('order_date')", f"df.groupby({day}).size()", f"pd.to_datetime({day})")
    calls: list[MadeCall] = [
        (tool, {"code": each}, cell("KeyError: 'order_date'", each, 3 + n)) for n, each in enumerate(codes)
    ]
    nudges = nudges_in(calls)
    assert [call for call, _ in nudges] == [3]
    assert nudges[0][1].observations[0].value == "KeyError: 'order_date'"
    values = ("'1,204.50'", "'12 EUR'", "'n/a'", "'-'")
    cleaned: list[MadeCall] = [
        (tool, {"code": f"clean({n})"}, cell(f"ValueError: could not convert string to float: {each}", "clean()", n))
        for n, each in enumerate(values, start=1)
    ]
    assert not spoken(cleaned)


def test_a_short_error_of_a_cell_is_known_by_its_line() -> None:
    """G-364: a column that is missing was told only as no news, and "IndexError: 3" by the line of the cell."""
    tool, missing = TOOLS[0], "KeyError: 'rev'"
    codes = ("df['rev'].sum()", "df.groupby('q')['rev'].mean()", "df.sort_values('rev')")
    calls: list[MadeCall] = [(tool, {"code": each}, cell(missing, each, 3 + n)) for n, each in enumerate(codes)]
    assert [(call, said.observations[0].value) for call, said in nudges_in(calls)] == [(3, missing)]
    pandas = (
        "\n\nFile ~/lib/site-packages/pandas/core/frame.py:4102, in DataFrame.__getitem__(self, key)\n-> 4102 x\n\n"
    )
    behind: list[MadeCall] = [(each, code, shown.replace("\n\n", pandas)) for each, code, shown in calls]
    assert [(call, said.observations[0].value) for call, said in nudges_in(behind)] == [(3, missing)]
    others: list[MadeCall] = [
        (tool, {"code": f"df['{each}']"}, cell(f"KeyError: '{each}'", f"df['{each}']", 3)) for each in ("a", "b", "c")
    ]
    assert not spoken(others)
    bare: list[MadeCall] = [
        (tool, {"code": f"next({each})"}, cell("StopIteration", f"next({each})", 3)) for each in "ijk"
    ]
    assert not spoken(bare)
    moved: list[MadeCall] = []
    for n in range(3):
        failed = f"{TRACE}  File \"/r/a.py\", line {n}\n    r{n} = row['id'] + {n}\nKeyError: 'id'"
        moved += claude_edit(n), claude_code("python a.py", failed, 1)
    assert not spoken(moved)
    numbered: list[MadeCall] = [(tool, {"code": "a[3]"}, cell("IndexError: 3", "a[3]", 9 + n)) for n in range(3)]
    assert [said.observations[0].value for _, said in nudges_in(numbered)] == ["IndexError: 3"]


def test_each_of_three_tables_may_lack_the_same_column() -> None:
    """G-386: the third was reported as the same error, of whichever table."""
    tables = ("orders", "customers", "items")
    for key in ("rev", "order_date"):
        calls: list[MadeCall] = [
            (TOOLS[1], {"code": f"{each}['{key}'].sum()"}, cell(f"KeyError: '{key}'", f"{each}['{key}'].sum()", n))
            for n, each in enumerate(tables)
        ]
        assert not spoken(calls)


def written(n: int, asked: str, *, failed: bool = True) -> list[MadeCall]:
    said = (
        f'{TRACE}  File "/r/try_{n}.py", line 2, in <module>\n    connect({asked})\nTypeError: connect() needs a host'
    )
    script: dict[str, object] = {
        "file_path": f"/r/try_{n}.py",
        "content": f"from lib import connect\nconnect({asked})\n",
    }
    run = claude_code(f"python try_{n}.py", said if failed else f"connected as {asked}", int(failed))
    return [("Write", script, f"File created successfully at: /r/try_{n}.py"), run]


def test_new_scripts_that_fail_by_one_call_are_reported() -> None:
    """G-387: each has a frame of its own, which was taken for a closer look at the failure."""
    assert [call for call, _ in nudges_in([each for n in range(6) for each in written(n, f"{n}")])] == [6]
    learnt = [each for n in range(6) for each in written(n, f"{n}") + written(n, f"{n}, host", failed=False)]
    assert not spoken(learnt)


def pip(package: str, said: str) -> str:
    return (
        f"Collecting {package}\n  error: subprocess-exited-with-error\n  \u2570\u2500> [6 lines of output]\n"
        f"      running egg_info\n      {said}\n      [end of output]\n\n  note: It originates from a subprocess.\n"
        "error: metadata-generation-failed"
    )


def test_pip_fails_by_what_the_package_said() -> None:
    """G-326: packages that lack different libraries failed in "the same way", subprocess-exited-with-error."""
    assert labelled_error(pip("psycopg2", "Error: pg_config executable not found.")).endswith("not found.")
    said = (
        "Error: pg_config executable not found.",
        "Error: Please install libxml2 first.",
        "No pkg-config name found",
    )
    calls = [
        call
        for n, each in enumerate(said)
        for call in (
            claude_code(f"pip install p{n}", pip(f"p{n}", each), 1),
            claude_code(f"apt-get install -y lib{n}", f"Setting up lib{n}"),
            claude_code(f"pip install p{n}", f"Successfully installed p{n}"),
        )
    ]
    assert not spoken(calls)
    same = [claude_code(f"pip install {each}", pip("psycopg2", said[0]), 1) for each in ("p", "p==2", "'p<2'")]
    assert spoken(same) == [3]


@pytest.mark.parametrize("shell", [claude_code, gemini_cli, mini_swe_agent, openhands])
def test_a_password_that_is_refused_is_so_whatever_is_asked_for(shell: Shell) -> None:
    """G-327: also where a secret in the command took away the line that the program repeats."""
    refused = 'psql: error: connection to server at "db" failed: FATAL:  password authentication failed for user "app"'
    commands = ("psql -h db -c '\\dt'", "PGPASSWORD=hunter2hunter2 psql -h db shop", "psql -h db -W shop -c 'select 1'")
    assert spoken([shell(each, refused, 2) for each in commands]) == [3]


def test_a_service_that_gives_one_short_error_is_reported() -> None:
    """G-327: with the same whole answer, whatever was sent."""
    answer = '{"detail":[{"loc":["body","owner_id"],"msg":"field required","type":"value_error.missing"}]}'
    calls = [
        claude_code(f"curl -s -X POST localhost:8000/items -d '{body}'", answer)
        for body in ('{"name":"a"}', '{"name":"a","kind":1}', '{"title":"a"}')
    ]
    assert spoken(calls) == [3]


def test_what_mini_swe_agent_ended_ran_out_of_time() -> None:
    """G-328: it says so behind the command."""
    calls: list[MadeCall] = [
        (
            "bash",
            {"command": each},
            f"<exception>Command '['{each}']' timed out after 60 seconds</exception>\n<returncode>-1</returncode>",
        )
        for each in ("npm run dev", "npx vite --port 5174", "node server.js")
    ]
    nudges = nudges_in(calls)
    assert [call for call, _ in nudges] == [3]
    assert nudges[0][1].observations[0].value == "The command timed out after 60 seconds"


def test_a_tool_named_execute_that_is_given_code_is_an_interpreter() -> None:
    """G-333: its code was read as a command line."""

    def programs(**params: str) -> tuple[str, ...]:
        event = ToolInvoked(event_id="t", session="s", evaluation="e", tool="execute", params=params, result="a")
        return call_features(event, "success").programs

    assert programs(code="import json\nd = json.load(open('a.json'))\nd['order_date']") == ("python",)
    assert programs(script="rows = load()\nprint(rows)") == ("python",)
    assert programs(script="cd /srv && pytest -q\nclean() { rm -r build; }") == ("cd", "pytest", "clean", "rm")
    assert programs(command="ls -l") == ("ls",)


def test_a_path_of_windows_keeps_its_separators() -> None:
    """G-334: a nudge spoke of C:rRepo.cs."""
    commands = (r"Get-Content C:\r\Repo.cs -TotalCount 9", r"Get-Content .\src\Repo.cs", r"grep -n foo\.bar a.py")
    read = [simple_commands(each)[0].words for each in commands]
    assert [each[0] for each in read] == ["C:/r/Repo.cs", "./src/Repo.cs", "-n"]
    assert read[2][1] == "foo.bar"


def test_go_does_not_count_what_passed() -> None:
    """G-330: a nudge said "1 failed, 0 passed"."""
    failed = "--- FAIL: TestHub (0.0{0}s)\n    hub_test.go:5{0}: got 3 messages, want 4\nFAIL\nFAIL\thub\t0.02s"
    runs = [claude_code("go test ./hub/...", failed.format(n), 1) for n in range(3)]
    nudges = nudges_in(woven([claude_edit(n) for n in range(3)], runs))
    assert [each.observations[0].value for _, each in nudges] == ["1 failed: TestHub"]


def test_the_lines_that_were_read_are_named_as_they_were_asked_for() -> None:
    """Sixty lines from 103 on end at 162."""

    def read(first: int) -> MadeCall:
        text = "\n".join(f"{n:6}→export const v{n} = {n};" for n in range(first, first + 60))
        return "Read", {"file_path": "/r/a.ts", "offset": first, "limit": 60}, text

    ((_, nudge),) = nudges_in([read(100), read(103), read(100), read(103)])
    assert [each.value for each in nudge.observations] == ["lines 103-162"]


def test_builds_of_an_image_are_compared_by_what_failed_in_them() -> None:
    """G-388: read as that of a test, each was another failure, by the time in front of its lines."""
    said = (
        "#7 [4/6] RUN pip install -r requirements.txt\n"
        "#7 {0}.347 ERROR: No matching distribution found for torchx==9.9\n"
        '#7 ERROR: process "/bin/sh -c pip install -r requirements.txt" did not complete successfully: exit code: 1'
    )
    failing = [
        each for n in range(3) for each in (claude_edit(n), claude_code("docker build .", said.format(n + 2), 1))
    ]
    assert [call for call, _ in nudges_in(failing)] == [6]
    options = [claude_code(f"docker build --build-arg WORKERS={n} .", "naming to app done") for n in range(6)]
    assert not spoken(options)


def test_a_build_that_nothing_led_to_makes_no_repetition_fair() -> None:
    """G-388."""
    tried = [claude_code("docker run --rm app selftest", "selftest: 3 of 6 ok\npart 4 is missing") for _ in range(3)]
    builds = [claude_code("docker build .", f"#9 exporting layers {n}00 of 900\n#9 DONE") for n in range(3)]
    assert nudges_in([call for pair in zip(builds, tried, strict=True) for call in pair])


@pytest.mark.parametrize(
    ("options", "heard"), [("-t app", True), ("-o dist", False), ("--output=dist", False), ("--iidfile dist/id", False)]
)
def test_a_build_that_leaves_files_here_makes_it_fair_to_read_them_again(options: str, *, heard: bool) -> None:
    """G-388: with `--output` it writes what the next call reads."""
    read = [claude_code("cat dist/report.txt", "part 1 of 6 ok\npart 2 of 6 ok\npart 4 is missing") for _ in range(5)]
    builds = [claude_code(f"docker build {options} .", f"#9 exporting layers {n}00 of 900\n#9 DONE") for n in range(5)]
    assert bool(spoken(woven(builds, read))) is heard


LEFT = "".join(f"section {n}: 40{n} bytes\n" for n in range(9))


def builds(command: str) -> list[MadeCall]:
    return [claude_code(command, f"linked part {n}\nwrote {n}7 units of part {n}\ndone with app{n}") for n in range(6)]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("make", "build/report.txt"),
        ("terraform apply -auto-approve", "infra/terraform.tfstate"),
        ("npm run build", "dist/index.html"),
        ("mvn -q package", "target/site.txt"),
        ("pytest -q", "coverage.xml"),
    ],
)
def test_what_a_build_after_an_edit_leaves_may_be_read_again(command: str, path: str) -> None:
    """G-413: it was reported as the same call with nothing changed, though each build writes the file."""
    edited, built = [claude_edit(n) for n in range(6)], builds(command)
    reads: list[MadeCall] = [claude_code(f"cat {path}", LEFT), ("Read", {"file_path": f"/r/{path}"}, LEFT)]
    for read in reads:
        assert not spoken(woven(edited, built, [read] * 6))
        assert spoken([built[0], *[read] * 4]), "nothing ran in between"


@pytest.mark.parametrize("path", ["src/app.c", "Dockerfile", "reports/models.py"])
def test_a_source_that_no_build_writes_is_read_again_in_vain(path: str) -> None:
    """G-413."""
    edited, read = [claude_edit(n) for n in range(6)], claude_code(f"cat {path}", LEFT)
    assert spoken(woven(edited, builds("make"), [read] * 6))


def test_a_build_of_nothing_new_leaves_what_it_left_before() -> None:
    """G-413."""
    assert spoken(woven(builds("make"), [claude_code("cat build/report.txt", LEFT)] * 6))


def test_an_edit_that_no_run_followed_has_built_nothing() -> None:
    trail = ProgressTrail()
    trail.ran, trail.anything = 3, 5
    assert (trail.changed_file("dist/a.js"), trail.changed_file("src/a.js")) == (3, 0)
    trail.ran = 7
    assert trail.changed_file("dist/a.js") == 5
