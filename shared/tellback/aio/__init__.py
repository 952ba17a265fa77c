"""The API of `tellback` for asyncio: `async with tellback.aio.connect() as tb`.

You await every method and read every iterator with `async for`. The classes are built when this package is imported,
so type checkers read `__init__.pyi`, which `python -m tellback.aio.stubs` generates from the client's source. A test
compares the two.
"""

from tellback.aio.proxy import CLASSES, PendingConnection, close, connect

_named = {cls.__name__: made for cls, made in CLASSES.items()}
Bank, DeadLetters, Job, OutboxDelivery, Prompt, SignalSession, Tellback, Turn = (
    _named[name] for name in sorted(_named)
)
for _made in _named.values():
    _made.__module__ = __name__
Tellback.close = close

__all__ = [
    "Bank",
    "DeadLetters",
    "Job",
    "OutboxDelivery",
    "PendingConnection",
    "Prompt",
    "SignalSession",
    "Tellback",
    "Turn",
    "connect",
]
