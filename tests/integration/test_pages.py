"""The pages of the documentation are right: what their examples print, and what they name."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tellback import FeedbackTrigger, ProviderSpec, Tellback
from tellback.cli.app import app
from tellback.cli.metrics_collector import TURN_EVENTS, render_metrics
from tellback.guidance.observations.catalog import load_catalog
from tellback.guidance.observations.feedback import ToolFeedback
from tellback.settings import Settings
from tellback.signals import detection
from tellback.signals.calibration import MIN_PAIRS
from tellback.transports.__main__ import _parser
from tellback.transports.webhook import GATEWAY_STATUSES, RETRY_STATUSES, UNREACHABLE_STATUSES
from tellback.turns.fallback_text import KEYS, load_words
from tests.support.hooks import PROGRAM, run_hook
from tests.support.pages import ROOT, blocks, console, examples
from tests.support.processes import run_program
from tests.support.turns import opened
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, environment

PAGES = ("guidance", "observations", "transports", "turns", "turns-pipeline", "delivery")
SLOW = {"delivery"}
WITH_WORKERS = {"delivery", "guidance"}
ELSEWHERE = {
    *("README.md", "docs/quickstart.md", "docs/loops/signals.md"),  # test_docs_examples
    *("docs/loops/commands.md", "docs/operations/records.md"),  # below
}


def test_every_page_with_python_has_a_test() -> None:
    """Fragments, which do not run by themselves, are blocks of `py`."""
    pages = [str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))]
    found = Counter(page for page in pages for language, _ in blocks(page) if language == "python")
    assert {*found} == {*ELSEWHERE, *(f"docs/loops/{name}.md" for name in PAGES)}
    assert found["docs/loops/commands.md"] == found["docs/operations/records.md"] == 1, "the one that they try"


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW)) for page in PAGES])
def test_the_examples_of_a_page_print_what_it_says(
    page: str,
    settings: Settings,
    start_workers: StartWorkers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are one session, in order."""
    if page in WITH_WORKERS:
        start_workers(1, queues="events")
    monkeypatch.setenv("TELLBACK_REDIS_URL", settings.redis_url)
    names: dict[str, Any] = {}
    found = examples(f"docs/loops/{page}.md")
    assert found
    for code, printed in found:
        exec(compile(code, page, "exec"), names)
        assert capsys.readouterr().out == printed


REPAIR = "# ... the agent repairs the test ..."


@pytest.mark.slow
def test_the_example_of_commands_prints_what_the_page_says(
    settings: Settings,
    start_workers: StartWorkers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """It shows a failing test, the gate's refusal and a linked retry that passes; ids and durations differ."""
    test = tmp_path / "app" / "test_sum.py"
    test.parent.mkdir()
    test.write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    start_workers(env={"TELLBACK_COMMAND_ROOTS": str(test.parent), "PATH": path})
    monkeypatch.setenv("TELLBACK_REDIS_URL", settings.redis_url)
    code, printed = examples("docs/loops/commands.md")[0]
    assert REPAIR in code

    def repair() -> None:
        test.write_text("def test_sum():\n    assert 1 + 1 == 2  # repaired\n")

    exec(compile(code.replace(REPAIR, "repair()"), "commands", "exec"), {"repair": repair})
    assert without_ids(capsys.readouterr().out) == without_ids(printed)


def without_ids(text: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"\[[0-9a-f]+-[0-9a-f]+\]", "[id]", re.sub(r"in [0-9.]+s", "in some time", text))


DELIVERY = "docs/loops/delivery.md"


@pytest.mark.slow
def test_the_hook_of_the_page_answers_as_the_page_says(
    settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """It gets two calls with the page's configuration, after the page's installation."""
    start_workers(1, queues="events")
    configuration, _policy = [text for language, text in blocks(DELIVERY) if language == "toml"]
    (tmp_path / "hooks.toml").write_text(configuration)
    line = next(iter(console(DELIVERY)))
    subprocess.run([PROGRAM, *shlex.split(line, comments=True)[1:]], cwd=tmp_path, check=True, capture_output=True)
    installed = json.loads((tmp_path / ".claude" / "settings.local.json").read_text())
    command = shlex.split(installed["hooks"]["PostToolUse"][0]["hooks"][0]["command"].rpartition("; ")[2])
    given, answer = [json.loads(text) for language, text in blocks(DELIVERY) if language == "json"]
    patient = [*command[3:], "--wait=10"]
    at = {"CLAUDE_PROJECT_DIR": str(tmp_path)}  # as Claude Code sets it; the file's path is relative to it
    assert run_hook(settings, {**given, "tool_use_id": "toolu_1"}, *patient, env=at) == b""
    assert json.loads(run_hook(settings, given, *patient, env=at)) == answer


@pytest.mark.parametrize("code", [text for language, text in blocks(DELIVERY) if language == "py"])
def test_the_frameworks_examples_name_what_there_is(code: str) -> None:
    imports = "\n".join(line for line in code.splitlines() if line.startswith("from "))
    exec(compile(imports, DELIVERY, "exec"), {})
    compile(code, DELIVERY, "exec", flags=0x2000)  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


GUIDANCE = "docs/loops/guidance.md"
TEMPLATE = "examples/feedback_provider.py"


def test_the_reports_of_the_page_arrive(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")
    (code,) = [text for language, text in blocks(GUIDANCE) if language == "py"]
    each = FeedbackTrigger(every_n_calls=1)
    specs = [ProviderSpec(name="ContextChangeFeedback", trigger=each)]
    maker, other = (tb.prompt("s1", name, feedback_providers=specs) for name in ("maker", "other"))
    tb.flush()
    wait_until(lambda: _known(tb, "other", other.evaluation), "the evaluations have begun")
    exec(compile(code, GUIDANCE, "exec"), {"tb": tb, "prompt": maker})
    reported: dict[str, list[str]] = {}
    for prompt in (maker, other):
        prompt.tool_invoked("t")
        (feedback,) = prompt.feedback(wait=60)
        reported[prompt.name] = [observation.value for observation in feedback.observations]
    assert reported == {
        "maker": ["src/app.py: edited by the user"],
        "other": [f"main: force-pushed (by {maker.evaluation})"],
    }


def _known(tb: Tellback, prompt: str, evaluation: str) -> bool:
    key = tb.context.layout.of("s1").key("eval", "s1", prompt, evaluation)
    return bool(tb.context.database.command("EXISTS", key))


def test_the_template_of_a_provider_passes_its_own_tests() -> None:
    assert f'--8<-- "{TEMPLATE}"' in (ROOT / GUIDANCE).read_text("utf-8")
    done = run_program([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEMPLATE], cwd=ROOT, check=True)
    assert "3 passed" in done.stdout


def test_the_template_works_on_a_worker(tb: Tellback, start_workers: StartWorkers) -> None:
    env = {"TELLBACK_PROVIDERS": "feedback_provider:SameToolMonitor", "PYTHONPATH": _path("examples")}
    start_workers(1, queues="events", env=env)
    spec = ProviderSpec(name="SameToolMonitor", trigger=FeedbackTrigger(every_n_calls=1), fields={"times": 3})
    prompt = tb.prompt("s1", "p", feedback_providers=[spec])
    for _ in range(3):
        prompt.tool_invoked("search")
    (feedback,) = prompt.feedback(wait=60)
    assert feedback.summary == "The last 3 calls all went to search."


def _path(folder: str) -> str:
    return os.pathsep.join([str(ROOT / folder), *filter(None, [os.environ.get("PYTHONPATH")])])


OBSERVATIONS = "docs/loops/observations.md"


def test_the_classifier_of_the_page_works(tb: Tellback) -> None:
    (code,) = [text for language, text in blocks(OBSERVATIONS) if language == "py"]
    names: dict[str, Any] = {}
    exec(compile(code, OBSERVATIONS, "exec"), names)
    prompt = tb.prompt("s1", "p", observations=names["how"])
    seen: ToolFeedback = prompt.observe("api", params={"q": 1}, result="You have used your daily allowance.")
    assert seen.envelope is not None
    assert (seen.envelope.code, seen.envelope.retry_after) == ("rate_limited", 3600.0)


def test_the_templates_of_the_page_load(tmp_path: Path) -> None:
    (text,) = [text for language, text in blocks(OBSERVATIONS) if language == "toml"]
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    assert load_catalog(path).text("headline", "rate_limited", tool="t") == "t asks you to slow down"


PIPELINE = "docs/loops/turns-pipeline.md"


@pytest.mark.parametrize("fails", [False, True])
def test_what_the_page_asks_of_a_host_finishes_the_turn(tb: Tellback, *, fails: bool) -> None:
    import tellback

    def model(_: object) -> str:
        if fails:
            raise TimeoutError("no reply")
        return "42"

    (code,) = [text for language, text in blocks(PIPELINE) if language == "py"]
    turn = opened(tb)
    exec(code, {"tellback": tellback, "turn": turn, "model": model, "messages": [{"role": "user", "content": "hi"}]})
    assert turn.state == "finishing"


def test_the_catalog_of_the_page_loads(tmp_path: Path) -> None:
    (text,) = [text for language, text in blocks(PIPELINE) if language == "po"]
    folder = tmp_path / "nl" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "tellback.po").write_text(text)
    assert load_words("nl", "", str(tmp_path)).feedback().startswith("Er ging iets mis")


def test_the_page_of_the_pipeline_names_every_key() -> None:
    page = (ROOT / PIPELINE).read_text("utf-8")
    assert not [key for key in KEYS if f"`{key}`" not in page]


TRANSPORTS = "docs/loops/transports.md"


@pytest.mark.parametrize("line", console(TRANSPORTS))
def test_each_command_of_a_transport_is_one(line: str) -> None:
    words = shlex.split(line)
    assert _parser().parse_args(words[words.index("tellback.transports") + 1 :]).channel


def test_the_table_of_the_webhook_names_each_status() -> None:
    def statuses(beginning: str) -> set[int]:
        [row] = [row for row in (ROOT / TRANSPORTS).read_text("utf-8").splitlines() if row.startswith(f"| {beginning}")]
        return {int(number) for number in re.findall(r"\b\d{3}\b", row)}

    assert statuses("3xx, 401") == UNREACHABLE_STATUSES
    assert statuses("408, 409") == {*RETRY_STATUSES, 500}
    assert statuses("502, 504, no reply") == GATEWAY_STATUSES


def test_the_page_of_transports_names_every_metric(tb: Tellback) -> None:
    families = set(re.findall(r"^# TYPE (\w+) ", render_metrics(tb), re.MULTILINE))
    short = {name.removeprefix("tellback_outbox").removesuffix("_created") for name in families}
    page = (ROOT / TRANSPORTS).read_text("utf-8")
    assert not [name for name in short if name not in page]
    assert not [event for event in TURN_EVENTS if f"`{event}`" not in page]


RECORDS = "docs/operations/records.md"
TOOL = [sys.executable, "-c", "from tellback.cli.app import main; main()"]


@pytest.mark.slow
def test_the_example_of_records_accumulates_as_the_page_shows(tmp_path: Path) -> None:
    """Three records the first time, six after the second; the gate passes, since the failure was retried."""
    shown = (ROOT / RECORDS).read_text("utf-8").partition("```console\n")[2].partition("```")[0]
    printed = ""
    for _ in range(2):
        done = run_program([sys.executable, str(ROOT / "examples" / "feedback_loop.py")], cwd=tmp_path, check=True)
        printed += f"$ python examples/feedback_loop.py\n{done.stdout}"
    assert without_versions(printed) == without_versions(shown)
    gate = [*TOOL, "gate", "--file", "feedback_record.jsonl"]
    assert subprocess.run(gate, cwd=tmp_path, stdout=subprocess.DEVNULL, check=False).returncode == 0


def without_versions(text: str) -> str:
    return re.sub(r"Python [\d.]+", "Python", text)


@pytest.mark.slow
def test_every_command_of_the_page_of_records_is_one(tmp_path: Path) -> None:
    """Without Redis, those that read a file are run; of the others the options are checked."""
    commands = [line for language, text in blocks(RECORDS) if language == "sh" for line in text.splitlines()]
    assert len(commands) == 6
    (tmp_path / "feedback_record.jsonl").touch()
    for line in commands:
        _, name, *arguments = shlex.split(line, comments=True)
        helped = run_program([*TOOL, name, "--help"], check=True).stdout
        assert not [option for option in arguments if option.startswith("--") and option not in helped]
        if "--file" in arguments and "--follow" not in arguments:
            done = run_program([*TOOL, name, *arguments], cwd=tmp_path)
            assert done.returncode == (1 if name == "gate" else 0), done.stderr


TUNING = "docs/loops/tuning-signals.md"
LOOP = "python examples/complete_feedback_loop.py"


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(240)
def test_the_complete_loop_prints_what_the_page_shows(
    settings: Settings, database: object, start_workers: StartWorkers
) -> None:
    """Requirements S-38 and S-65, through a real worker with the real model."""
    del database  # emptied
    start_workers(queues="signals,recalls", pool="threads", concurrency=2)
    done = run_program(
        [sys.executable, *LOOP.split()[1:]], cwd=ROOT, env=environment(settings), timeout=180, check=True
    )
    assert done.stdout == console(TUNING)[LOOP]


def test_the_loop_says_what_is_missing(settings: Settings, database: object) -> None:
    """Without a worker the script ends with the reason, and does not hang."""
    del database
    code = (ROOT / LOOP.split()[1]).read_text("utf-8").replace("wait=60", "wait=0.1")
    done = run_program([sys.executable, "-c", code], env=environment(settings))
    assert done.returncode != 0
    assert "worker" in done.stderr.splitlines()[-1]


def test_every_command_of_the_page_of_tuning_is_one() -> None:
    lines = [line for line in console(TUNING) if line.startswith("tellback")]
    assert len(lines) == 2
    for line in lines:
        _, name, *arguments = shlex.split(line)
        helped = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).stdout
        assert not [option for option in arguments if option.startswith("--") and option not in helped]


def test_the_pages_figures_are_those_of_the_code() -> None:
    text = (ROOT / TUNING).read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    assert rows["reference"] == f"{detection.REFERENCE}"
    assert rows["overlap"] == f"{detection.OVERLAP} × Jaccard"
    assert rows["meaning"] == f"{detection.MEANING} × cosine"
    assert rows["values"] == "{}, or {} for two and more".format(*detection.VALUES)
    assert rows["file"] == f"{detection.FILE}"
    assert rows["topic"] == f"{detection.TOPIC} × share"
    assert f"use − {detection.IGNORED} × against: above {detection.DECIDED}" in text
    assert (
        f"{detection.MAX_FACTS:,} facts, {detection.MAX_FACT:,} characters of each, {detection.MAX_RESPONSE:,}" in text
    )
    assert f"below {MIN_PAIRS} of either kind" in text
