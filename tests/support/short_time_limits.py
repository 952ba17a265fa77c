"""The workers' app with other time limits of its tasks: the soft and the hard one in `LIMITS`, in seconds; 0 is none.

Give it to `Workers` as `app`.
"""

from __future__ import annotations

import os

from tellback_workers.app import app  # which `celery -A` finds here

LIMITS = "TELLBACK_TEST_LIMITS"

if LIMITS in os.environ:  # a worker: who imports the name alone changes nothing
    _soft, _hard = map(float, os.environ[LIMITS].split(","))
    app.conf.update(task_soft_time_limit=_soft or None, task_time_limit=_hard or None)
