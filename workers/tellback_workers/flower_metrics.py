"""Flower's `/metrics` behind its password: Flower leaves that page open, and it names workers and tasks.

Its environment, which has the broker's login, is closed to other processes of its user too.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from tellback.process_privacy import forbid_dumps

_MODULE: Final = "flower.views.monitor"


def protect_flower() -> None:
    """Ask for the password at `/metrics` and forbid dumps, in the process of Flower, which has loaded that page."""
    page: Any = getattr(sys.modules.get(_MODULE), "Metrics", None)
    if page is not None:
        page.prepare = _authenticate
        forbid_dumps()


def _authenticate(request: Any) -> None:
    _ = request.current_user  # raises 401 if there is a password and the request has another or none
