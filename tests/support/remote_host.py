"""An agent host: `python -m tests.support.remote_host WHO FOLDER`; it publishes until the file `enough` is in FOLDER.

It makes tool calls, commands and turns on a thread each, so that a call that waits for Redis holds up no other. Then it
writes what it has made into `WHO.json` and stays, as a host does, until its input ends: its client has a spool to send.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import tellback
from tellback import FeedbackProviderConfig, FeedbackTrigger, OutgoingResponse, StaticFeedback, Tellback
from tellback.client.turns import Turn
from tellback.errors import Unavailable

CHANNEL: Final = "chat"
EVALUATION: Final = ("fleet", "p", "shared")
"""Session, prompt and name of the evaluation that all hosts share."""
FIRE_EVERY: Final = 10
UNANSWERED: Final = 4
"""One turn in so many is left to the sweep, which answers its user."""
ANSWER_WITHIN: Final = 6.0
RUNS: Final = "runs"
"""The file to which each command writes its label when it begins."""
SCRIPT: Final = 'echo "$0" >> runs; sleep "$1"; printf done'


class RemoteHost:
    """The load that one host makes, and what it knows to have made."""

    def __init__(self, tb: Tellback, who: str, folder: Path) -> None:
        self._tb, self._who, self._folder = tb, who, folder
        self.calls = 0
        self.commands: dict[str, str] = {}
        """The session of each label: a session keeps 200 records."""
        self.turns: dict[str, str] = {}
        """By id: what the user is to read, or nothing if the sweep is to answer."""
        reminder = FeedbackProviderConfig(StaticFeedback("Mind the goal."), FeedbackTrigger(every_n_calls=FIRE_EVERY))
        session, prompt, name = EVALUATION
        self._prompt = tb.prompt(session, prompt, evaluation=name, feedback_providers=[reminder], delivery="all")

    def run(self) -> None:
        """Make everything until it is enough, then write down what there is."""
        threads = [
            threading.Thread(target=self._repeat, args=(every, make))
            for every, make in ((0.02, self._call), (0.4, self._submit), (0.25, self._turn))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._tb.flush()
        made = {"calls": self.calls, "commands": self.commands, "turns": self.turns}
        whole = self._folder / f"{self._who}.new"
        whole.write_text(json.dumps(made))
        whole.rename(self._folder / f"{self._who}.json")

    def _repeat(self, every: float, make: Callable[[int], None]) -> None:
        never, n = threading.Event(), 0
        while not (self._folder / "enough").exists():
            make(n)
            n += 1
            never.wait(every)

    def _call(self, n: int) -> None:
        self._prompt.tool_invoked(f"t-{self._who}", params={"n": n}, result="found")
        self.calls += 1

    def _submit(self, n: int) -> None:
        label = f"{self._who}.{n}"
        session = f"{self._who}-{n // 100}"
        self._tb.submit(["sh", "-c", SCRIPT, label, str(n % 3 * 0.5)], session=session, cwd=self._folder)
        self.commands[label] = session

    def _turn(self, n: int) -> None:
        turn = self._opened(n)
        answer = f"answer {n} of {self._who}" if n % UNANSWERED else ""
        self.turns[turn.id] = answer
        if answer:
            turn.finish(OutgoingResponse.text_only(answer))

    def _opened(self, n: int) -> Turn:
        """A transport gives a message again until its turn is open: only then does it acknowledge it."""
        never = threading.Event()
        while True:
            try:
                return self._tb.open_turn(
                    channel=CHANNEL,
                    conversation=f"c-{self._who}-{n % 5}",
                    message_id=str(n),
                    text="hi",
                    answer_within=ANSWER_WITHIN,
                )
            except Unavailable:
                never.wait(0.3)


def main() -> None:
    """Run the host that the arguments name."""
    with tellback.connect() as tb:
        RemoteHost(tb, sys.argv[1], Path(sys.argv[2])).run()
        sys.stdin.read()


if __name__ == "__main__":
    main()
