"""A worker whose setting names providers that it cannot load does not start: later it could only fail each drain."""

from __future__ import annotations

from celery import signals

from tellback.errors import ConfigurationError
from tellback.guidance.registry import load_registry
from tellback.settings import load


@signals.celeryd_init.connect
def _check(**_: object) -> None:
    named = load().providers
    if not named:
        return
    try:
        load_registry(named)
    except ConfigurationError as error:
        raise SystemExit(f"tellback: {error}") from error
