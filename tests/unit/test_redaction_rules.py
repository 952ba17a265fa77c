"""Rules of the user's own, and the filter that audits all of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tellback.client.client_context import check_settings
from tellback.errors import ConfigurationError
from tellback.redaction import Rule, add_rules, find_secret, redact_text, redactor
from tellback.redaction.custom import load_rules
from tellback.redaction.stream import MAX_LINE_CHARS, StreamRedactor
from tellback.settings import Settings, load

KEY = [
    "-----BEGIN OPENSSH PRIV" + "ATE KEY-----",
    *["b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2"] * 9,
]
END = "-----END OPENSSH PRIV" + "ATE KEY-----"


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file for rules; what it adds to this process is taken out again."""
    monkeypatch.setattr(redactor, "_added", ())
    yield tmp_path / "rules.toml"
    redactor._marks_secret.cache_clear()


def write(path: Path, *rules: str) -> Path:
    path.write_text("\n".join(f"[[rules]]\n{rule}" for rule in rules), "utf-8")
    return path


def test_a_rule_of_the_users_own_is_in_force_with_the_settings(rules: Path) -> None:
    write(
        rules,
        'name = "acme"\npattern = "acme_[a-z0-9]{8}"',
        'name = "zed"\npattern = "ZED-[0-9]{4}"\nignore_case = true',
    )
    assert find_secret("x acme_12345678") is None
    load({"TELLBACK_REDACTION_RULES": str(rules)})
    assert redact_text("x acme_12345678\nzed-1234\nACME_12345678") == "[redacted: acme]\n[redacted: zed]\nACME_12345678"


def test_it_is_in_force_with_settings_of_a_program_too(rules: Path) -> None:
    """Only `load` read the file: a host that passed `Settings` sent what its own rules forbid."""
    write(rules, 'name = "acme"\npattern = "acme_[a-z0-9]{8}"')
    check_settings(Settings(redaction_rules=str(rules)))
    assert redact_text("x acme_12345678") == "[redacted: acme]"


def test_clients_of_one_process_with_different_files_share_the_rules_of_all(rules: Path) -> None:
    """The second one's rules replaced the first one's, whose host then sent what its own rules forbid."""
    other = rules.with_name("other.toml")
    check_settings(Settings(redaction_rules=str(write(rules, 'name = "acme"\npattern = "acme_[a-z0-9]{8}"'))))
    check_settings(Settings(redaction_rules=str(write(other, 'name = "zed"\npattern = "ZED-[0-9]{4}"'))))
    assert redact_text("x acme_12345678\nZED-1234") == "[redacted: acme]\n[redacted: zed]"
    check_settings(Settings(redaction_rules=str(rules)))
    assert len(redactor._added) == 2, "a rule that is there is not added again"


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ('name = "a"', "pattern is a text"),
        ('name = "a b"\npattern = "x"', "name it with"),
        ('name = "a"\npattern = "x"\ncolour = 1', "unknown key 'colour'"),
        ('name = "a"\npattern = "("', "missing \\)"),
        ('name = "a"\npattern = "x*y"', "bound each repeat"),
        ('name = "a"\npattern = "(?:x{0,9}){0,9}y"', "within another repeat"),
        ('name = "a"\npattern = "(?:a|b.{0,40}).{0,400}x.{0,40}y"', "ways"),
        ('name = "a"\npattern = "(x)\\\\1"', "reference"),
        ('name = "a"\npattern = "x{0,3}"', "empty text"),
        ('name = "a"\npattern = "[^x]"', "end of a line"),
        ("name = ", "Invalid value"),
    ],
)
def test_a_wrong_rule_is_a_clear_error(rules: Path, rule: str, says: str) -> None:
    """The message names the variable and the file."""
    write(rules, rule)
    with pytest.raises(ConfigurationError, match=f"TELLBACK_REDACTION_RULES: {rules}.*{says}"):
        load({"TELLBACK_REDACTION_RULES": str(rules)})


def test_files_that_hold_no_rules_are_refused(rules: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load_rules(rules)
    rules.write_text("a = 1")
    with pytest.raises(ConfigurationError, match=r"write rules as \[\[rules\]\]"):
        load_rules(rules)
    write(rules, 'name = "a"\npattern = "x1"', 'name = "a"\npattern = "x2"')
    with pytest.raises(ConfigurationError, match="two rules are named 'a'"):
        load_rules(rules)


def shown(text: str, size: int) -> str:
    return "".join(StreamRedactor().feed(text[start : start + size] for start in range(0, len(text), size)))


def test_the_filter_gives_the_same_whatever_the_chunks() -> None:
    """A private key, or one whose beginning was never seen, may lie on their borders."""
    text = "\n".join(["a", *KEY, END, "b password=x", "", *KEY[1:], END, "last", "no newline"])
    whole = redact_text(text)
    assert whole.count("private-key") == 2 * len(KEY) + 1
    coloured = "\n".join(f"\x1b[31m{line}\x1b[0m" for line in [*KEY[1:], END, "last"])
    for size in (1, 7, 64, 1000, 100_000):
        assert shown(text, size) == whole
        assert shown(coloured, size) == redact_text(coloured)


@pytest.mark.usefixtures("rules")
def test_the_filter_holds_a_bounded_part_of_a_long_line() -> None:
    """A secret far into a line that is longer than what is held does not get out, nor what follows it in that line."""
    add_rules([Rule("late", re.compile("late-secret"))])
    chunks = ["x" * 100_000] * 50 + ["late-sec", "ret", " more", "\nnext"]
    tracemalloc.start()
    text = ""
    size = 0
    for part in StreamRedactor().feed(chunks):
        size += len(part)
        text = (text + part)[-200:]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert text.endswith("[redacted: late]\nnext")
    assert size > 4_900_000
    assert peak < 12 * MAX_LINE_CHARS


def tellback(*arguments: str, data: bytes, rules: str = "") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", "from tellback.cli.app import main; main()", "redact", *arguments],
        input=data,
        env={**os.environ, "TELLBACK_REDACTION_RULES": rules},
        capture_output=True,
        check=False,
        timeout=60,
    )


@pytest.mark.programs
def test_the_command_filters_and_reports(rules: Path) -> None:
    """Bytes that are no text go through; counts by rule are printed on standard error, or as JSON."""
    write(rules, 'name = "acme"\npattern = "acme_[a-z0-9]{8}"')
    data = b"\xff plain\npassword=x\nacme_12345678\npassword=y\n"
    done = tellback("--report", data=data, rules=str(rules))
    assert done.returncode == 0
    assert done.stdout == b"\xff plain\n[redacted: password]\n[redacted: acme]\n[redacted: password]\n"
    assert done.stderr.decode().split() == ["3", "of", "4", "lines", "replaced", "2", "password", "1", "acme"]
    done = tellback("--json", "--check", data=data, rules=str(rules))
    assert json.loads(done.stdout) == {"lines": 4, "replaced": {"acme": 1, "password": 2}}
    assert done.returncode == 1
    done = tellback(data=data, rules=str(rules / "absent"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"TELLBACK_REDACTION_RULES" in done.stderr


@pytest.mark.programs
def test_a_command_run_here_shows_no_value_of_a_sensitive_variable() -> None:
    """`tellback run` hands on the whole environment; the value is hidden also where nothing names it."""
    value = "q7Zk2Lw9" + "Xv4Tn8Rb"
    code = "import os; print(os.environ['SHOP_TOKEN'][::1], 'and more'); print('plain')"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tellback.cli.app import main; main()",
            "run",
            "--no-keep",
            sys.executable,
            "-c",
            code,
        ],
        env={**os.environ, "SHOP_TOKEN": value},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert value.encode() not in done.stdout + done.stderr
    assert done.stdout == b"[redacted: secret SHOP_TOKEN]\nplain\n"


def test_a_value_is_hidden_with_its_name_in_the_line_before_whatever_the_chunks() -> None:
    """A manifest of Kubernetes has such lines; the name stays."""
    text = "env:\n  - name: SHOP_TOKEN\n    value: a1b2c3\n  - name: MODE\n    value: abcdef\n"
    hidden = "env:\n  - name: SHOP_TOKEN\n[redacted: secret-assignment]\n  - name: MODE\n    value: abcdef\n"
    assert redact_text(text) == hidden
    for size in (1, 5, 34, 100):
        assert shown(text, size) == hidden


def test_a_value_is_hidden_lines_below_its_name_whatever_the_chunks() -> None:
    """Other lines may stand between the two, and come in a chunk of their own."""
    text = "- name: SHOP_TOKEN\n  type: a\n  value: a1b2C3d4E5f6g7H8\n"
    whole = redact_text(text)
    assert whole.count("[redacted") == 1
    for size in (1, 5, 19, 30, 100):
        assert shown(text, size) == whole
