"""A worker whose settings name what it cannot load does not start: later it could only fail each drain.

Nor does one in which two packages bring providers of one name: nobody could tell which of them a host means.
"""

from __future__ import annotations

from celery import signals

from tellback.errors import ConfigurationError
from tellback.guidance.registry import load_registry
from tellback.settings import load
from tellback_workers.turn_systems import pipeline_of


@signals.celeryd_init.connect
def _check(**_: object) -> None:
    try:
        settings = load()
        load_registry(settings.providers)
        pipeline_of(settings, custom=True)
    except ConfigurationError as error:
        raise SystemExit(f"tellback: {error}") from error
