"""Secrets and stack traces, thrown at whatever may show them."""

from __future__ import annotations

import random
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

from tellback import TurnContext, Words
from tellback.redaction import find_secret
from tellback.turns.fallback_text import KEYS
from tests.support.secrets import FORMED, draw
from tests.support.systems import IdleSystem

PYTHON: Final = """Traceback (most recent call last):
  File "/srv/inner/agent.py", line 17, in step
    connect("{0}")
  File "/srv/inner/db.py", line 4, in connect
    raise RuntimeError(dsn)
RuntimeError: {0}"""
JAVA: Final = """java.lang.IllegalStateException: {0}
\tat inner.Agent.step(Agent.java:17)
\tat inner.Loop.run(Loop.java:4)
Caused by: java.io.IOException: {0}
\t... 12 more"""
NODE: Final = "Error: {0}\n    at step (/srv/inner/agent.js:17:4)\n    at async run (/srv/inner/loop.js:4:1)"
FORMS: Final = ("{0}", PYTHON, JAVA, NODE, "boom {0} boom", "line one\n{0}\nline three", "{0}\x1b[31m\x00\r\n{0}")
MARKS: Final = ("Traceback", 'File "', "/srv/inner", "Agent.java", "agent.js", "at inner.", "... 12 more")


@cache
def secrets() -> list[str]:
    """Return a secret of each form of one line."""
    rng = random.Random(7)
    drawn = (draw(rng, template) for template in FORMED.values())
    return [text for text in drawn if find_secret(text) and "\\n" not in text]


TEXTS: Final = {Words(default=language).say(key) for language in Words().languages for key in KEYS}
"""All that a user may receive where there is no answer."""


def _leak(form: str, secret: str) -> tuple[str, str]:
    return form.format(secret), secret


leaks = st.builds(_leak, st.sampled_from(FORMS), st.deferred(lambda: st.sampled_from(secrets())))
"""A text with a secret in it, and the secret."""


def shown(text: str, secret: str) -> list[str]:
    """List the marks of a secret, or of a stack trace, in a text that should show neither."""
    return [mark for mark in (secret, *MARKS) if mark in text]


class Blurts(IdleSystem):
    """Raises, or leaves behind, what nobody should see."""

    def __init__(self, text: str, how: str, order: float) -> None:
        self.text = text
        self.how = how
        self.order = order

    def process(self, context: TurnContext) -> None:
        if self.how == "raises":
            raise type(self.text[:40].replace("\0", ""), (Exception,), {})(self.text)
        if self.how == "nests":
            raise ValueError(self.text) from KeyError(self.text)
        if self.how == "field":
            spoilt: Any = self.text
            context.outgoing_response = spoilt
        else:
            context.failure_code = self.text
