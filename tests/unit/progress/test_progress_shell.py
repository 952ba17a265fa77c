"""The measure of progress reads a shell's command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.guidance.progress.features import END, View
from tellback.guidance.progress.reading import command_line
from tellback.guidance.progress.shell_calls import shell_features
from tellback.guidance.shell import simple_commands


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("cd /repo && timeout 60 python -m pytest -q tests 2>&1 | tail -5", "test"),
        ("A=b bash -c 'go test ./... | head'", "test"),
        ("sed -n '10,20p' app.py", "read"),
        ("cat app.py | grep -n def", "read"),
        ("grep -rn name src | head -5", "search"),
        ("sed -i 's/a/b/' app.py", "write"),
        ("perl -pi -e 's/a/b/' app.py", "write"),
        ("ruby -i.bak -ne 'puts 1' app.rb", "write"),
        ("perl -ne 'print' app.py", "run"),
        ("git log -S'total' --oneline", "search"),
        ("kubectl get pods -l app=web", "search"),
        ('psql -c "select * from a where b = 1"', "search"),
        ("echo done > state.txt", "write"),
        ("git checkout -- app.py", "write"),
        ("git log --oneline | head", "read"),
        ("pip install -q pytz", "install"),
        ("sleep 30; tail -5 build.log", "wait"),
        ("cat > probe.py <<'EOF'\nprint('a; rm b')\nEOF\npython probe.py", "run"),
        ("gh run watch 17", "wait"),
        ("diff <(git show HEAD:a.py) a.py", "read"),
        ("cat <(pip install -q pytz)", "install"),
        ("OUT=$(pip install -q pytz); echo $OUT", "install"),
        ("", "wait"),
    ],
)
def test_a_line_has_the_effect_of_its_strongest_command(line: str, effect: str) -> None:
    assert shell_features("bash", line, {}).effect == effect


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("sed -i 's/a/b/' src/app.py", ("src/app.py",)),
        ("perl -pi -e 's/a/b/' src/app.pl", ("src/app.pl",)),
        ("cat > probe.py <<'EOF'\nx\nEOF", ("probe.py",)),
        ("cp app.py.orig app.py", ("app.py",)),
        ("pip install pytz", ("*environment",)),
        ("python -c \"open('app.py', 'w').write('x')\"", ("app.py",)),
        ("git commit -am x", ("",)),
        ("pytest -q > /dev/null", ()),
        ("ls 2>&1", ()),
    ],
)
def test_the_files_that_a_line_changes_are_known(line: str, written: tuple[str, ...]) -> None:
    assert shell_features("bash", line, {}).writes == written


def test_ranges_of_lines_are_read_from_sed_head_and_cat() -> None:
    line = "sed -n '5,9p' a.py; cat -n b.py | head -20; nl c.py | sed -n '3p'; cat d.py; head e.py"
    assert shell_features("bash", line, {}).views == (
        *(View("a.py", 5, 9), View("b.py", 1, 20), View("c.py", 3, 3), View("d.py", 1, END)),
        View("e.py", 1, 10),
    )


def test_a_text_ends_at_its_delimiter_and_not_at_a_longer_word() -> None:
    assert shell_features("bash", "cat > a.py <<'EOF'\nEOFX\nEOF\npytest", {}).programs == ("cat", "pytest")


def test_a_patch_in_a_list_of_words_is_an_edit_of_its_file() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-a\n+b\n*** End Patch"
    edit = shell_features("shell", command_line({"command": ["apply_patch", patch]}), {}).edit
    assert edit is not None
    assert edit.path == "a.py"


def test_flags_and_prefixes_of_a_test_run_are_cosmetic() -> None:
    lines = ("pytest tests/a.py", "cd /r && timeout 9 python -m pytest -xvs tests/a.py 2>&1 | tail -3")
    assert len({shell_features("bash", line, {}).target for line in lines}) == 1


@pytest.mark.parametrize(
    "line",
    ["git checkout a.py", "git restore a.py", "cp a.py.bak a.py", "git checkout -- a.py", "git show HEAD:a.py > a.py"],
)
def test_a_file_that_is_taken_back_is_named(line: str) -> None:
    assert shell_features("bash", line, {}).restores == "a.py"


@pytest.mark.parametrize(
    "line",
    [
        "git checkout .",
        "git reset --hard",
        "git stash",
        "git stash -k",
        "git stash --include-untracked",
        "git apply -R x.diff",
        "patch -p1 -R < x.diff",
    ],
)
def test_all_that_was_changed_is_taken_back(line: str) -> None:
    assert shell_features("bash", line, {}).restores == "*"


@pytest.mark.parametrize(
    "line",
    [
        "git checkout main",
        "git checkout --ours a.py",
        "git stash list",
        "git stash && pytest -q; git stash pop",
        "git stash -k && pytest -q; git stash pop",
        "git reset --hard origin/main",
        "git show HEAD:a.py > b.py",
        "git restore --staged a.py",
        "cp a.py a.py.bak",
        "patch -p1 < x.diff",
    ],
)
def test_what_takes_nothing_back_is_no_restore(line: str) -> None:
    assert shell_features("bash", line, {}).restores == ""


@given(st.text(alphabet="ab '\"\\|&;<>()$`#\n-=cd", max_size=60))
def test_any_text_can_be_split(line: str) -> None:
    for command in simple_commands(line):
        assert isinstance(command.program, str)
    shell_features("bash", line, {})
