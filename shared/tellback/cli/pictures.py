"""`--plot FILE`: which file, and what stands in the way of drawing into it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import typer

from tellback.errors import ConfigurationError, InvalidInput

PICTURES: Final = (".png", ".svg", ".pdf")


def picture_file(plot: str | None) -> Path | None:
    """The file to draw into; None for the terminal, or where nothing is to be drawn."""
    if plot is None or plot == "-":
        return None
    path = Path(plot)
    if path.suffix.lower() not in PICTURES:
        raise InvalidInput(f"--plot {plot}: use a name that ends in {', '.join(PICTURES)}, or - for the terminal")
    return path


@contextmanager
def drawing(path: Path) -> Generator[None, None, None]:
    """Around the import of what draws, and the drawing: its errors in our words; where there is none, it says so.

    Raises:
        ConfigurationError: matplotlib is not installed.
        InvalidInput: the file cannot be written.
    """
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            "--plot into a file needs matplotlib: pip install 'tellback[plot]'; or use --plot -"
        ) from error
    except OSError as error:
        raise InvalidInput(f"--plot {path}: {error.strerror}") from error
    typer.echo(f"drawn into {path}", err=True)
