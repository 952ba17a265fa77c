"""See that the tests have a Chromium, installing Debian's package where that can be done; silent where there is one.

Without one the browser tests are skipped with a reason; in continuous integration that is an error, here and there.
"""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
APT = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300")  # another apt-get may be at work


def main() -> int:
    """Return 0, or in continuous integration 1 where there is no browser in the end."""
    if _present():
        return 0
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("set-up: installing Debian's chromium for the browser tests", flush=True)
        _install()
    if _present():
        return 0
    print("set-up: no Chromium, and none could be installed: the browser tests cannot run", file=sys.stderr)
    return 1 if os.environ.get("CI") else 0


def _present() -> bool:
    return any(shutil.which(name) for name in NAMES)


def _install() -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    steps = (["dpkg", "--configure", "-a"], [*APT, "update"], [*APT, "install", "--no-install-recommends", "chromium"])
    for step in steps:  # the first step mends what an interrupted installation left
        done = subprocess.run(
            step, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"set-up: `{' '.join(step)}` failed: {done.stderr.strip()[-500:]}", file=sys.stderr)
            return


if __name__ == "__main__":
    sys.exit(main())
