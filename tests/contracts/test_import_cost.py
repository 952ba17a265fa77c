"""What `import tellback` costs an agent host: little, and no library that the host may not have."""

import json
import subprocess
import sys
from collections.abc import Mapping

HEAVY = ("celery", "kombu", "torch", "sentence_transformers", "numpy", "redis", "typer", "rich", "prometheus_client")
ENOUGH, PATIENCE = 5, 40  # rounds


def test_import_tellback_loads_no_heavy_library() -> None:
    loaded = _fresh(f"import json, sys, tellback; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))")
    assert loaded == []


def test_import_tellback_costs_at_most_one_and_a_half_times_import_redis() -> None:
    """The best of many interleaved runs of each: what is left when the machine's other work is subtracted."""
    best = {"tellback": float("inf"), "redis": float("inf")}
    for round_ in range(PATIENCE):
        for module, before in best.items():
            best[module] = min(before, _seconds_to_import(module))
        if round_ >= ENOUGH and _ratio(best) <= 1.5:
            break
    assert _ratio(best) <= 1.5, best


def _ratio(best: Mapping[str, float]) -> float:
    return best["tellback"] / best["redis"]


def _seconds_to_import(module: str) -> float:
    seconds = _fresh(f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)")
    assert isinstance(seconds, float)
    return seconds


def _fresh(code: str) -> object:
    """Run code in a fresh interpreter and return the JSON value it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_star_import_brings_what_is_exported() -> None:
    code = "from tellback import *; print(connect, SignalItem, FeedbackProviderConfig.__name__, DeadlineFeedback())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
