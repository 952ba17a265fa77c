"""Failures known by the shape of an output, by the envelope of an answer, or by a code in a form of its own."""

from __future__ import annotations

import json

import pytest

from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.evidence import Finding
from tellback.guidance.observations.evidence_builder import build_evidence
from tellback.guidance.observations.shapes import is_document


def found(command: str, said: str) -> Finding:
    return classify(build_evidence("terminal", {"command": command}, said, None), {})


SHAPES = {
    "vhdc -a top.vhx": "top.vhx:14:3: keine Deklaration gefunden",
    "zonk build": "bau.zo@4: huch\n    foo(1)\n    ^~~",
    "flurb publish": "paket 3 von 4\n\u2718 zielort unbekannt",
    "trainer fit": "epoch 1\nnn.cuda.SpeicherError: zu viel verlangt",
    "hopper sync": "Fertig. gut=3 fehlgeschlagen=2",
    "kleister run.kl": "acme\\db\\TabelleException: bestellungn",
    "gnuplod a.gp": '"a.gp" line 4: undefinierte Variable',
    "perl run.pl": "Kein Vorrat mehr at run.pl line 12.",
    "sqlfluss -f q.sql": "ORA-00942: tabla o vista no existe",
    "python2 run.py": "bash: python2: Kommando nicht gefunden.",
    "mvn -v": "'mvn' \u4e0d\u662f\u5185\u90e8\u6216\u5916\u90e8\u547d\u4ee4",
    "adb install a.apk": "Performing Streamed Install\nadb: keine Ger\u00e4te da",
    "act -j test": "[CI/test] exitcode '1': gescheitert\n[CI/test] Ende",
    "az group create": "(OrtNichtDa) Den Ort gibt es nicht.\nCode: OrtNichtDa",
    "sokat - TPC:x": "2026/11/30 02:21:07 sokat[929] E connect(5): abgelehnt",
    "kubelet --config a": "E1130 02:21:07.123456    1234 server.go:205] keine Datei",
    "skopf inspekt dir:x": 'time="2026-11-30T02:53:49Z" level=fatal msg="keine Datei"',
    "rstpruef a.rst": 'a.rst:2: (INFO/1) Titel\na.rst:4: (ERROR/3) Direktive "x"',
    "wart": "\u2500\u2500 [ 1 FAILED ] \u2500\u2500\n\u2500\u2500\u2500",
    "einheiten -t '3 x' m": "Unknown unit 'x'",
    "einheiten '3 m' s": "conformability error\n\t3 m\n\t1 s",
    "punkt -Tpngg a.gv": 'Format: "pngg" not recognized. Use one of: gif svg',
    "lftb -e 'ls; bye' ftp://h": "ls: Fatal error: max-retries exceeded",
    "schnipsel -i a.heic": "schnipsel-im6: kein Decoder f\u00fcr dieses Format",
}


@pytest.mark.parametrize("command", SHAPES)
def test_without_an_exit_code_a_failure_is_known_by_its_shape_in_any_words(command: str) -> None:
    assert found(command, SHAPES[command]).code == "error"


HEALTHY = {
    "zonk lint": "warning: bau.zo@4 is long\n    foo(1)\n    ^~~",
    "flurb check": "\u2716 1 problem (0 errors, 1 warning)",
    "hopper sync": "Fertig. gut=5 fehlgeschlagen=0",
    "zonk status": "Unknown unit files are left alone.\nfertig",
    "zonk check": "no error",
    "zonk test": "\u2500\u2500 [ 0 FAILED ] \u2500\u2500",
    "npx eslint a.js --format compact": "/w/a.js: line 1, col 1, Warning - Odd quotes. (quotes)\n\n1 problem",
    "sokat -d - TCP:x": "2026/11/30 02:21:07 sokat[929] N connected\n2026/11/30 02:21:09 sokat[929] N done",
    "schnipsel -v": "schnipsel: 4.2.1",
    "npm run report": "\u2718 three of our users left\nBad=3 Good=4",
    "python report.py": "src/cart.py:4:1 has the most changes",
    "mise run dup": "a.go:101: 101-107 lines are duplicate of b.go:9-15",
    "kubectl get events": "web failed=1 running=2",
    "rg -n TODO": "src/cart.py:4:1: raise here",
    "tar xzf a.tgz": "tar: Removing leading `/' from member names",
}


@pytest.mark.parametrize("command", HEALTHY)
def test_what_others_said_a_warning_and_a_count_of_nothing_have_no_such_shape(command: str) -> None:
    assert found(command, HEALTHY[command]).code in ("ok", "no_results")


def test_an_exit_code_of_zero_outweighs_a_shape() -> None:
    heading = "Exit code: 0\nWall time: 0.1 seconds\nOutput:\n"
    assert all(found(command, heading + said).code == "ok" for command, said in SHAPES.items())


REFUSED = [
    {"code": 50012, "msg": "\u5e93\u5b58\u4e0d\u8db3", "data": None},
    {"errors": [{"extensions": {"code": "BAD_USER_INPUT"}}], "data": {"createOrder": None}},
    {"result": {"type": "object", "subtype": "error"}, "exceptionDetails": {"text": "Uncaught", "lineNumber": 0}},
]
ACCEPTED = [
    {"code": 0, "msg": "\u6210\u529f", "data": {"id": 7}},
    {"code": 200, "message": "created", "data": None},
    {"code": 50012, "msg": "partly", "data": [{"id": 7}]},
    {"data": {"order": None}},
]


@pytest.mark.parametrize("body", REFUSED, ids=json.dumps)
def test_an_answer_with_a_code_and_no_data_is_a_refusal_in_any_words(body: dict[str, object]) -> None:
    assert classify(build_evidence("create_order", {"sku": "A1"}, json.dumps(body), None), {}).code in (
        "error",
        "invalid_arguments",
    )


@pytest.mark.parametrize("body", ACCEPTED, ids=json.dumps)
def test_an_answer_with_data_or_without_a_code_is_none(body: dict[str, object]) -> None:
    assert classify(build_evidence("create_order", {"sku": "A1"}, json.dumps(body), None), {}).code != "error"


CLINE = """Command executed in terminal within working directory '/w'. Command execution was not successful, look why.
Exit code: 1
Output:
half done"""
GEMINI = "Command: ./crash\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: (none)\nSignal: SIGSEGV\n"


@pytest.mark.parametrize("text", [CLINE, GEMINI], ids=["Cline", "Gemini CLI"])
def test_a_code_below_a_sentence_and_a_signal_are_failures(text: str) -> None:
    assert found("./crash", text).code == "error"


def test_a_long_document_is_read_once() -> None:
    """Requirement G-409: a dash may be of the list or of the key, and 40 lines took for ever."""
    assert is_document("--a: b\n" * 400)
    assert not is_document("--a: b\n" * 400 + "a line")


TRACE = 'Traceback (most recent call last):\n  File "/lib/threading.py", line 1075, in run\nKeyError: 1'


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        # G-370: code in the command excuses no other program.
        ("python -c 'import json'; npm run build", "ERROR: build failed because a.js is missing", "error"),
        ('V=$(node -p "1 + 1"); ./release $V', "release aborted: the tag exists", "error"),
        # G-396: `grep` leaves no frame.
        ("python -c 'import a' 2>&1 | grep Trace -A9", "Traceback (most recent call last):\nKeyError: 1", "error"),
        # G-408
        ("export V=$(git describe); echo v$V", "fatal: No names found, cannot describe anything.\nv", "error"),
        # G-409: files are no keys, `gh` complains right behind the body, and settings have one word.
        ("npx terser src", "a.js: SyntaxError: x\nb.js: SyntaxError: y\nc.js: SyntaxError: z", "error"),
        ("gh api repos/a/b/tags", '{"message":"Not Found","status":"404"}gh: Not Found (HTTP 404)', "error"),
        ("for f in a.yml b.yml; do grep for: $f; done", "    for: 5m\n    for: 10m", "ok"),
        ("grep -h timeout: ci.yml", "    timeout: 30", "ok"),
        # G-396: a thread's own trace begins in no place of the command.
        ("python -c 'import shop; shop.run()'", f"Exception in thread Thread-1 (run):\n{TRACE}", "error"),
        # G-409: a body of `gh` may be a refusal if nothing else ran and it is data, a log that goes on is none.
        ("gh api repos/a/b | jq .", '{"message": "Not Found", "status": "404"}', "ok"),
        ("gh api repos/a/b/contents/notes", "Error: chart not found\nname: shop\nstate: failed", "ok"),
        ("frob a", "Error: chart not found\nname: shop\nstate: failed", "error"),
        ("docker exec web tail -2 app.log", "OCI runtime exec failed: of a log\nStarted", "ok"),
    ],
)
def test_what_excuses_content_excuses_no_failure(command: str, text: str, expected: str) -> None:
    """Requirements G-370, G-396, G-408 and G-409."""
    assert found(command, text).code == expected


def test_numbered_lines_of_a_file_are_the_file() -> None:
    """A note on a file that was missing is no failure to read it."""
    evidence = build_evidence("Read", {"path": "a.md"}, "1\tFile not found: a.md", None)
    assert classify(evidence, {}).code == "ok"
