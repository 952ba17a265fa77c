"""The findings of the doctor, by check."""

from __future__ import annotations

from tellback.doctor.examination import run_checks
from tellback.doctor.infrastructure import DoctorFinding
from tellback.settings import Settings


def found(settings: Settings, *, url_given: bool = False) -> dict[str, DoctorFinding]:
    """Return what each check of the doctor finds."""
    return {finding.check: finding for finding in run_checks(settings, url_given=url_given)}
