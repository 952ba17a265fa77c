"""Values of Kubernetes Secrets, whose names can be anything: `settings: aHVudGVyMg==` below `data:` of `kind: Secret`.

Only a whole text shows them, since `kubectl get -o yaml` prints the data before the kind.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from tellback.lazy_pattern import lazy_pattern

RULE: Final = "kubernetes-secret"
# A text without these contains no Secret, which `in` decides much faster than a pattern that tries each line.
_WORD: Final = "Secret"
_FIELD: Final = "kind"

_KIND: Final = lazy_pattern(r"""(?im)^[\s>|"'{,+-]{0,40}"?kind"?:[ ]?"?Secret"?[ ]?,?\r?$""")
_IN_JSON: Final = lazy_pattern(r'"kind":[ ]?"Secret"')
_DATA: Final = lazy_pattern(r'(?P<indent>[ \t>|+-]{0,40})"?(?:data|stringData)"?:[ ]?\{?[ ]?\r?')
_JSON_DATA: Final = lazy_pattern(r'"(?:data|stringData)":[ ]?\{[ ]?"')
_OF_SCHEMA: Final = lazy_pattern(r'"\$ref":|"description":[ ]?"[^"]{0,80}[ ]')
_BOUNDARY: Final = lazy_pattern(r"[\s>|+]{0,20}---[ ]?\r?")


def may_hold(text: str) -> bool:
    """Return whether the text can show a Secret."""
    if _WORD not in text or (text.isascii() and _FIELD not in text.lower()):
        return False
    return _KIND.search(text) is not None or _IN_JSON.search(text) is not None


def holds_values(text: str) -> bool:
    """Return whether the text shows values of a Secret."""
    return may_hold(text) and any(True for _ in value_lines(text.split("\n")))


def value_lines(lines: Sequence[str]) -> Generator[int]:
    """Yield the numbers of the lines that hold a Secret's values, document by document."""
    start = 0
    for number in range(len(lines) + 1):
        # `in` decides nearly every line at a tenth of the cost of a pattern.
        if number == len(lines) or ("---" in lines[number] and _BOUNDARY.fullmatch(lines[number])):
            if any(_KIND.fullmatch(line) or (_WORD in line and _IN_JSON.search(line)) for line in lines[start:number]):
                yield from _values(lines, start, number)
            start = number + 1


def _values(lines: Sequence[str], start: int, end: int) -> Generator[int]:
    indent = -1  # of `data:`, while its values last
    for number in range(start, end):
        line = lines[number]
        depth = len(line) - len(line.lstrip(" \t>|+-"))
        if indent >= 0 and line.strip() and depth > indent:
            if not line.rstrip().endswith(("{", "[", ' ""', " ''")):
                if not _OF_SCHEMA.search(line):
                    yield number
                continue
            indent = -1  # a schema of Secrets: their values are texts
        found = _DATA.fullmatch(line) if "ata" in line else None
        indent = len(found["indent"]) if found else -1
        if "ata" in line and _JSON_DATA.search(line):
            yield number
