"""The second agent host of `tellback demo`: it takes a user's message, begins to work, and is killed in the middle."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Final

import tellback

ASKED: Final = "Where is my parcel?"


def main() -> None:
    """Open the turn, tell of it, and work until the end."""
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
        told = {"step": "turn", "pid": os.getpid(), "turn": turn.id, "text": ASKED, "state": turn.state}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        while True:  # whatever it was about to find out
            time.sleep(1)


if __name__ == "__main__":
    main()
