"""ops/kubernetes by the schemas of Kubernetes' own releases, and by what a deployment of Tellback needs.

KEDA publishes no schema in a package, so its ScaledObjects are decoded into types of what they use here.
"""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import yaml

from tellback.up import system

FOLDER = Path(__file__).parents[2] / "ops" / "kubernetes"
KEDA = "keda.sh/v1alpha1"
RELEASES = ("1.32", "1.37")  # the oldest and the newest that the package has


class Trigger(msgspec.Struct, forbid_unknown_fields=True):
    """A trigger of KEDA's Prometheus scaler, whose values are texts."""

    type: Literal["prometheus"]
    metadata: dict[Literal["serverAddress", "query", "threshold", "ignoreNullValues"], str]


class ScaledSpec(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The part of a ScaledObject's spec that is used here: no `fallback`, which scales down under load."""

    scale_target_ref: dict[Literal["name"], str]
    min_replica_count: int
    max_replica_count: int
    polling_interval: int
    cooldown_period: int
    triggers: list[Trigger]


def kustomization() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    return found


def objects() -> list[dict[str, Any]]:
    return [found for name in kustomization()["resources"] for found in yaml.safe_load_all((FOLDER / name).read_text())]


def deployments() -> dict[str, dict[str, Any]]:
    return {
        each["metadata"]["name"].removeprefix("tellback-"): each["spec"]
        for each in objects()
        if each["kind"] == "Deployment"
    }


def container(spec: dict[str, Any]) -> dict[str, Any]:
    (only,) = spec["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def test_the_base_names_every_file() -> None:
    assert {*kustomization()["resources"], "kustomization.yaml"} == {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("release", RELEASES)
def test_objects_are_those_of_kubernetes(release: str) -> None:
    """A field that the API does not know fails too."""
    import kubernetes_validate  # here, because it takes 4 s

    known = [each for each in objects() if each["apiVersion"] != KEDA]
    assert {each["kind"] for each in known} == {"Deployment", "Service", "PodDisruptionBudget"}
    for each in known:
        kubernetes_validate.validate(each, release, strict=True)


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("loops", system.loops_worker("loops@%h")),
        ("commands", [part.replace(",commands.HOST", "") for part in system.commands_worker("commands@%h", "HOST")]),
        ("model", system.model_worker("model@%h")),
        ("beat", system.beat("/var/lib/tellback/beat-schedule")),
        ("flower", system.flower("0.0.0.0", 5555)),
    ],
)
def test_pods_run_the_commands_of_up(name: str, argv: system.Argv) -> None:
    assert container(deployments()[name])["args"] == list(argv)


def test_pods_are_confined() -> None:
    """Pods have read-only roots, no root, no capability, no cluster token, bounded memory, Secrets by reference."""
    assert set(deployments()) == {"loops", "commands", "model", "beat", "flower", "metrics"}
    for name, spec in deployments().items():
        pod, only = spec["template"]["spec"], container(spec)
        assert pod["automountServiceAccountToken"] is False, name
        assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001), name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }, name  # fmt: skip
        assert {"cpu", "memory"} == set(only["resources"]["requests"]), name
        assert "memory" in only["resources"]["limits"], name
        assert {mount["mountPath"] for mount in only["volumeMounts"]} >= {"/tmp", "/var/lib/tellback"}, name
        assert [list(source) for source in only["envFrom"]] == [["secretRef"]], name
        assert not [each for each in only.get("env", ()) if "PASS" in each["name"] and "value" in each], name
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"], name


def test_probes_ask_what_the_other_deployments_ask() -> None:
    for name in ("loops", "commands", "model"):
        only = container(deployments()[name])
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert f'tellback.doctor.alive worker "{name}@$(hostname)"' in shlex.join(only[probe]["exec"]["command"]), (
                name
            )
        liveness = only["livenessProbe"]
        assert liveness["periodSeconds"] * liveness["failureThreshold"] == 300, name  # as docker-compose.yml
    assert container(deployments()["beat"])["readinessProbe"]["exec"]["command"][-1] == "beat"
    assert container(deployments()["flower"])["livenessProbe"]["httpGet"]["path"] == "/healthcheck"


def test_the_page_makes_the_secrets_in_the_namespace_of_the_pods() -> None:
    """Elsewhere no pod finds them."""
    page = (FOLDER.parents[1] / "docs" / "operations" / "kubernetes.md").read_text()
    overlay = yaml.safe_load(textwrap.dedent(page.partition("```yaml\n")[2].partition("```")[0]))
    made = [line.split() for line in page.splitlines() if "create secret" in line]
    assert {tuple(words[:3]) for words in made} == {("kubectl", "--namespace", overlay["namespace"])}
    assert f"kubectl create namespace {overlay['namespace']}\n" in page


def test_every_kind_of_worker_and_beat_has_a_disruption_budget() -> None:
    budgets = {each["metadata"]["name"]: each["spec"] for each in objects() if each["kind"] == "PodDisruptionBudget"}
    assert set(budgets) == {f"tellback-{name}" for name in ("loops", "commands", "model", "beat")}
    for name, spec in budgets.items():
        assert (
            spec["selector"]["matchLabels"] == deployments()[name.removeprefix("tellback-")]["selector"]["matchLabels"]
        )
        assert spec["maxUnavailable"] == 1


def test_workers_scale_by_the_lag_of_the_intake() -> None:
    """The metrics exist: a test of alerts compares those names with what is exposed."""
    scaled = {each["metadata"]["name"]: each for each in objects() if each["apiVersion"] == KEDA}
    specs = {name: msgspec.convert(each["spec"], ScaledSpec) for name, each in scaled.items()}
    assert set(specs) == {f"tellback-{name}" for name in ("loops", "commands", "model")}
    for name, spec in specs.items():
        assert scaled[name]["kind"] == "ScaledObject"
        assert "replicas" not in deployments()[name.removeprefix("tellback-")], "each `kubectl apply` would undo KEDA's"
        assert spec.scale_target_ref == {"name": name}
        assert 1 <= spec.min_replica_count < spec.max_replica_count
        (trigger,) = spec.triggers
        assert trigger.metadata["threshold"].isdecimal()
        assert trigger.metadata["ignoreNullValues"] == "false", "no metrics would be no lag, and scale down"
    queries = " ".join(spec.triggers[0].metadata["query"] for spec in specs.values())
    for metric in ("tellback_intake_entries", "tellback_commands_queued"):
        assert metric in queries
        assert f'"{metric}"' in (Path(system.__file__).parents[1] / "cli" / "metrics_collector.py").read_text()
