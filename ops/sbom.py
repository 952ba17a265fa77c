"""Write the software bill of materials of what the image installs: `python ops/sbom.py build/sbom.cdx.json`.

It lists the packages that `tellback[workers,flower,otel]` brings, in the versions of this environment: those of
constraints.txt. What only development needs is left out. The tool of CycloneDX writes and validates the file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("workers", "flower", "otel")


def closure(root: str, extras: tuple[str, ...], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the version of each package that `root` needs with these extras, itself excluded.

    What `environment` says of markers replaces what this Python is.
    """
    found: dict[str, str] = {}
    pending, done = [(root, ("", *extras))], set[tuple[str, str]]()
    while pending:
        name, wanted = pending.pop()
        for extra in wanted:
            if (name, extra) in done:
                continue
            done.add((name, extra))
            for text in distribution(name).requires or ():
                needed = Requirement(text)
                if needed.marker is not None and not needed.marker.evaluate({**(environment or {}), "extra": extra}):
                    continue
                other = canonicalize_name(needed.name)
                try:
                    found[other] = distribution(other).version
                except PackageNotFoundError:  # of another platform
                    continue
                pending.append((other, ("", *sorted(needed.extras))))
    found.pop(root, None)
    return found


def main(path: Path) -> int:
    """Write the file; return the exit code of CycloneDX' tool."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}=={version}\n" for name, version in sorted(closure("tellback", EXTRAS).items())]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.writelines(lines)
        wanted.flush()
        tool = Path(sys.executable).with_name("cyclonedx-py")
        command = [str(tool), "requirements", "--pyproject", "pyproject.toml", "--output-reproducible", "-o", str(path)]
        return subprocess.run([*command, wanted.name], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
