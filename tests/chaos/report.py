"""The table at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.chaos.check_commands import check_null_exits, check_records
from tests.chaos.check_guidance import check_counts, check_fires, check_never_gated
from tests.chaos.check_keeping import check_kept, check_keys, check_scripts, check_secrets
from tests.chaos.check_signals import check_decay, check_signals
from tests.chaos.check_turns import check_deliveries, check_first_answers
from tests.chaos.end_state import EndState
from tests.chaos.story import Story
from tests.chaos.verdict import ChaosVerdict
from tests.chaos.watching import Seen

SHOWN = 5
"""Violations of one invariant that are printed; all are in the file of verdicts."""


def judge(story: Story, end: EndState, seen: Seen, victims: int) -> list[ChaosVerdict]:
    """Return the verdict of each invariant, in order."""
    verdicts = [check(story, end) for check in (check_null_exits, check_counts, check_fires, check_never_gated)]
    verdicts += [check(story, end) for check in (check_first_answers, check_signals, check_decay, check_keys)]
    verdicts += [check(story, end) for check in (check_kept, check_deliveries)]
    verdicts += [check_secrets(story, end, seen), check_scripts(story, end, seen), check_records(story, end, victims)]
    return sorted(verdicts, key=lambda verdict: verdict.invariant)


def table(story: Story, applied: Mapping[str, int], verdicts: Sequence[ChaosVerdict], own_deaths: Sequence[str]) -> str:
    """Return operations by loop, faults by kind, verdicts by invariant and ends that no fault made as text."""
    lines = ["", f"{'loop':<12}{'invoked':>9}{'returned':>10}{'refused':>9}{'unknown':>9}"]
    for loop, counts in sorted(story.operations.items()):
        numbers = (counts[what] for what in ("invoked", "returned", "refused", "unknown"))
        lines.append(f"{loop:<12}{{:>9,}}{{:>10,}}{{:>9,}}{{:>9,}}".format(*numbers))
    lines += ["", f"{'fault':<24}{'times':>6}"]
    lines += [f"{kind:<24}{count:>6,}" for kind, count in sorted(applied.items())]
    lines += ["", f"{'invariant':<70}{'counted':>13}  verdict"]
    for verdict in verdicts:
        note = f" ({verdict.note})" if verdict.note else ""
        lines.append(f"{verdict.invariant:>2}  {verdict.title:<66}{verdict.counted:>13,}  {verdict.text}{note}")
        lines += [f"      {violation[:400]}" for violation in verdict.violations[:SHOWN]]
    if own_deaths:
        lines += ["", "processes that ended though no fault killed them, and were started again:", *own_deaths]
    return "\n".join(lines)
