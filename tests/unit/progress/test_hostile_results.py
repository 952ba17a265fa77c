"""Results that make an expression try very many ways cost linear time (G-292); others would run into the time limit."""

from __future__ import annotations

import pytest

from tellback.guidance.progress.output import printed_by
from tellback.guidance.progress.substance import without_places


def test_digits_beside_the_meter_of_curl_are_read_at_once() -> None:
    """Each such line took over a second."""
    digits = f"{'1' * 80}\n" * 400
    assert printed_by(f"  % Total    % Received % Xferd\n{digits}end") == f"{digits}end"


@pytest.mark.parametrize("blank", ["\n", " \n", "\t"])
def test_blank_lines_are_read_at_once(blank: str) -> None:
    text = blank * 100_000
    assert without_places(f"{text}x") == f"{text}x"
