"""One trace from an agent's call to its effect, as a collector gets it from real hosts and real workers.

Requirement A-110.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tellback import Tellback, connect
from tellback.cli.metrics import _export_forever
from tellback.settings import Settings
from tests.support.commands import running_beat
from tests.support.hooks import run_hook, tool_event
from tests.support.otlp import OtlpReceiver, ReceivedSpan, otlp_receiver
from tests.support.processes import run_program
from tests.support.turns import HELLO, opened
from tests.support.waiting import wait_until
from tests.support.workers import StartWorkers, Workers, environment

INTERNAL, PRODUCER, CONSUMER = 1, 4, 5
GITHUB_TOKEN = "ghp_" + "Zx8Qw3Lm5Tn7Vb2Kp9Rc4Yd6Hf1Gs0JaUe3i"
TRACED = {"TELLBACK_TRACING": "true"}


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as found:
        yield found


@pytest.fixture
def traced_workers(receiver: OtlpReceiver, start_workers: StartWorkers, tmp_path: Path) -> Workers:
    return start_workers(1, env={**TRACED, **receiver.env, "TELLBACK_COMMAND_ROOTS": str(tmp_path)})


def run_host(settings: Settings, receiver: OtlpReceiver, body: str, **env: str) -> Any:
    """Run an agent host as a process of its own; return what it prints as JSON."""
    program = f"import json, sys, tellback\nwith tellback.connect() as tb:\n{body}"
    done = run_program(
        [sys.executable, "-c", program], env=environment(settings, {**TRACED, **receiver.env, **env}), check=True
    )
    return json.loads(done.stdout or "null")


CALL = """
    tool = tellback.FeedbackProviderConfig(tellback.ToolUsageMonitor(), tellback.FeedbackTrigger(every_n_calls=1))
    prompt = tb.prompt("s1", "research", feedback_providers=[tool])
    prompt.observe("wikipedia", params={"q": "x"}, result="r", call_id="c1", duration_ms=250)
    print(json.dumps(len(prompt.feedback(wait=20))))
"""


def only(spans: list[ReceivedSpan]) -> ReceivedSpan:
    (span,) = spans
    return span


@pytest.mark.usefixtures("traced_workers")
def test_one_trace_leads_from_a_tool_call_to_its_feedback(settings: Settings, receiver: OtlpReceiver) -> None:
    """A call, its event's publication and application, and the delivery of what it earned, each within the other."""
    assert run_host(settings, receiver, CALL) == 1
    call, delivered = only(receiver.wait_for("execute_tool wikipedia")), only(receiver.wait_for("deliver feedback"))
    published = only([span for span in receiver.wait_for("publish events", 2) if span.parent == call.id])
    # Not by its parent: a worker that came late applies an event again, without effect, in a span of its own.
    applied = only([span for span in receiver.wait_for("apply events", 2) if span.id == delivered.parent])
    assert applied.parent == published.id
    assert {span.trace for span in (published, applied, delivered)} == {call.trace}
    assert [span.kind for span in (call, published, applied, delivered)] == [INTERNAL, PRODUCER, CONSUMER, CONSUMER]
    assert [span.service for span in (published, applied)] == ["tellback-host", "tellback-worker"]
    assert call.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "wikipedia",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.conversation.id": "s1",
    }
    assert 250_000_000 <= call.end - call.start < 60_000_000_000
    assert published.attributes["messaging.destination.name"] == "events"
    assert published.attributes["tellback.event.type"] == "ToolInvoked"
    assert applied.attributes["messaging.message.id"] == published.attributes["messaging.message.id"]
    assert applied.attributes["tellback.task.name"] == "tellback.consume"
    assert {"tellback.task.id", "tellback.intake.entry", "messaging.destination.partition.id"} <= set(
        applied.attributes
    )
    assert delivered.attributes["tellback.feedback.provider"] == "ToolUsageMonitor"


@pytest.mark.usefixtures("traced_workers")
def test_a_command_runs_in_the_trace_of_its_submission(settings: Settings, receiver: OtlpReceiver) -> None:
    body = """
    job = tb.submit([sys.executable, "-c", "raise SystemExit(3)", "--token-of", "nobody"], session="s1")
    print(json.dumps([job.command_id, job.wait(timeout=60).exit_code]))
"""
    command_id, code = run_host(settings, receiver, body)
    assert code == 3
    ran = only(receiver.wait_for("execute_tool command"))
    applied, published = only(receiver.wait_for("apply commands")), only(receiver.wait_for("publish commands"))
    assert (ran.parent, applied.parent, {ran.trace, applied.trace}) == (applied.id, published.id, {published.trace})
    assert ran.failed
    assert ran.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "command",
        "gen_ai.tool.type": "extension",
        "gen_ai.tool.call.id": command_id,
        "gen_ai.conversation.id": "s1",
        "process.executable.name": Path(sys.executable).name,
        "process.exit.code": 3,
        "error.type": "3",
        "tellback.command.attempt": 1,
    }


def test_answers_and_fallbacks_are_in_the_trace_of_their_turn(
    settings: Settings, receiver: OtlpReceiver, traced_workers: Workers, tmp_path: Path
) -> None:
    """One turn is answered by another process than the one that opened it, the other one by the sweep."""
    body = """
    turns = [
        tb.open_turn(channel="web", conversation=c, message_id="m", text="hi", answer_within=seconds)
        for c, seconds in (("a", 600), ("b", 1))
    ]
    print(json.dumps([turn.id for turn in turns]))
"""
    with running_beat(settings, tmp_path):
        answered, left = run_host(settings, receiver, body)
        respond = f'    tb.turn("{answered}").respond(tellback.OutgoingResponse.text_only("yes"))'
        run_host(settings, receiver, respond)
        spans = receiver.wait_for("answer turn", 2)
    opening = {span.attributes["tellback.turn.id"]: span for span in receiver.wait_for("open turn", 2)}
    by_turn = {span.attributes["tellback.turn.id"]: span for span in spans}
    for turn, kind in ((answered, "answer"), (left, "fallback")):
        assert by_turn[turn].parent == opening[turn].id
        assert by_turn[turn].trace == opening[turn].trace
        assert by_turn[turn].attributes["tellback.turn.answer"] == kind
        assert by_turn[turn].attributes["gen_ai.conversation.id"] == ("a" if turn == answered else "b")
    line = next(line for line in traced_workers.log().splitlines() if left in line and "FeedbackGuarantee" in line)
    assert f"trace_id={by_turn[left].trace}" in line
    assert f"span_id={by_turn[left].id}" in line


def test_an_agents_own_spans_are_the_parents(settings: Settings, receiver: OtlpReceiver, tb: Tellback) -> None:
    """A host with OpenTelemetry of its own keeps its provider; a tool span around the call is not doubled."""
    body = """
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.resources import Resource
    provider = TracerProvider(resource=Resource({"service.name": "agent"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    tracer, prompt = trace.get_tracer("agent"), tb.prompt("s1", "p")
    with tracer.start_as_current_span("invoke_agent"):
        prompt.tool_invoked("inner", status="error")
    with tracer.start_as_current_span("execute_tool own", attributes={"gen_ai.operation.name": "execute_tool"}):
        prompt.tool_invoked("own")
"""
    run_host(settings, receiver, body)
    agent, own = only(receiver.wait_for("invoke_agent")), receiver.named("execute_tool own")
    inner = only(receiver.wait_for("execute_tool inner"))
    assert (inner.parent, inner.failed, inner.service) == (agent.id, True, "agent")
    assert len(own) == 1
    assert own[0].id in {span.parent for span in receiver.named("publish events")}
    assert tb.history("s1") == []


@pytest.mark.usefixtures("traced_workers")
def test_what_a_hook_publishes_is_in_the_trace_of_the_agents_program(
    settings: Settings, receiver: OtlpReceiver
) -> None:
    """Hooks get its context by the environment. One that is malformed, or too long for a message, counts as none."""
    context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    given = {"none": context, "malformed": "00-4bf9", "long": "0" * 200, "context": context}
    for call_id, traceparent in given.items():
        tracing = {} if call_id == "none" else TRACED
        run_hook(settings, tool_event(call_id), env={**tracing, "TRACEPARENT": traceparent, "TELLBACK_HOOK_WAIT": "5"})
    applied = only(receiver.wait_for("apply events"))
    assert (applied.trace, applied.parent) == ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
    assert applied.attributes["messaging.message.id"].endswith("context")
    with connect(settings.redis_url, team=settings.team) as tb:
        assert [entry["kind"] for entry in tb.history("s1")].count("tool_call") == len(given)


@pytest.mark.usefixtures("traced_workers")
def test_no_secret_is_in_an_attribute(settings: Settings, receiver: OtlpReceiver) -> None:
    body = f"""
    secret = "{GITHUB_TOKEN}"
    prompt = tb.prompt("session " + secret, "p")
    prompt.tool_invoked("tool " + secret, call_id="call " + secret, params={{"k": secret}}, result=secret, error=secret)
    tb.open_turn(channel="web", conversation="with " + secret, message_id="m", text=secret)
"""
    run_host(settings, receiver, body)
    receiver.wait_for("apply events", 2)
    receiver.wait_for("open turn")
    assert not any(GITHUB_TOKEN.encode() in body for body in receiver.bodies("/v1/traces"))


def test_what_nobody_traced_has_no_span(
    tb: Tellback, receiver: OtlpReceiver, traced_workers: Workers, settings: Settings
) -> None:
    """Events without a context, and with one that is none, are applied as ever."""
    prompt = tb.prompt("s1", "p")
    prompt.tool_invoked("plain")
    tb.flush()
    wait_until(lambda: len(tb.history("s1")) == 1, "the call is applied")
    shard = tb.context.layout.of("s1")
    event = {
        "type": "ToolInvoked", "event_id": "x-1", "session": "s1", "evaluation": prompt.evaluation, "prompt": "p",
        "tool": "odd", "traceparent": "no trace context",
    }  # fmt: skip
    tb.context.database.command("XADD", shard.key("in", "events"), "*", "m", msgspec.json.encode(event))
    wait_until(lambda: len(tb.history("s1")) == 2, "the odd one too")
    assert tb.dead.count() == 0
    run_host(settings, receiver, CALL)
    receiver.wait_for("deliver feedback")
    assert len(receiver.named("apply events")) == 2  # those of the traced host alone
    assert traced_workers.processes


def test_an_unsampled_trace_is_not_exported(settings: Settings, receiver: OtlpReceiver) -> None:
    run_host(settings, receiver, CALL.replace("wait=20", "wait=0"), OTEL_TRACES_SAMPLER="always_off")
    assert receiver.spans() == []


def test_a_collector_that_hangs_delays_the_end_of_no_process(
    settings: Settings, start_workers: StartWorkers, tmp_path: Path
) -> None:
    """Requirement A-645. A host took 33 s to end and a worker 31 s: the SDK waits as long, whatever it is told."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # it accepts connections, and never answers
        collector = {**TRACED, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{hanging.getsockname()[1]}"}
        workers = start_workers(1, env={**collector, "TELLBACK_COMMAND_ROOTS": str(tmp_path)})
        program = (
            "import tellback\n"
            "with tellback.connect() as tb:\n"
            "    prompt = tb.prompt('s1', 'p')\n"
            "    for number in range(1_000):\n"
            "        prompt.tool_invoked(f't{number}')\n"
            "    tb.submit(['true'], session='s1').wait(timeout=60)\n"
            "print('done', flush=True)\n"
        )
        env = environment(settings, collector)
        with subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE) as host:
            assert host.stdout is not None
            assert host.stdout.read(5) == b"done\n"
            host.wait(60)
        [worker] = workers.processes
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)


def test_a_collector_that_hangs_does_not_delay_the_end_of_the_export_of_metrics(settings: Settings) -> None:
    """Requirement A-602. It took twice the exporter's timeout, and a container's engine kills after ten seconds."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        collector = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{hanging.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "600",
            "OTEL_METRIC_EXPORT_INTERVAL": "100",
        }
        command = [str(Path(sys.executable).with_name("tellback")), "metrics", "--otlp"]
        with subprocess.Popen(command, env=environment(settings, collector)) as exporting:
            try:
                connection, _ = hanging.accept()
                with connection:
                    exporting.terminate()
                    assert exporting.wait(30) == 0
            finally:
                exporting.kill()


def test_an_export_of_metrics_that_fails_ends_with_its_error(tb: Tellback, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised in another thread than the one that waits for a signal."""

    def fail(*_arguments: object) -> None:
        raise ValueError("no such exporter")

    monkeypatch.setattr("tellback.cli.otlp_metrics.export_until", fail)
    monkeypatch.setattr("tellback.cli.metrics.stop_event", threading.Event)
    with pytest.raises(ValueError, match="no such exporter"):
        _export_forever(tb, None)


def test_without_the_setting_nothing_is_imported(settings: Settings, receiver: OtlpReceiver) -> None:
    """Tellback imports none of it; redis-py by itself imports the SDK's metrics wherever they are installed."""
    body = """
    tb.prompt("s1", "p").tool_invoked("t")
    ours = ("opentelemetry.exporter", "opentelemetry.sdk.trace")
    print(json.dumps([name for name in sys.modules if name.startswith(ours)]))
"""
    assert run_host(settings, receiver, body, TELLBACK_TRACING="false") == []
    assert receiver.server.requests == []


def test_a_turn_keeps_its_context_only_if_it_was_traced(tb: Tellback) -> None:
    turn = opened(tb)
    turn.respond(HELLO)
    key = tb.context.layout.of_turn(turn.channel, turn.conversation).key("turn", turn.id)
    assert b"id" in tb.context.database.command("HKEYS", key)
    assert b"trace" not in tb.context.database.command("HKEYS", key)


def test_metrics_by_otlp_are_those_of_a_scrape(settings: Settings, receiver: OtlpReceiver) -> None:
    """Counters, gauges and histograms come from the collector that Prometheus scrapes."""
    with connect(settings=settings) as tb:
        turn = opened(tb)
        turn.respond(HELLO)
    interval = {"OTEL_METRIC_EXPORT_INTERVAL": "100"}
    exporting = subprocess.Popen(
        [str(Path(sys.executable).with_name("tellback")), "metrics", "--otlp"],
        env=environment(settings, {**receiver.env, **interval}),
    )
    try:
        wait_until(lambda: "tellback_turn_events_total" in receiver.metrics(), "metrics arrived")
    finally:
        exporting.terminate()
        exporting.wait(60)
    assert exporting.returncode == 0
    found = receiver.metrics()
    counted = found["tellback_turn_events_total"].sum
    events = {point.attributes[0].value.string_value: point.as_int for point in counted.data_points}
    assert (events["opened"], events["answered"], events["fallback"]) == (1, 1, 0)
    assert counted.is_monotonic
    assert found["tellback_up"].gauge.data_points[0].as_int == 1
    first = found["tellback_turn_first_answer_seconds"]
    answer = next(point for point in first.histogram.data_points if point.attributes[0].value.string_value == "answer")
    assert (answer.count, sum(answer.bucket_counts), len(answer.bucket_counts)) == (
        1,
        1,
        len(answer.explicit_bounds) + 1,
    )
    assert not answer.HasField("max")
    assert first.unit == "s"
