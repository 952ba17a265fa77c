"""Flower's `/metrics` behind its password: Flower leaves that page open, and it names workers and tasks."""

from __future__ import annotations

import sys
from typing import Any, Final

_MODULE: Final = "flower.views.monitor"


def require_password() -> None:
    """Ask for Flower's password at `/metrics`, in the process of Flower, which has loaded the page before the app."""
    page: Any = getattr(sys.modules.get(_MODULE), "Metrics", None)
    if page is not None:
        page.prepare = _authenticate


def _authenticate(request: Any) -> None:
    _ = request.current_user  # raises 401 if there is a password and the request has another or none
