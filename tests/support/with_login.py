"""The entry point of our containers, to be run without one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

LOGIN: Final = Path(__file__).parents[2] / "ops" / "with-login.sh"


def with_login(folder: Path, secrets: Path, user: str = "") -> Path:
    """The script of the image, which reads its secrets elsewhere and continues as another user, or as the same."""
    folder.mkdir()
    script = LOGIN.read_text().replace("/run/secrets", str(secrets)).replace("/var/lib/tellback", str(folder))
    if not user:
        script = script.replace('[ "$(id -u)" = 0 ]', "false")
    path = folder / "with-login"
    path.write_text(script.replace("=tellback ", f"={user} "))
    path.chmod(0o755)
    return path
