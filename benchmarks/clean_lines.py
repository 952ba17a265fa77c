"""Draw lines that redaction hides in texts without live secrets, for a person to judge, and rate what was judged.

    python -m benchmarks.clean_lines draw FOLDER OUT [PART]    writes tune.tsv and measure.tsv, of 150 lines each
    python -m benchmarks.clean_lines rate OUT                  once the first column of each says "right" or "false"

Each folder in FOLDER is a package, of which one file in twenty is read: those of PART, from 0 to 19. A seeded hash puts
a package into one half, so that no line of the half that is measured resembles one that rules were tuned on. Files with
the same bytes count once. Private keys and what the five fixed patterns match are counted, not drawn.

How to judge a line. It is right if it holds a value that opens something, or would if the example or the test that it
stands in were run: a key, a token, a password, a cookie of a session, the hash of a password, the secret input of a
test vector. A literal that code or a setting uses as a password is one, however short. A line is false if all it holds
is a reference (a variable, a path, a call, a type), a placeholder ("your-key", "<token>", "***"), a word of prose or of
a page, a message, a name, an id, a mark of a page, a digest, a ciphertext, a signature, a public key or a certificate.
Who is in doubt says false.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Final

from benchmarks.scoring import Share
from tellback.redaction import SOURCE_RULES, Redactor

_SEED: Final = 20261128
_DRAWN: Final = 150
_LARGEST: Final = 2_000_000  # bytes of a file
_PARTS: Final = 20
_SHOWN: Final = 400  # characters of a line
_HALVES: Final = ("tune", "measure")
_FIXED: Final = re.compile("|".join(f"(?:{pattern})" for _, pattern in SOURCE_RULES), re.IGNORECASE)


def main(command: str, folder: str, out: str = "", part: str = "0") -> None:
    if command == "draw":
        _draw(Path(folder), Path(out), int(part))
    else:
        _rate(Path(folder))


def _draw(folder: Path, out: Path, part: int) -> None:
    out.mkdir(exist_ok=True)
    counts = {half: Counter[str]() for half in _HALVES}
    hidden: dict[str, list[str]] = {half: [] for half in _HALVES}
    for package in sorted(path for path in folder.iterdir() if path.is_dir()):
        half = _HALVES[_hashed(package.name) % 2]
        for path, text in _texts(package, part):
            lines = text.split("\n")
            counts[half]["lines"] += len(lines)
            for number, rule in sorted(Redactor().hidden_lines(text).items()):
                kind = "keys" if rule == "private-key" else "fixed" if _FIXED.search(lines[number]) else "others"
                counts[half][kind] += 1
                if kind == "others":
                    place = f"{path.relative_to(folder)}:{number + 1}"
                    hidden[half].append("\t".join(("", rule, place, _shown(lines[number]))))
    for half in _HALVES:
        drawn = random.Random(_SEED).sample(hidden[half], min(_DRAWN, len(hidden[half])))
        (out / f"{half}.tsv").write_text("\n".join(drawn), errors="backslashreplace")
    (out / "counts.json").write_text(json.dumps(counts))


def _texts(package: Path, part: int) -> Generator[tuple[Path, str]]:
    seen = set[bytes]()
    for path in sorted(package.rglob("*")):
        if _hashed(str(path.relative_to(package.parent))) % _PARTS != part:
            continue
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
            continue
        data = path.read_bytes()
        digest = hashlib.sha256(data).digest()
        if b"\0" not in data and digest not in seen:
            seen.add(digest)
            yield path, data.decode("utf-8", "replace").replace("\r\n", "\n")


def _hashed(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{_SEED}{name}".encode(errors="surrogateescape")).digest()[:8])


def _shown(line: str) -> str:
    """Return the line without tabs and without what a terminal does not show."""
    return re.sub(r"[^ -~]+", " ", line[:_SHOWN]).strip()


def _rate(out: Path) -> None:
    counts = json.loads((out / "counts.json").read_text())
    for half in _HALVES:
        judged = [row.split("\t")[0] for row in (out / f"{half}.tsv").read_text().split("\n")]
        if not {"right", "false"}.issuperset(judged):
            continue
        false = judged.count("false")
        each = counts[half]["others"] / counts[half]["lines"] * 10_000
        low, high = (bound * each for bound in Share(false, len(judged)).interval)
        print(
            f"{half}: {counts[half]}; false {false} of {len(judged)}, "
            f"in 10,000 lines {false / len(judged) * each:.2f} ({low:.2f} to {high:.2f})"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
