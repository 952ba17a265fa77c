"""A process of agent hosts that publish tool calls at a steady rate: the load beneath a measured call."""

from __future__ import annotations

import sys
import time

from benchmarks.arrivals import arrivals
from tellback import FeedbackProviderConfig, FeedbackTrigger, StaticFeedback, connect
from tellback.settings import load

SESSIONS = 16
EVERY = 10


def main(rate: float, seconds: float) -> None:
    """Say when it begins, then publish `rate` calls a second for this long; each tenth of a prompt earns feedback."""
    reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=EVERY))
    stamp = time.time_ns()
    with connect(settings=load()) as tb:
        prompts = [tb.prompt(f"load-{stamp}-{n}", "p", feedback_providers=[reminder]) for n in range(SESSIONS)]
        tb.flush()
        print("begun", flush=True)
        for n, _ in enumerate(arrivals(rate, round(rate * seconds), 1)):
            prompts[n % SESSIONS].tool_invoked("search", params={"query": "ruby creator", "page": n}, result="found")


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
