"""Each script that writes says whether Redis may run it at its `maxmemory`."""

from __future__ import annotations

import re

import pytest

from tellback.state.generate_scripts import script_names
from tellback.state.lua_text import script_text

LETS_IN = {  # new obligations and events, and what can wait: refused at maxmemory
    "append_events", "open_turn", "replay_dead", "publish_output", "put_embeddings", "set_threshold",
    "put_reembedded_fact", "put_reembedded_clusters", "switch_model", "begin_decay", "decay_clusters", "decay_facts",
    "end_decay", "waive_record", "admit",
}  # fmt: skip
READS = {
    "bank_stats", "load_bank", "load_facts", "next_clusters", "next_facts", "peek_entries", "rank_facts",
    "read_usefulness", "shard_work",
}  # fmt: skip


@pytest.mark.parametrize("name", script_names())
def test_what_acknowledges_answers_or_frees_runs_in_a_full_redis_and_nothing_else(name: str) -> None:
    """A new script is put into one of the sets, or begins with `-- flags: allow-oom`."""
    text = script_text(name)
    assert text.startswith("#!lua flags=allow-oom\n") != (name.partition("/")[2] in LETS_IN | READS)
    assert text.count("#!lua") <= 1, "the line must open the whole text"
    assert "flags:" not in re.sub(r"\A.*\n", "", text)
