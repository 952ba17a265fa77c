"""See that this machine has the programs that pip cannot give, installing Debian's packages where that can be done.

`debian.py test` is for what the tests need, `debian.py lint` and `debian.py proofs` for those checks. Silent where all
is there. Without a program, what needs it is left out with a reason; in continuous integration that is an error.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Group -> package -> what needs it.
GROUPS = {
    "test": {
        "chromium": "the browser tests",
        "faketime": "the tests of stepping server clocks",
        "gcc": "the clock of simulated runs",
        "iproute2": "the tests of several hosts",
        "redis-tools": "the tests of TLS",
    },
    "lint": {"lua-check": "the check of the Lua scripts"},
    "proofs": {"spin": "the proofs of the protocols", "gcc": "the proofs of the protocols"},
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
COMPILER = ("gcc", "libc6-dev")  # `--no-install-recommends` leaves the headers out
APT = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300")  # another apt-get may be at work


def main() -> int:
    """Return 0, or in continuous integration 1 if something is missing in the end."""
    wanted = GROUPS[sys.argv[1]]
    missing = [package for package in wanted if not _present(package)]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"set-up: installing Debian's {' and '.join(missing)}", flush=True)
        _install([name for package in missing for name in (COMPILER if package == "gcc" else (package,))])
        missing = [package for package in missing if not _present(package)]
    for package in missing:
        reason = f"set-up: no {package}, and it could not be installed, so this is left out: {wanted[package]}"
        print(reason, file=sys.stderr)
    return 1 if missing and os.environ.get("CI") else 0


def _present(package: str) -> bool:
    if package == "chromium":
        return any(shutil.which(name) for name in BROWSERS)
    if package == "faketime":
        return any(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    program = {"iproute2": "ip", "lua-check": "luacheck", "redis-tools": "redis-check-rdb"}.get(package, package)
    return shutil.which(program) is not None


def _install(packages: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    steps = (
        ["dpkg", "--configure", "-a"],  # fixes what an interrupted installation left
        [*APT, "update"],
        [*APT, "install", "--no-install-recommends", *packages],
    )
    for step in steps:
        done = subprocess.run(
            step, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"set-up: `{' '.join(step)}` failed: {done.stderr.strip()[-500:]}", file=sys.stderr)
            return


if __name__ == "__main__":
    sys.exit(main())
