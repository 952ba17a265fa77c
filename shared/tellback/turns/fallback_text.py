"""The texts that users get instead of an answer, by key and language, and how late an answer is still sent.

A text comes in the turn's language, else the channel's, else the default, else as a built-in English literal. It is
always a whole text of a catalog, never a key, a code or an exception's text. The shipped catalogs are
`tellback/locale/LANGUAGE/LC_MESSAGES/tellback.po`, with the compiled `.mo` beside each: after an edit run
`pybabel compile -d shared/tellback/locale -D tellback`. TELLBACK_CATALOGS puts your own before them. Requirements T-31
and T-32.

A user must never see a key, a placeholder or an empty message, so a whole catalog is checked when it is loaded, not
each text when it is sent. A damaged one is refused with the file and the reason. polib compiles a `.po` file for
`gettext` of the standard library, which reads only compiled ones.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from gettext import GNUTranslations
from importlib.resources import as_file, files
from io import BytesIO
from pathlib import Path
from typing import Any, Final, cast

from tellback.contracts.turns import MAX_LATE
from tellback.errors import ConfigurationError
from tellback.sanitize import is_printable

FEEDBACK_KEY: Final = "system.error.generic.feedback"

TIMEOUT_KEY: Final = "system.error.timeout.feedback"

BUSY_KEY: Final = "system.error.busy.feedback"

UNAVAILABLE_KEY: Final = "system.error.unavailable.feedback"

TOO_LONG_KEY: Final = "system.error.too_long.feedback"

FILTERED_KEY: Final = "system.error.filtered.feedback"

TOOL_KEY: Final = "system.error.tool.feedback"

ATTACHMENT_KEY: Final = "system.error.attachment.feedback"

LIMIT_KEYS: Final = {
    "tool_calls": "turn.limit.tool_calls.feedback",
    "llm_calls": "turn.limit.llm_calls.feedback",
    "time": "turn.limit.time.feedback",
    "tokens": "turn.limit.tokens.feedback",
}

KEYS: Final = frozenset(
    {
        FEEDBACK_KEY,
        TIMEOUT_KEY,
        BUSY_KEY,
        UNAVAILABLE_KEY,
        TOO_LONG_KEY,
        FILTERED_KEY,
        TOOL_KEY,
        ATTACHMENT_KEY,
        *LIMIT_KEYS.values(),
    }
)

BUILT_IN: Final = "Sorry, something went wrong and I could not answer your message. Please try again."

MAX_TAG: Final = 35  # characters of a language tag: the buffer size that RFC 5646 recommends in section 4.4.1

# Both separators: hosts send tags like de-AT, and gettext's folders are named like de_AT.
_TAG: Final = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")

Catalogs = Mapping[str, Mapping[str, str]]
"""Language tag, in lower case with underscores, -> key -> text."""


class Words:
    """The localised texts for users who get no answer; `own` catalogs come before the shipped ones."""

    def __init__(
        self, *, default: str = "en", channels: Mapping[str, str] | None = None, own: Catalogs | None = None
    ) -> None:
        self._default = default
        self._channels = dict(channels or {})
        self._own = dict(own or {})

    def say(self, key: str, language: str | None = None, channel: str | None = None) -> str:
        """Return the text `key` in the first of the turn's, the channel's and the default language that has one.

        A language without this text uses its generic one, since a user understands that better than a specific text in
        another language. An unknown key gives the generic text, too.
        """
        for each in (language, self._channels.get(channel or ""), self._default):
            tags = language_fallbacks(each or "")
            for wanted in (key, FEEDBACK_KEY):
                for tag in tags:
                    text = self._translation(tag, wanted)
                    if text:
                        return text
        return BUILT_IN

    def feedback(self, language: str | None = None, channel: str | None = None) -> str:
        """Return the generic feedback."""
        return self.say(FEEDBACK_KEY, language, channel)

    def has(self, language: str) -> bool:
        """Return True if a catalog has texts in this language, or in the language of this regional variant."""
        return any(self._translation(tag, FEEDBACK_KEY) for tag in language_fallbacks(language))

    @property
    def languages(self) -> list[str]:
        """The languages that have texts, sorted."""
        return sorted(shipped_catalogs().keys() | self._own.keys())

    def _translation(self, tag: str, key: str) -> str:
        return self._own.get(tag, {}).get(key) or shipped_catalogs().get(tag, {}).get(key, "")


def language_fallbacks(language: str) -> list[str]:
    """Return a tag and its more general forms: `de_at` and `de` for `de-AT`, nothing for an invalid tag."""
    if len(language) > MAX_TAG or not _TAG.fullmatch(language):
        return []
    parts = language.lower().replace("-", "_").split("_")
    return ["_".join(parts[:length]) for length in range(len(parts), 0, -1)]


@cache
def shipped_catalogs() -> Catalogs:
    """Read the shipped catalogs, `tellback/locale/LANGUAGE/LC_MESSAGES/tellback.mo`."""
    with as_file(files("tellback") / "locale") as folder:  # the package may be imported from a zip file
        return _read_catalog_folder(folder, prefer=".mo")


@lru_cache(maxsize=16)  # called for every fallback, though a process has only one set of settings
def load_words(default: str, channels: str, folder: str) -> Words:
    """Load the texts for the settings `fallback_language`, `channel_languages` and `catalogs`.

    Raises:
        ConfigurationError: a catalog is invalid, or a language has no texts; the message names the setting.
    """
    own: Catalogs = {}
    if folder:
        try:
            # An operator edits the `.po` and may forget to compile it, so their source wins over an older `.mo`.
            own = _read_catalog_folder(Path(folder), prefer=".po")
        except (ConfigurationError, OSError) as error:
            raise ConfigurationError(f"TELLBACK_CATALOGS: {error}") from error
    of_channels = _channel_languages(channels)
    words = Words(default=default, channels=of_channels, own=own)
    named = [(f"TELLBACK_CHANNEL_LANGUAGES: {channel}", language) for channel, language in of_channels.items()]
    for name, language in [("TELLBACK_FALLBACK_LANGUAGE", default), *named]:
        if not words.has(language):
            raise ConfigurationError(
                f"{name}: no texts in the language {language!r}; use {', '.join(words.languages)}, and "
                "TELLBACK_CATALOGS adds your own"
            )
    return words


def _read_catalog_folder(folder: Path, *, prefer: str) -> dict[str, Mapping[str, str]]:
    """Read every `LANGUAGE/LC_MESSAGES/tellback.po` or `.mo`, the preferred form where both exist."""
    found: dict[str, Mapping[str, str]] = {}
    for entry in sorted(path for path in folder.iterdir() if path.is_dir()):
        paths = sorted(entry.glob("LC_MESSAGES/tellback.[pm]o"), key=lambda path: path.suffix != prefer)
        if not paths:
            continue
        if not language_fallbacks(entry.name):
            raise ConfigurationError(f"{entry}: not named after a language, like de or pt_BR")
        found[language_fallbacks(entry.name)[0]] = read_catalog(paths[0])
    if not found:
        raise ConfigurationError(f"{folder}: holds no LANGUAGE/LC_MESSAGES/tellback.po or tellback.mo")
    return found


def _channel_languages(setting: str) -> dict[str, str]:
    """Parse `telegram=ru,web=de`, or read the TOML file of that name, which has a table `channels`."""
    if setting.endswith(".toml"):
        return _read_channel_file(Path(setting))
    pairs = [entry.rpartition("=") for entry in setting.split(",") if entry.strip()]
    for channel, _, language in pairs:
        if not channel.strip() or not language.strip():
            raise ConfigurationError(f"TELLBACK_CHANNEL_LANGUAGES: {setting!r}: write CHANNEL=LANGUAGE,…")
    return {channel.strip(): language.strip() for channel, _, language in pairs}


def _read_channel_file(path: Path) -> dict[str, str]:
    try:
        table: Any = tomllib.loads(path.read_text("utf-8")).get("channels")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"TELLBACK_CHANNEL_LANGUAGES: {path}: {error}") from error
    given = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
    if not given or not all(isinstance(language, str) for language in given.values()):
        raise ConfigurationError(f"TELLBACK_CHANNEL_LANGUAGES: {path}: needs a table `channels` of texts")
    return given


@lru_cache(maxsize=16)  # called for every turn, though a process has only one value of the setting
def late_by_channel(setting: str) -> Mapping[str, float]:
    """Parse `web=0,telegram=86400` into the seconds of each channel.

    Raises:
        ConfigurationError: an entry has another form or a time out of range; the message names the variable.
    """
    found: dict[str, float] = {}
    for entry in setting.split(","):
        if not entry.strip():
            continue
        channel, _, seconds = (part.strip() for part in entry.rpartition("="))
        try:
            value = float(seconds)
        except ValueError:
            value = math.nan
        if not channel or not 0 <= value <= MAX_LATE:
            raise ConfigurationError(
                f"TELLBACK_CHANNEL_LATE_WITHIN: {entry.strip()!r}: write CHANNEL=SECONDS,… with 0 to {MAX_LATE} seconds"
            )
        found[channel] = value
    return found


MAX_BYTES: Final = 1 << 20  # a catalog has about a dozen messages; a larger file is something else
MAX_TEXT: Final = 4_000  # characters; below Telegram's limit of 4,096, so a fallback is one message
# Python's and the shell's placeholders. Prose such as "100 % sure", "3%." or "5 $" must pass, so a percent sign counts
# only before a conversion letter that ends a word, and a dollar sign only before a name.
_PLACEHOLDER: Final = re.compile(r"\{[^{}\s]*\}|%\([^)]*\)[a-z]|%[sdrifgxc]\b|\$\{?[A-Za-z_]\w*\}?")

_LINE: Final = re.compile(r'#.*|(?:msg\S+\s*)?".*"')  # of a `.po` file


def read_catalog(path: Path) -> Mapping[str, str]:
    """Return the texts of a catalog by key, without untranslated ones.

    Raises:
        ConfigurationError: the file can't be read, or holds a text that no user should see; the message says which.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return _checked_texts(path, raw)
    except (ValueError, OSError) as error:  # OSError: what polib raises for wrong syntax
        raise ConfigurationError(f"{path}: {error}") from error
    except Exception as error:  # gettext lets any error of its parsing through: LookupError, struct.error, IndexError
        raise ConfigurationError(f"{path}: gettext cannot read it: {error!r}") from error


def _checked_texts(path: Path, raw: bytes) -> dict[str, str]:
    if len(raw) > MAX_BYTES:
        raise ValueError(f"{len(raw)} bytes; a catalog has at most {MAX_BYTES}")
    texts = _translations(raw if path.suffix == ".mo" else _compile(path))
    if FEEDBACK_KEY not in texts:
        raise ValueError(f"{FEEDBACK_KEY}: has no translation, and every catalog needs this one")
    return texts


def _compile(path: Path) -> bytes:
    """Return a `.po` file compiled, without its fuzzy entries, which gettext's own compiler skips, too."""
    import polib  # noqa: PLC0415 - only where an operator supplies catalogs

    source = polib.pofile(str(path))
    for number, line in enumerate(path.read_text(source.encoding).removeprefix("\ufeff").split("\n"), 1):
        # polib takes off the first and last character of a string without a look at whether they are quotes
        if (stripped := line.strip()) and not _LINE.fullmatch(stripped):
            raise ValueError(f"line {number}: not of a catalog: {stripped[:60]!r}")
    seen: set[str] = set()
    for entry in source:
        if entry.obsolete or entry.fuzzy:
            continue
        if entry.msgid not in KEYS:
            raise ValueError(f"no message of Tellback is called {entry.msgid!r}; they are {', '.join(sorted(KEYS))}")
        if entry.msgid_plural or entry.msgctxt:
            form = "plural forms" if entry.msgid_plural else "a context"
            raise ValueError(f"{entry.msgid}: has {form}; messages of Tellback have none")
        if entry.msgid in seen:
            raise ValueError(f"{entry.msgid}: appears twice")
        if entry.msgstr in KEYS:  # as a compiled one it would read as untranslated
            raise ValueError(f"{entry.msgid}: its text is a key, which no user is to see")
        seen.add(entry.msgid)
    return bytes(source.to_binary())


def _translations(compiled: bytes) -> dict[str, str]:
    catalog = GNUTranslations(BytesIO(compiled))
    found = {key: catalog.gettext(key).strip() for key in sorted(KEYS)}  # a message without a translation is its own
    return {key: _checked_text(key, text) for key, text in found.items() if text not in ("", key)}


def _checked_text(key: str, text: str) -> str:
    found = _PLACEHOLDER.search(text)
    if found:
        raise ValueError(f"{key}: holds the placeholder {found[0]!r}; nothing would be put in its place")
    if any(name in text for name in KEYS):
        raise ValueError(f"{key}: its text is a key, which no user is to see")
    if len(text) > MAX_TEXT:
        raise ValueError(f"{key}: {len(text)} characters; at most {MAX_TEXT}")
    # The characters allowed below are marks of writing direction, joiners and spaces that real translations need.
    if not is_printable(text, also="\n\u200e\u200f\u200c\u200d\u00ad\u00a0\u202f\u3000"):
        raise ValueError(f"{key}: holds a control character")
    return text
