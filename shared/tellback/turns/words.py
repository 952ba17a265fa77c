"""The words of fallbacks: the turn's language, then the channel's, then the default, then a built-in literal.

Never a key, a code or an exception's text. Source: feedback-guarantee, "process(context)".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final, cast

from tellback.errors import ConfigurationError
from tellback.turns.catalogs import read_catalog
from tellback.turns.keys import FEEDBACK_KEY, KEYS

BUILT_IN: Final = "Sorry, something went wrong and I could not answer your message. Please try again."
MAX_TAG: Final = 35  # what RFC 5646 asks buffers to hold
_TAG: Final = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")

Catalogs = Mapping[str, Mapping[str, str]]
"""Texts by key, by language tag in lower case with underscores."""


class Words:
    """What users are told where there is no answer, in their language."""

    def __init__(
        self, *, default: str = "en", channels: Mapping[str, str] | None = None, own: Catalogs | None = None
    ) -> None:
        """Take the default language, languages of channels, and catalogs that go before ours."""
        self._default = default
        self._channels = dict(channels or {})
        self._own = dict(own or {})

    def say(self, key: str, language: str | None = None, channel: str | None = None) -> str:
        """The text `key` in the first of the turn's, the channel's and the default language that has one.

        A language that lacks the text says its generic one: a user rather reads that than another language. A key that
        no catalog knows is the generic text too.
        """
        for each in (language, self._channels.get(channel or ""), self._default):
            tags = widening(each or "")
            for wanted in (key, FEEDBACK_KEY):
                for tag in tags:
                    text = self._text(tag, wanted)
                    if text:
                        return text
        return BUILT_IN

    def feedback(self, language: str | None = None, channel: str | None = None) -> str:
        """The generic feedback."""
        return self.say(FEEDBACK_KEY, language, channel)

    def has(self, language: str) -> bool:
        """Whether there are words in this language, or in the one that a region belongs to."""
        return any(self._text(tag, FEEDBACK_KEY) for tag in widening(language))

    @property
    def languages(self) -> list[str]:
        """Every language that has words."""
        return sorted(shipped().keys() | self._own.keys())

    def _text(self, tag: str, key: str) -> str:
        return self._own.get(tag, {}).get(key) or shipped().get(tag, {}).get(key, "")


def widening(language: str) -> list[str]:
    """`de-AT` gives `de_at` and `de`; what is no language tag gives nothing."""
    if len(language) > MAX_TAG or not _TAG.fullmatch(language):
        return []
    parts = language.lower().replace("-", "_").split("_")
    return ["_".join(parts[:length]) for length in range(len(parts), 0, -1)]


@cache
def shipped() -> Catalogs:
    """Our own catalogs, `tellback/locale/LANGUAGE/LC_MESSAGES/tellback.mo`."""
    with as_file(files("tellback") / "locale") as folder:
        return _read_folder(folder, prefer=".mo")


@lru_cache(maxsize=16)  # settings: a process has one
def load_words(default: str, channels: str, folder: str) -> Words:
    """The words that settings ask for: see `fallback_language`, `channel_languages` and `catalogs` there.

    Raises:
        ConfigurationError: a catalog that a user should not read, or a language without words; names the setting.
    """
    own: Catalogs = {}
    if folder:
        try:
            own = _read_folder(Path(folder), prefer=".po")
        except (ConfigurationError, OSError) as error:
            raise ConfigurationError(f"TELLBACK_CATALOGS: {error}") from error
    words = Words(default=default, channels=_channels(channels), own=own)
    for name, language in [("TELLBACK_FALLBACK_LANGUAGE", default), *_named(channels)]:
        if not words.has(language):
            raise ConfigurationError(
                f"{name}: no words in the language {language!r}; there are {', '.join(words.languages)}, and "
                "TELLBACK_CATALOGS adds your own"
            )
    return words


def _named(channels: str) -> list[tuple[str, str]]:
    return [(f"TELLBACK_CHANNEL_LANGUAGES: {channel}", language) for channel, language in _channels(channels).items()]


def _read_folder(folder: Path, *, prefer: str) -> dict[str, Mapping[str, str]]:
    """Every `LANGUAGE/LC_MESSAGES/tellback.po` or `.mo`."""
    found: dict[str, Mapping[str, str]] = {}
    for entry in sorted(path for path in folder.iterdir() if path.is_dir()):
        paths = sorted(entry.glob("LC_MESSAGES/tellback.[pm]o"), key=lambda path: path.suffix != prefer)
        if not paths:
            continue
        if not widening(entry.name):
            raise ConfigurationError(f"{entry}: not named after a language, like de or pt_BR")
        found[widening(entry.name)[0]] = read_catalog(paths[0], KEYS, FEEDBACK_KEY)
    if not found:
        raise ConfigurationError(f"{folder}: holds no LANGUAGE/LC_MESSAGES/tellback.po or tellback.mo")
    return found


def _channels(setting: str) -> dict[str, str]:
    """`telegram=ru,web=de`, or the name of a TOML file with a table `channels`."""
    if setting.endswith(".toml"):
        return _channels_of(Path(setting))
    pairs = [entry.rpartition("=") for entry in setting.split(",") if entry.strip()]
    for channel, _, language in pairs:
        if not channel.strip() or not language.strip():
            raise ConfigurationError(f"TELLBACK_CHANNEL_LANGUAGES: {setting!r}: write CHANNEL=LANGUAGE,…")
    return {channel.strip(): language.strip() for channel, _, language in pairs}


def _channels_of(path: Path) -> dict[str, str]:
    try:
        table: Any = tomllib.loads(path.read_text("utf-8")).get("channels")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"TELLBACK_CHANNEL_LANGUAGES: {path}: {error}") from error
    given = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
    if not given or not all(isinstance(language, str) for language in given.values()):
        raise ConfigurationError(f"TELLBACK_CHANNEL_LANGUAGES: {path}: needs a table `channels` of texts")
    return given
