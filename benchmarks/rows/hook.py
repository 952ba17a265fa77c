"""The cost of one `tellback hook` process against `python -c pass`: started, published, evaluated, answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.measure import RowResult, spread
from benchmarks.system import BenchmarkSystem

RUNS = 9
EACH = 12
WARM_UP = 3
PROGRAM = Path(sys.executable).with_name("tellback")
CONFIG = """
[[providers]]
name = "StaticFeedback"
every_n_calls = 1
fields = { summary = "Mind the goal." }
"""


def measure(system: BenchmarkSystem) -> RowResult:
    system.worker("tellback_workers.app", "events")
    bench = _HookBench(system)
    for _ in range(WARM_UP):
        bench.hook()
        bench.python()
    bench.answered = bench.asked = 0
    ratios: list[float] = []
    cpu: list[float] = []
    hooks: list[float] = []
    empty: list[float] = []
    for _ in range(RUNS):
        pairs = [(bench.hook(), bench.python()) for _ in range(EACH)]
        hooks.append(median(hook.seconds for hook, _ in pairs) * 1e3)
        empty.append(median(python.seconds for _, python in pairs) * 1e3)
        ratios.append(hooks[-1] / empty[-1])
        cpu.append(sum(hook.cpu for hook, _ in pairs) / sum(python.cpu for _, python in pairs))
    return RowResult(
        name="hook",
        what="one `tellback hook post-tool-use` with a worker that answers, against `python -c pass`, elapsed time",
        ratios=ratios,
        budget=4.0,
        sense="at most",
        details=[
            f"milliseconds of a hook: {spread(hooks)};  of python -c pass: {spread(empty)}",
            f"processor time: {median(cpu):.2f} × ({min(cpu):.2f} to {max(cpu):.2f})",
            f"feedback delivered in the same call, within the default wait: {bench.answered / bench.asked:.0%}",
        ],
    )


class _Took:
    def __init__(self, seconds: float, cpu: float) -> None:
        self.seconds = seconds
        self.cpu = cpu


class _HookBench:
    def __init__(self, system: BenchmarkSystem) -> None:
        config = system.folder / "hooks.toml"
        config.write_text(CONFIG)
        self._command = [str(PROGRAM), "hook", "post-tool-use", "--prompt=bench", f"--config={config}"]
        self._env = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPYCACHEPREFIX": str(system.folder / "compiled"),  # compiled once, as pip leaves what it installs
            "TELLBACK_REDIS_URL": system.settings.redis_url,
            "TELLBACK_DATA_DIR": system.settings.data_dir,
        }
        lines = [f"/srv/app/package/module_{n}.py:{n}: def handle(self, value: int = {n}) -> None:" for n in range(60)]
        self._event = {
            "session_id": "bench",
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "grep -rn handle /srv/app/package | head -60"},
            "tool_response": {"stdout": "\n".join(lines), "stderr": "", "interrupted": False},
        }
        self.asked = 0
        self.answered = 0

    def hook(self) -> _Took:
        self.asked += 1
        event = {**self._event, "tool_use_id": f"toolu_{self.asked}_{time.monotonic_ns()}"}
        took, answer = self._run(self._command, json.dumps(event).encode())
        self.answered += bool(answer)
        return took

    def python(self) -> _Took:
        return self._run([sys.executable, "-c", "pass"], b"")[0]

    def _run(self, command: list[str], given: bytes) -> tuple[_Took, bytes]:
        before, start = os.times(), time.perf_counter()
        done = subprocess.run(command, input=given, capture_output=True, env=self._env, check=True)
        seconds, after = time.perf_counter() - start, os.times()
        used = after.children_user - before.children_user + after.children_system - before.children_system
        return _Took(seconds, used), done.stdout
