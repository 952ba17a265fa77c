"""The small Python project that the agent of the demo repairs: two tests fail, for two reasons."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

SHOP: Final = '''"""Prices of a small shop, in cents."""


def discounted(price: int, percent: int) -> int:
    """The price after a discount."""
    return price - price * percent // 10


def with_shipping(price: int) -> int:
    """The price with 490 cents of shipping, which is free from 5000 cents on."""
    return price if price >= 5000 else price + 490
'''

TESTS: Final = """import unittest

from shop import discounted, with_shipping


class Prices(unittest.TestCase):
    def test_a_tenth_off(self) -> None:
        self.assertEqual(discounted(2000, 10), 1800)

    def test_broken_cents_are_rounded_down(self) -> None:
        self.assertEqual(discounted(999, 15), 849)

    def test_shipping_is_free_from_5000_cents_on(self) -> None:
        self.assertEqual(with_shipping(5000), 5000)
"""

TEST_ENVIRON: Final = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def write_project(folder: Path) -> None:
    """Write the project into an empty folder; its own pytest.ini keeps every other configuration away."""
    folder.mkdir(parents=True)
    (folder / "shop.py").write_text(SHOP)
    (folder / "test_shop.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q --no-header -p no:cacheprovider\n")


def command_of_tests(python: str) -> list[str]:
    """What runs the project's tests: pytest where it is installed, else the standard library's unittest."""
    return [python, "-m", "unittest" if find_spec("pytest") is None else "pytest"]
