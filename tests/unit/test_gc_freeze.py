from __future__ import annotations

import gc
from importlib import import_module

from celery import signals


def test_a_pool_process_does_not_scan_what_it_was_born_with() -> None:
    import_module("tellback_workers.celery_signals")  # it connects itself to the signal
    gc.unfreeze()
    try:
        signals.worker_process_init.send(sender=None)
        assert gc.get_freeze_count() > 1_000
    finally:
        gc.unfreeze()
