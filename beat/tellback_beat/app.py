"""The Celery app of beat: `celery -A tellback_beat.app beat`. It holds no task; workers do what it sends."""

from __future__ import annotations

from celery import Celery

from tellback.broker import broker_config
from tellback.settings import load
from tellback_beat.schedule import schedule

_settings = load()
app = Celery("tellback")
app.conf.update(broker_config(_settings), beat_schedule=schedule(_settings))
