"""The surface of `tellback` for asyncio: `async with tellback.aio.connect() as tb`.

Every method is awaited; what yields is read with `async for`. `__init__.pyi` says the types: it is made from the
client's classes by `python -m tellback.aio.stubs`, and a test compares the two.
"""

from tellback.aio.connecting import Connecting, close, connect
from tellback.aio.proxy import CLASSES

_named = {cls.__name__: made for cls, made in CLASSES.items()}
Bank, DeadLetters, Job, OutboxDelivery, Prompt, SignalSession, Tellback, Turn = (
    _named[name] for name in sorted(_named)
)
for _made in _named.values():
    _made.__module__ = __name__
Tellback.close = close

__all__ = [
    "Bank",
    "Connecting",
    "DeadLetters",
    "Job",
    "OutboxDelivery",
    "Prompt",
    "SignalSession",
    "Tellback",
    "Turn",
    "connect",
]
