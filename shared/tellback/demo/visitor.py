"""The second agent host of `tellback demo`: it opens a turn for a user's message and is killed while it works."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Final

import tellback

ASKED: Final = "Where is my parcel?"


def main() -> None:
    """Open the turn, report it on standard output, and pretend to work until killed."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    with tellback.connect() as tb:
        turn = tb.open_turn(
            channel=given["channel"],
            conversation="ben",
            message_id="1",
            text=ASKED,
            answer_within=given["answer_within"],
            session=given["session"],
        )
        event = {"step": "turn", "pid": os.getpid(), "turn": turn.id, "text": ASKED, "state": turn.state}
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()
        while True:  # stands for the agent's work
            time.sleep(1)


if __name__ == "__main__":
    main()
