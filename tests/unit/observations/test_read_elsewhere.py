"""Logs and files that a command reads elsewhere, or copies or unpacks to read them. Requirement G-390."""

from __future__ import annotations

import pytest

from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.evidence import verdict_of
from tellback.guidance.observations.evidence_builder import build_evidence

LOG = "fatal: not a git repository (or any of the parent directories): .git\nerror: failed to push some refs"
CRASH = "Traceback (most recent call last):\n  File \"app.py\", line 2, in <module>\nKeyError: 'PORT'"


def verdict(command: str, text: str) -> str:
    return verdict_of(classify(build_evidence("Bash", {"command": command}, text, None), {}).code)


@pytest.mark.parametrize("text", [LOG, CRASH], ids=["git", "traceback"])
@pytest.mark.parametrize(
    "command",
    [
        "ssh web1 'cat /var/log/deploy.log'",
        'ssh -i key.pem -p 2222 ops@web1 "sudo tail -n 2 /var/log/app.log | grep -v info"',
        "ssh web1 'cd /srv/app && cat deploy.log'",
        "ssh -t web1 -- journalctl -u app -n 3",
        "kubectl exec -n shop api-0 -c app -- cat /var/log/app/error.log",
        "docker exec -it -e A=1 api tail /app/debug.log",
        "docker compose exec -T web cat /app/debug.log",
        "aws logs tail /aws/lambda/api --since 5m",
        "supervisorctl tail app stderr",
        "pm2 logs api --nostream",
        "heroku logs -n 2 -a shop",
    ],
)
def test_a_log_that_is_read_elsewhere_may_say_anything(command: str, text: str) -> None:
    assert verdict(command, text) == "success"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("ssh web2 'cat app.log'", "ops@web2: Permission denied (publickey,password)."),
        ("ssh web1 'cat gone.log'", "cat: gone.log: No such file or directory"),
        ("ssh web1 'cd /srv/gone; ls'", "bash: line 1: cd: /srv/gone: No such file or directory\nnotes.txt"),
        ("ssh web1 'git pull'", LOG),
        ("ssh web1", LOG),
        ("docker exec api python manage.py migrate", CRASH),
        (
            "kubectl exec api-1 -- cat /etc/gone.conf",
            "cat: /etc/gone.conf: No such file or directory\ncommand terminated with exit code 1",
        ),
        ("kubectl exec api-1 -- cat app.log", 'Error from server (NotFound): pods "api-1" not found'),
    ],
)
def test_what_could_not_be_read_or_was_done_elsewhere_is_a_failure(command: str, text: str) -> None:
    assert verdict(command, text) == "failure"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("zcat <(gzip -c app.log)", CRASH),
        ("diff <(git show HEAD:a.py) a.py", f"<returncode>1</returncode>\n<output>\n5c5\n< {LOG}\n---\n> x\n</output>"),
        ("cp app.log old.log && cat old.log | tee copy.log", CRASH),
        ("tar xOf logs.tar app.log", CRASH),
        ("tar -x --to-stdout -f logs.tar app.log", CRASH),
        ("xz -dc app.log.xz | tail -n 5", CRASH),
        ("gunzip --stdout app.log.gz", LOG),
        ("unzip -p logs.zip app.log", CRASH),
        ("csvcut -c message errors.csv", "message\nKeyError: 'x'"),
        ("split -l 1 app.log part_ && cat part_ab", LOG),
        ("dd if=app.log bs=64 count=1 status=none", LOG),
        ("iconv -f utf-8 -t latin1 app.log | pr -t | expand", LOG),
        ("mlr --icsv --opprint sort -nr n a.csv", "level n\nINFO  9\nERROR 3"),
        ("datamash -s -g1 count 1 < levels", "ERROR\t2\nOK\t1"),
        ("git format-patch -1 --stdout | head -40", f"From 84e7\nSubject: [PATCH] error: failed\n\n+{LOG}"),
        ("trap -l; kill -l", " 1) SIGHUP\t 2) SIGINT\n11) SIGSEGV\t12) SIGUSR2"),
        ("pyflakes error.py; cat error.py", 'class Failed(Exception):\n    """error: failed"""'),
        ("vvp counts", "ERROR count: 0"),
        ("rklone copy a b", "2026/11/30 02:20:53 NOTICE: Config file not found - using defaults\nfertig"),
    ],
)
def test_what_was_copied_or_unpacked_to_be_read_may_say_anything(command: str, text: str) -> None:
    """Requirement G-393."""
    assert verdict(command, text) == "success"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("cp gone.log old.log; cat old.log", "cp: cannot stat 'gone.log': No such file or directory\nan older log"),
        ("tar xOf gone.tar a", "tar: gone.tar: Cannot open: No such file\ntar: Error is not recoverable: exiting now"),
        ("rklone build > out.log 2>&1; cat out.log", "Error: source not given\n"),
        ("xz -dc gone.xz", "xz: gone.xz: No such file or directory"),
        ("unzip -p gone.zip", "unzip:  cannot find or open gone.zip, gone.zip.zip or gone.zip.ZIP."),
        ("xz -d app.xz && ./app", CRASH),
        (
            "csvcut -c x a.csv",
            "ColumnIdentifierError: Column 'x' is invalid. It is neither an integer nor a column name.",
        ),
        ("vvp counts", "ERROR count: 3"),
        ("dd if=gone of=x", "dd: failed to open 'gone': No such file or directory"),
        ("iconv -f utf-8 gone", "iconv: cannot open input file `gone': No such file or directory"),
        ("mlr --icsv cat gone.csv", "mlr: open gone.csv: no such file or directory."),
        ("mlr --icsv srt a.csv", 'mlr: verb "srt" not found.'),
        ("datamash sum 1 < a", "datamash: invalid numeric value in line 1 field 1: 'x'"),
    ],
)
def test_a_complaint_about_a_copy_and_a_log_of_the_same_command_count(command: str, text: str) -> None:
    """Requirement G-393."""
    assert verdict(command, text) == "failure"


def test_an_edit_that_a_host_calls_failed_has_not_just_found_nothing() -> None:
    """Requirement G-393."""
    text = "<error>\nThe tool execution failed with this error:\nThe SEARCH block:\nx\n...does not match anything."
    assert classify(build_evidence("replace_in_file", {"path": "a.ts"}, None, text), {}).code == "error"
