"""`tellback up` is ready when the embedding model is: no first signal or recall waits for it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tellback.state.database import Database
from tellback.state.presence import Presence
from tests.support.up import RunningUp
from tests.support.waiting import wait_until


@pytest.mark.slow  # torch is loaded
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("model", "state"), [("", "loaded"), ("/nowhere", "failed")])
def test_up_is_ready_when_the_model_is_or_says_that_it_does_not_load(tmp_path: Path, model: str, state: str) -> None:
    with RunningUp.start(tmp_path, env={"TELLBACK_MODEL_PRELOAD": "true", "TELLBACK_MODEL": model}) as up:
        with closing(Database(up.redis_url)) as database:
            found = {worker.pid: worker.preload for worker in Presence(database, "default").all_workers()}
        assert found.pop(up.pids["model"]) == state
        assert set(found.values()) == {""}, "no other kind of worker loads it"
        if state == "failed":
            wait_until(lambda: "the embedding model does not load" in up.errors, "the line about it")
        else:
            assert up.errors == ""
