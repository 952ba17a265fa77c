"""Write the pins of the images with their hashes: `python ops/pins.py ops/pins`.

A file has the packages that an image or its build installs, in the versions of this environment (those of
constraints.txt), and the hashes of the files that pip takes for the images' Python on x86-64 and arm64. torch is left
out: its builds for CPU and for CUDA are different files under one version, and which of them there is depends on the
index; so are the packages that only a build for CUDA needs. No file names an index: any may serve these files, and no
others.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name
from sbom import EXTRAS, closure

PYTHON: Final = "3.13"  # of ops/Dockerfile
PLATFORMS: Final = ("x86_64", "aarch64")
TORCH: Final = re.compile(r"torch|triton|(nvidia|cuda)-.*")  # it, and what its builds for CUDA bring


def main(folder: Path) -> None:
    """Write the files."""
    files = pins()
    wanted = {name: pinned for each in files.values() for name, pinned in each.items()}
    hashes: dict[str, set[str]] = {name: set() for name in wanted}
    for platform in PLATFORMS:
        for name, digest in _hashes(wanted, platform):
            hashes[name].add(digest)
    folder.mkdir(exist_ok=True)
    for file, each in files.items():
        lines = [
            f"{name}=={pinned}" + "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(hashes[name]))
            for name, pinned in sorted(each.items())
        ]
        (folder / file).write_text("".join(f"{line}\n" for line in lines))


def pins() -> dict[str, dict[str, str]]:
    """Return the packages of each file, with their versions."""
    at = {"python_version": PYTHON, "python_full_version": f"{PYTHON}.0"}
    image = closure("tellback", EXTRAS, at)
    return {
        "image.txt": {name: pinned for name, pinned in image.items() if not TORCH.fullmatch(name)},
        "host.txt": closure("tellback", (), at),
        "build.txt": {"hatchling": version("hatchling"), **closure("hatchling", (), at)},
    }


def _hashes(wanted: dict[str, str], platform: str) -> list[tuple[str, str]]:
    """Return the name and SHA-256 of the file of each pin that pip would install on a platform."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        command += ["--only-binary=:all:", f"--python-version={PYTHON}", f"--target={folder}", f"--report={report}"]
        command += [f"--platform=manylinux_2_{glibc}_{platform}" for glibc in range(28, 16, -1)]
        command += [f"--platform=manylinux2014_{platform}"]
        subprocess.run([*command, *(f"{name}=={pinned}" for name, pinned in wanted.items())], check=True)
        found: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    return [
        (canonicalize_name(each["metadata"]["name"]), str(each["download_info"]["archive_info"]["hashes"]["sha256"]))
        for each in found
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
