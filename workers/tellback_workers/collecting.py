"""What a pool process has from its parent stays: it need not be looked through for garbage again and again."""

from __future__ import annotations

import gc

from celery import signals


@signals.worker_process_init.connect
def _keep(**_: object) -> None:
    gc.freeze()
