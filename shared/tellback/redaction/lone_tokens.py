"""Tokens that stand alone: the only random value of a line that speaks of a secret, or of a line below such a one.

No sign need join name and value, so this holds for programs, files and sentences that no rule was made for. In return
the value must be more random than one beside its name, and nothing may say that it is an id, a digest or a mark. What
costs least is asked first: logs and lock files are full of such values.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import cache
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.alternations import preceded_by, written_out
from tellback.redaction.substrings import Searchable
from tellback.redaction.values import NUMBERED_WORDS, RARE_LETTERS, has_random_letters, seems_random

_TOKEN: Final = 20  # characters of the shortest
_LONGEST: Final = 200
_OF_FEW_KINDS: Final = 24  # of small letters and digits, or of letters of both cases
_HEXADECIMAL: Final = 32
_BEFORE: Final = 200  # characters of its line before a value
_AFTER: Final = 120
_ABOVE: Final = 500
_ALONE: Final = 50  # characters of its line before a value that a line above names
_LAST: Final = 30
_LABEL: Final = 60
_PHRASE: Final = 40
_CHARACTERS: Final = b"+/-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TABLE: Final = bytes(ord("w") if byte in _CHARACTERS else ord(" ") for byte in range(256))
_NOT_BEFORE: Final = frozenset(".@#&%~?")  # as of attributes, addresses, anchors and URLs
_NOT_AFTER: Final = frozenset("([@~%")
_NOT_FIRST: Final = "/-_+"

PLAIN: Final = (
    *("secret", "token", "passw", "passphrase", "credential", "bearer", "authoriz", "authent"),
    *("jeton", "segredo", "geheim"),
)
_KEYS: Final = (
    *("api", "auth", "access", "private", "signing", "encryption", "account", "shared", "master", "service", "app"),
    *("admin", "client", "deploy", "webhook", "hmac", "aes", "recovery", "unseal", "session", "derived", "root", "bot"),
    "license",
)
PARTS: Final = ("auth", "cred", "pwd", "psk")
_PART: Final = lazy_pattern(r"(?<![a-z])(?:auth(?![a-z])|creds?\b|pwd)|psk\b")
# Also a service, a folder or a branch, beside which a commit, an image or an id stands.
_SERVICE: Final = lazy_pattern(r"(?<![a-z])auth(?![a-z])")
# `X-Auth: …`, and no tag of an image, `acme/auth:…`.
_HEADER: Final = lazy_pattern(r"(?<![a-z])auth[\\\"'`]{0,3}[ ]?(?::[\\\"'` ]|=)[\\\"'` ]{0,4}\Z")
# Enough for a value with small letters, capitals and digits.
_HINTS: Final = ("key", "jwt", "login", "otp", "vault", "wallet")
_HINT: Final = lazy_pattern(
    r"(?<![a-z])key(?![\w-])|[a-z_]key(?![\w-])|jwt|keyring|keychain|(?<![a-z])(?:login|otp|vault|wallet)(?![a-z])"
)
# Words that speak of what is no secret; and tokens that are marks of pages, or counted.
_OTHERWISE: Final = (
    *("fingerprint", "md5", "digest", "checksum", "integrity", "etag", "hash", "certificat"),
    *("sha1", "sha256", "sha384", "sha512", "sha-", "x509", "enc[", "cache", "ssh-", "ecdsa-", "sealed", "encrypted"),
    *("ciphertext", ".pem", "did:", "docker run", "docker create", "secretsmanager", "public key", "public-key"),
    *("publickey", "public_key", "publishable", "websocket", "dnskey", "key 257 "),
)
_OF_ONE_CASE: Final = ("commit", "checked out")  # ids of commits are hexadecimal
_MARKS: Final = (
    *("next", "page", "client", "continuation", "sync", "csrf", "idempotency", "lock", "start", "starting", "resume"),
    *("forward", "backward", "sequence", "change", "clientrequest", "client_request", "client-request"),
)
_OF_LISTS: Final = (
    *("primary", "foreign", "partition", "sort", "range", "routing", "object", "message", "duplicate", "idempotency"),
    "s3",
)
# Commands that print a commit or the id of a container.
_OF_COMMITS: Final = lazy_pattern(
    r"(?<![a-z])git[ ](?:-c[ ][^ ]{1,100}[ ])?(?:rev-parse|rev-list|log|merge-base|stash|commit-tree|write-tree"
    r"|ls-remote|describe|show[ ]-s)\b"
)
_PROGRAMS_OF_CONTAINERS: Final = ("docker", "podman", "nerdctl")
_OF_CONTAINERS: Final = lazy_pattern(
    r"(?:docker|podman|nerdctl)(?:[ -]compose)?[ ](?:ps|inspect|start|create|network|volume|service|container|build)\b"
)
_SIGNS: Final = "=:>"
_CLOSING: Final = "\\\"'`])} \t"
_OPENING: Final = " \t\\\"'`(<[{*|"
_WORD_BACKWARDS: Final = lazy_pattern(r"[\w.-]*")
_OF_IDS: Final = lazy_pattern(
    r"(?:\A|[_.-]|(?<=[a-z])(?=[A-Z]))(?i:ids?|uuid|guid|hash|digest|commit|rev|revision|version|ref|head|sha[0-9]*"
    r"|md5|etag|fingerprint|serial|name|path|file|url|uri|image|trace|span|request|node|username|host|h1|build|arn|sid"
    r"|nonce|iv|sig|mac|signature|cursor|pubkey|next|accessor|order|msg|type|class|subject|issuer|peer|job|test|run"
    r"|instance|process|thread|object|blob|tree|parent|merge|author|date|package|module|symbol|function|method|table"
    r"|column|index|bucket|region|zone|account|project|org|tenant|resource|checkpoint|offset|marker|continuation|page"
    r"|boundary)-?\Z|\.(?:py|js|ts|go|rs|rb|sh|md|c|h|so|java|json|txt|ya?ml|toml|gz|zip|deb|whl)\Z"
)
# What a sentence names by its id; before a sign, these may also be the names of secrets.
_OF_THINGS: Final = lazy_pattern(
    r"(?i:(?:\A|[_.-])(?:user|uid|session|agent|worker|conversation|document|workspace|deployment|device|member"
    r"|customer|req|pod|queue|ticket))\Z"
)
_OF_VALUES: Final = frozenset(
    (
        *("value", "val", "raw", "text", "data", "body", "material", "plaintext", "plain", "content", "string", "new"),
        *("is", "it", "now", "to", "as", "was", "got", "default", "b64", "base64", "hex", "result", "answer", "output"),
        *("example", "sample", "key", "response", "one"),
    )
)
# What APIs call calls, messages, runs and their like; a word before hexadecimal digits.
_ID: Final = lazy_pattern(
    r"(?:req|msg|call|toolu|tool|chatcmpl|cmpl|run|evt|resp|job|asst|thread|file|batch|item|gen|inv|sess|session|conv"
    r"|turn|step|user|usr|org|proj|team|acct|cus|lease|doc|obj|trace|span|dpl|prj)[_-]|(?:[A-Za-z]{2,10}[_-]){1,5}[0-9a-f]{16,64}\Z"
    r"|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-|0x[0-9A-Fa-f]{40}\Z"  # the last is an address of a chain
)
_HEX: Final = lazy_pattern("(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)")
_DIGIT: Final = lazy_pattern("[0-9]")
_RARE: Final = f"{RARE_LETTERS}{RARE_LETTERS.upper()}"
_RARE_TWICE: Final = lazy_pattern(f"[{_RARE}][^{_RARE}]{{0,200}}[{_RARE}]")
_WORDS: Final = lazy_pattern("[A-Z]?[a-z]{3,}|[A-Z]{4,}|[0-9]{5,}")
_IN_URL: Final = lazy_pattern(r"base64,\Z|://\S*\Z")
_END: Final = lazy_pattern(r"[\s\"'`,;)\]}>|*.│┃]*")
# A line of something long, or a border of a key, which is hidden as one, so that a stream has not got it any more.
_BLOB: Final = lazy_pattern(r"[\s\"'|>#*]*[\w+/=-]{40,}[\s\"',\\]*|.{0,80}-----(?:begin|end)[ ].*")
_WEAK: Final = 1
_STRONG: Final = 2


def places(text: str, folded: str, within: Searchable) -> Generator[int]:
    """Yield where such values begin in a text; `folded` is the text in lower case, as is `within`."""
    named = _names_secret(folded, within)
    if named or (text != folded and any(hint in within for hint in _HINTS)):
        for start, end in _candidates(text, 0, len(text), of_one_case=named):
            strength = _strength(text, start, end)  # first, as it decides most of them
            if strength and _is_named(text, folded, start, end, strength):
                yield start


@cache  # to write it down takes longer than to search most texts
def _key() -> re.Pattern[str]:
    """Return the pattern of the word after one that makes it the name of a secret."""
    names = (f"{of}{sign}key" for of in _KEYS for sign in ("", " ", "_", "-", "."))
    return re.compile(written_out(f"key{preceded_by(names)}(?!id|word|board|pace|name)"))


@cache
def _mark() -> re.Pattern[str]:
    """Return the pattern of the word `token` in the name of a mark, of a count or of a kind."""
    names = (f"{of}{sign}token" for of in _MARKS for sign in ("", " ", "_", "-"))
    said = r"s(?<=[0-9,]{2}[ ]tokens)|s?[ _]?(?:count|ring|type|iz|usage)"
    return re.compile(written_out(f"token(?:{preceded_by(names)}|{said})"))


@cache
def _key_of_lists() -> re.Pattern[str]:
    """Return the pattern of the word `key` behind one with which it names no secret."""
    return re.compile(written_out(f"key{preceded_by(f'{of}{sign}key' for of in _OF_LISTS for sign in ' _-')}"))


def _candidates(text: str, begin: int, until: int, *, of_one_case: bool = True) -> Generator[tuple[int, int]]:
    """Yield the runs of a part of a text that may be random, and that no sign makes a part of something longer."""
    classes = text[begin:until].encode("latin-1", "replace").translate(_TABLE)
    run = b"w" * _TOKEN
    end = 0
    while (start := classes.find(run, end)) >= 0:
        end = classes.find(b" ", start + _TOKEN)
        end = len(classes) if end < 0 else end
        first, last = begin + start, begin + end
        value = text[first:last]
        if value.islower():
            may_be = last - first >= _OF_FEW_KINDS and of_one_case and value.isalnum() and not value.isalpha()
        else:
            may_be = (_RARE_TWICE if value.isalpha() else _DIGIT).search(value) is not None
        if may_be and value[0] not in _NOT_FIRST and not _belongs(text, first, last):
            yield first, last


def _belongs(text: str, first: int, last: int) -> bool:
    """Return whether a sign beside the run makes it a part of an address, an attribute or a call."""
    before, after = text[max(0, first - 2) : first], text[last : last + 4].lstrip("=")
    return (
        last - first > _LONGEST
        or before == "=="
        or before[-1:] in _NOT_BEFORE
        or after[:1] in _NOT_AFTER
        or (after[:1] == "." and after[1:2].isalnum())
    )


def _is_named(text: str, folded: str, start: int, end: int, strength: int) -> bool:
    """Return whether the line of a random value, or one above it, says that it is a secret, and it is the only such."""
    first = max(text.rfind("\n", max(0, start - _BEFORE), start) + 1, start - _BEFORE, 0)
    last = text.find("\n", end, end + _AFTER)
    last = min(len(text), end + _AFTER) if last < 0 else last
    before, after = folded[first:start], folded[end:last]
    value = text[start:end]
    one_case = value.islower() or value.isupper()
    named = _names_secret(before, one_case=one_case) or (
        _HEADER.search(before[-_LAST:]) is not None if one_case else _names_secret(after)
    )
    hinted = not named and not one_case and _hints(before, after)
    alone = start - first <= _ALONE and last - end <= _LAST and _END.fullmatch(after) is not None
    if not (named or hinted or alone):
        return False
    joined, word = name_before(text, first, start)
    if names_id(word) or (not joined and _OF_THINGS.search(word)):
        return False
    word = word.lower()
    if joined and word not in _OF_VALUES and not _names_secret(word):  # so another word names it
        named = named and text[start - 1] != "=" and _names_secret(before[-_PHRASE:], one_case=one_case)
        hinted = hinted and _hints(word, "")
        alone = alone and not one_case
    if not (named or hinted or (alone and _is_named_above(folded, first, one_case=one_case))):
        return False
    if _says_otherwise(f"{before}\n{after}", one_case=one_case):
        return False
    if strength <= (_WEAK if hinted and not named and not alone else 0) or _IN_URL.search(before):
        return False
    others = _candidates(text, first, last)
    return not any(other != start and _strength(text, other, other_end) for other, other_end in others)


def _says_otherwise(said: str, *, one_case: bool) -> bool:
    """Return whether a text says that its value is no secret: a digest, a mark, what a command lists."""
    for word in _OTHERWISE:
        if word in said:
            return True
    return (one_case and any(word in said for word in _OF_ONE_CASE)) or _is_mark(said)


def _is_mark(said: str) -> bool:
    """Return whether a text says that its value is a mark, a key of a table or what a command lists."""
    # Each from a word that `re` or `in` finds fast: to search for all of them took 20 µs a value.
    return (
        ("token" in said and _mark().search(said) is not None)
        or ("key" in said and _key_of_lists().search(said) is not None)
        or ("git " in said and _OF_COMMITS.search(said) is not None)
        or (any(word in said for word in _PROGRAMS_OF_CONTAINERS) and _OF_CONTAINERS.search(said) is not None)
    )


def _hints(before: str, after: str) -> bool:
    for hint in _HINTS:  # here and below no generator, which took half of the time of a value
        if hint in before or hint in after:
            return _HINT.search(f"{before}\n{after}") is not None
    return False


def _names_secret(folded: str, within: Searchable | None = None, *, one_case: bool = False) -> bool:
    """Return whether the text names a secret; `within` is the same text, searched faster if it is long.

    For a value of one case, which most ids are, "auth" alone is no such name.
    """
    places = within or folded
    for word in PLAIN:
        if word in places:
            return True
    if "key" in places and _key().search(folded) is not None:
        return True
    for part in PARTS:
        if part in places:
            return _PART.search(_SERVICE.sub("", folded) if one_case else folded) is not None
    return False


def names_id(word: str) -> bool:
    """Return whether a value after this word is an id, a digest, a path or the like."""
    return _OF_IDS.search(word) is not None


def name_before(text: str, first: int, start: int) -> tuple[bool, str]:
    """Return the word before a value, and whether a sign makes it the value's name."""
    head = text[max(first, start - _LABEL) : start].rstrip(_OPENING)
    name = head.rstrip(_SIGNS)
    found = _WORD_BACKWARDS.match(name.rstrip(_CLOSING)[::-1])
    return len(name) < len(head), found[0][::-1] if found else ""


def _strength(text: str, start: int, end: int) -> int:
    """Return how random the value is: strong with small letters, capitals and digits, weak with fewer kinds, or 0."""
    value = text[start:end]
    size = len(value)
    if _ID.match(value):
        return 0
    if _HEX.fullmatch(value):
        return _WEAK * (size >= _HEXADECIMAL and not value.isdecimal())
    if value.isupper() or not seems_random(text, start):
        return 0
    in_words = sum(map(len, _WORDS.findall(value)))
    if value.isalpha():
        return _WEAK * (size >= _OF_FEW_KINDS and in_words * 10 <= size * 7)
    if in_words * 9 > size * 4 and not _has_no_words(value):
        return 0
    return _WEAK * (size >= _OF_FEW_KINDS) if value.islower() else _STRONG


def _has_no_words(value: str) -> bool:
    """Return whether the letters in a row are no words: `gl`, `Acquire`, `Keyed`, `Mutex`, `Win`, `32`, `EXT` are."""
    return has_random_letters(value) and (value.islower() or not NUMBERED_WORDS.fullmatch(value))


def _is_named_above(folded: str, begin: int, *, one_case: bool) -> bool:
    """Return whether one of the two lines above that are not empty speaks of a secret; for one case, the last."""
    lines = folded[max(0, begin - _ABOVE) : max(0, begin - 1)].split("\n")[-5:]
    above = [line[-160:] for line in [line for line in lines if line.strip()][-2:] if not _BLOB.fullmatch(line)]
    said = "\n".join(above)
    if not above or _says_otherwise(said, one_case=one_case):
        return False
    return _names_secret(above[-1], one_case=True) if one_case else _names_secret(said)
