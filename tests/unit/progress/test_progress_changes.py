"""The readings behind the verdicts: findings of compilers, texts that a command replaces, and other revisions."""

from __future__ import annotations

import pytest

from tellback.guidance.progress.diagnosed import count_findings
from tellback.guidance.progress.restores import moves_elsewhere
from tellback.guidance.progress.shell_calls import shell_features
from tellback.guidance.shell import simple_commands


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ("a.ts(3,1): error TS2304: x\na.ts(9,1): error TS2304: y\n", 2),
        ("src/a.ts:3:9 - error TS2322: x\n\nFound 3 errors in 2 files.", 3),
        ("app/a.py:30: error: Incompatible return value type\nFound 1 error in 1 file (checked 9 source files)", 1),
        ("a.py:1:1: F821 undefined name 'x'\na.py:2:1: E501 line too long\n", 2),
        ("/r/a.ts\n  3:7  error  'x' is never used\n\n\u2716 4 problems (4 errors, 0 warnings)", 4),
        ("../a.cc:40:9: error: no member named 'foo'\n1 error generated.", 1),
        ("error: could not compile `app` (lib) due to 7 previous errors", 7),
        ("/r/a.py:3:5 - error: x is unbound\n2 errors, 1 warning, 0 informations", 2),
        ("Main.java:3: error: ';' expected\nMain.java:9: error: cannot find symbol\n2 errors", 2),
        ("Build FAILED.\n    0 Warning(s)\n    5 Error(s)", 5),
        ("error[E0425]: cannot find value `x`\n  --> src/lib.rs:3:5\n", 1),
        ("make: *** [all] Error 2", None),
        ("at 10:30: error rates fell", None),
    ],
)
def test_the_findings_of_compilers_and_linters_are_counted(said: str, count: int | None) -> None:
    assert count_findings(said, whole=True) == count


def test_single_findings_of_an_output_that_was_cut_say_nothing() -> None:
    assert count_findings("a.c:3:1: error: x\n", whole=False) is None
    assert count_findings("a.c:3:1: error: x\n3 errors generated.", whole=False) == 3


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ("sed -i 's/foo/bar/' app.py", "sed -i 's/bar/foo/' app.py"),
        ("sed -i '12s|a/b|c|g' src/app.py", "sed -i -e 's|c|a/b|' app.py"),
        ("perl -pi -e 's/foo/bar/' a.pl", "perl -pi -e 's/bar/foo/' a.pl"),
        (
            "python - <<'E'\ns=open('a.py').read()\ns=s.replace('x','y')\nopen('a.py','w').write(s)\nE",
            'python3 - <<\'E\'\ns=open("a.py").read().replace("y", "x")\nopen("a.py","w").write(s)\nE',
        ),
    ],
)
def test_a_command_that_replaces_a_text_and_one_that_takes_it_back_are_opposites(there: str, back: str) -> None:
    (ahead,), (opposite,) = (shell_features("bash", line, {}).swaps for line in (there, back))
    assert (ahead.path, ahead.old, ahead.new) == (opposite.path, opposite.new, opposite.old)


@pytest.mark.parametrize(
    ("line", "moves"),
    [
        ("git checkout -q 3f2abc1", True),
        ("git checkout HEAD~3", True),
        ("git checkout v1.2.0", True),
        ("git switch main", True),
        ("git bisect good", True),
        ("git checkout -", True),
        ("git checkout app.py", False),
        ("git checkout -- 3f2abc1", False),
        ("git checkout -b 3f2abc1", False),
        ("git switch -c topic", False),
        ("git checkout HEAD~3 app.py", False),
        ("git stash", False),
    ],
)
def test_who_goes_to_another_revision_is_no_one_who_takes_a_file_back(line: str, *, moves: bool) -> None:
    assert [moves_elsewhere(each) for each in simple_commands(line)] == [moves]
