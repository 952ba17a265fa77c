"""docs/loops/guidance.md is right, beside the examples that `test_page_examples` runs."""

from __future__ import annotations

import os
import sys

from tellback import FeedbackTrigger, ProviderSpec, Tellback
from tests.support.pages import ROOT, blocks
from tests.support.processes import run_program
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers

PAGE = "docs/loops/guidance.md"
TEMPLATE = "examples/feedback_provider.py"


def test_the_reports_of_the_page_arrive(tb: Tellback, start_workers: StartWorkers) -> None:
    start_workers(1, queues="events")
    (code,) = [text for language, text in blocks(PAGE) if language == "py"]
    each = FeedbackTrigger(every_n_calls=1)
    specs = [ProviderSpec(name="ContextChangeFeedback", trigger=each)]
    maker, other = (tb.prompt("s1", name, feedback_providers=specs) for name in ("maker", "other"))
    tb.flush()
    wait_until(lambda: _known(tb, "other", other.evaluation), "the evaluations have begun")
    exec(compile(code, PAGE, "exec"), {"tb": tb, "prompt": maker})
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
    assert f'--8<-- "{TEMPLATE}"' in (ROOT / PAGE).read_text("utf-8")
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
