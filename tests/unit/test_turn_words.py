"""Users' own words: the chain of languages, and catalogs that are refused before any user reads them."""

from __future__ import annotations

import gettext
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hypothesis import given, settings
from hypothesis import strategies as st

from tellback.errors import ConfigurationError
from tellback.turns.fallback_text import (
    BUILT_IN,
    BUSY_KEY,
    FEEDBACK_KEY,
    KEYS,
    LIMIT_KEYS,
    Words,
    load_words,
    read_catalog,
    shipped_catalogs,
)
from tests.support.examples import examples

LANGUAGES = ("ar", "de", "en", "es", "fr", "ja", "ru")
OURS = Path(__file__).resolve().parents[2] / "shared" / "tellback" / "locale"


def catalog(folder: Path, language: str, text: str, *, name: str = "tellback.po") -> Path:
    """A file of the user's, as gettext lays them out."""
    path = folder / language / "LC_MESSAGES" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def po(**texts: str) -> str:
    """A catalog with the generic feedback, `feedback`, and others."""
    keys = {"feedback": FEEDBACK_KEY, "busy": BUSY_KEY}
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n'
    return header + "".join(f'\nmsgid "{keys.get(name, name)}"\nmsgstr "{text}"\n' for name, text in texts.items())


def own(folder: Path) -> Words:
    return load_words("en", "", str(folder))


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_says_every_message_in_words_of_its_own(language: str) -> None:
    texts = shipped_catalogs()[language]
    assert texts.keys() == KEYS
    assert len(set(texts.values())) == len(KEYS), "two messages read the same"
    for other in LANGUAGES:
        if other != language:
            assert not set(texts.values()) & set(shipped_catalogs()[other].values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_both_forms_read_as_gettext_and_babel_read_them(language: str) -> None:
    folder = OURS / language / "LC_MESSAGES"
    with (folder / "tellback.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    with (folder / "tellback.po").open("rb") as file:
        source = {str(message.id): message.string for message in read_po(file) if message.id}
    for name in ("tellback.mo", "tellback.po"):
        texts = read_catalog(folder / name)
        assert texts == {key: compiled.gettext(key) for key in KEYS} == source


def test_the_turns_language_comes_before_the_channels_and_that_before_the_default() -> None:
    words = Words(default="fr", channels={"telegram": "ru"})
    texts = {language: texts[FEEDBACK_KEY] for language, texts in shipped_catalogs().items()}
    assert words.feedback("de-AT", "telegram") == texts["de"]
    assert words.feedback(None, "telegram") == words.feedback("xx", "telegram") == texts["ru"]
    assert words.feedback(None, "web") == words.feedback("", None) == texts["fr"]
    assert Words(default="xx").feedback() == BUILT_IN


def test_the_shipped_languages_are_these() -> None:
    assert tuple(sorted(folder.name for folder in OURS.iterdir())) == LANGUAGES


@pytest.mark.parametrize("tag", ["../de", "de/../fr", "de\0", "e", "д", "a" * 10_000, "-", "de-", "LC_MESSAGES", "."])
def test_what_is_no_language_tag_is_passed_over(tag: str) -> None:
    assert Words(default="ja").feedback(tag) == shipped_catalogs()["ja"][FEEDBACK_KEY]


def test_a_key_that_no_catalog_knows_is_never_shown() -> None:
    assert Words().say("system.error.of.tomorrow", "de") == shipped_catalogs()["de"][FEEDBACK_KEY]
    assert Words(default="xx").say("system.error.of.tomorrow") == BUILT_IN


def test_own_words_come_before_ours_and_the_rest_stays(tmp_path: Path) -> None:
    catalog(tmp_path, "de", po(feedback="Da ging etwas schief."))
    catalog(tmp_path, "pt_BR", po(feedback="Algo deu errado."))
    words = own(tmp_path)
    assert words.feedback("de") == "Da ging etwas schief."
    assert words.say(BUSY_KEY, "de") == shipped_catalogs()["de"][BUSY_KEY]
    assert words.feedback("pt-br") == "Algo deu errado."
    assert words.feedback("pt") == shipped_catalogs()["en"][FEEDBACK_KEY]
    assert words.say(BUSY_KEY, "pt-BR") == "Algo deu errado.", "better one's own language than the exact message"


def test_a_source_is_taken_before_a_compiled_catalog_that_may_be_older(tmp_path: Path) -> None:
    path = catalog(tmp_path, "de", po(feedback="neu"))
    old = Catalog(locale="de")
    old.add(FEEDBACK_KEY, "alt")
    with path.with_suffix(".mo").open("wb") as file:
        write_mo(file, old)
    assert own(tmp_path).feedback("de") == "neu"
    path.unlink()
    load_words.cache_clear()
    assert own(tmp_path).feedback("de") == "alt"


def test_a_source_in_every_form_of_gettext_is_read(tmp_path: Path) -> None:
    text = f"""\ufeff# a comment
#, fuzzy
msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"
"Plural-Forms: nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 ? 1 : 2);\\n"

#. said to users
#: somewhere:1
msgid ""
"system.error"
".generic.feedback"
msgstr ""
"Was \\"nun\\"?\\n"
"Noch einmal."
#, fuzzy
msgid "{BUSY_KEY}"
msgstr "not checked by anybody yet"

#~ msgid "of yesterday"
#~ msgstr "gone"
"""
    catalog(tmp_path, "de", text.replace("\n", "\r\n"))
    assert own(tmp_path).feedback("de") == 'Was "nun"?\nNoch einmal.'
    assert own(tmp_path).say(BUSY_KEY, "de") == shipped_catalogs()["de"][BUSY_KEY]


PLURAL = f'msgid "{FEEDBACK_KEY}"\nmsgid_plural "many"\nmsgstr[0] "one"\nmsgstr[1] "many"\n'


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (po(busy="Später."), f"{FEEDBACK_KEY}: has no translation"),
        (po(feedback=""), f"{FEEDBACK_KEY}: has no translation"),
        (po(feedback="  \\n "), f"{FEEDBACK_KEY}: has no translation"),
        (
            po(feedback="Nein.", **{"system.error.genric": "x"}),
            "no message of Tellback is called 'system.error.genric'",
        ),
        (po(feedback=FEEDBACK_KEY), "its text is a key"),
        (po(feedback=f"See {BUSY_KEY}"), "its text is a key"),
        (po(feedback="Fehler {code}."), "the placeholder '{code}'"),
        (po(feedback="Fehler {}."), "the placeholder '{}'"),
        (po(feedback="Fehler %(code)s."), "the placeholder '%(code)s'"),
        (po(feedback="Fehler %s."), "the placeholder '%s'"),
        (po(feedback="Fehler ${CODE}."), "the placeholder '${CODE}'"),
        (po(feedback="a\x1b[31mb"), "a control character"),
        (po(feedback="x" * 4_001), "4001 characters"),
        (po(feedback="Eins.") + f'\nmsgid "{FEEDBACK_KEY}"\nmsgstr "Zwei."\n', "appears twice"),
        (PLURAL, "has plural forms"),
        (f'msgctxt "menu"\nmsgid "{FEEDBACK_KEY}"\nmsgstr "x"\n', "has a context"),
        (
            'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n != ;\\n"\n',
            "unexpected end of plural form",
        ),
        ('msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=__import__(1);\\n"\n', "in plural form: __import__"),
        ('msgid ""\nmsgstr "Plural-Forms: many\\n"\n', "gettext cannot read it: IndexError"),
        ('msgid ""\nmsgstr "Content-Type: text/plain; charset=klingon\\n"\n', "unknown encoding: klingon"),
        ("system.error = what?\n", "line 1)"),
        (f'msgid "{FEEDBACK_KEY}\n', "line 1: not of a catalog"),
        (f'msgid "{FEEDBACK_KEY}"\nmsgstr Nein.\n', "line 2: not of a catalog"),
        (f'msgid "{FEEDBACK_KEY}"\nmsgstr "Nein.\n', "line 2: not of a catalog"),
        (f'msgid "{FEEDBACK_KEY}"\nmsgid "other"\n', "line 2)"),
        ('msgstr "alone"\n', "line 1)"),
    ],
)
def test_a_catalog_that_no_user_should_read_is_refused(tmp_path: Path, text: str, reported: str) -> None:
    path = catalog(tmp_path, "de", text)
    with pytest.raises(ConfigurationError) as refusal:
        own(tmp_path)
    assert str(refusal.value).startswith(f"TELLBACK_CATALOGS: {path}: ")
    assert reported in str(refusal.value)


def test_percent_and_dollar_signs_of_prose_are_no_placeholders(tmp_path: Path) -> None:
    catalog(tmp_path, "de", po(feedback="Zu 100 % unser Fehler, für 5 $ und 3%."))
    assert own(tmp_path).feedback("de").startswith("Zu 100 %")


@pytest.mark.parametrize(
    "raw", [b"", b"\x00" * 40, b"\xde\x12\x04\x95", b"\xde\x12\x04\x95" + b"\xff" * 40, b"msgid", b"\xff" * 2_000_000]
)
def test_a_broken_compiled_catalog_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = catalog(tmp_path, "de", "", name="tellback.mo")
    path.write_bytes(raw)
    with pytest.raises(ConfigurationError, match=r"tellback\.mo: "):
        own(tmp_path)


@given(data=st.data())
@settings(max_examples=examples(200))
def test_a_damaged_catalog_is_refused_or_read_and_nothing_else(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    suffix = data.draw(st.sampled_from(["po", "mo"]))
    raw = bytearray((OURS / "fr" / "LC_MESSAGES" / f"tellback.{suffix}").read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / f"tellback.{suffix}"
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        texts = read_catalog(path)
    except ConfigurationError:
        return
    assert texts[FEEDBACK_KEY]
    assert not any(key in text for key in KEYS for text in texts.values())


def test_a_folder_without_catalogs_is_a_clear_error(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ConfigurationError, match=r"^TELLBACK_CATALOGS: "):
            load_words("en", "", str(folder))
    catalog(tmp_path, "not a language", po(feedback="x"))
    with pytest.raises(ConfigurationError, match="not named after a language"):
        own(tmp_path)


def test_channels_have_languages_by_the_setting_or_a_file(tmp_path: Path) -> None:
    reported = load_words("en", "telegram=ru, web = de", "")
    file = tmp_path / "channels.toml"
    file.write_text('[channels]\n"telegram" = "ru"\n"web" = "de"\n"a=b,c" = "fr"\n')
    for words in (reported, load_words("en", str(file), "")):
        assert words.feedback(None, "telegram") == shipped_catalogs()["ru"][FEEDBACK_KEY]
        assert words.feedback(None, "web") == shipped_catalogs()["de"][FEEDBACK_KEY]
    assert load_words("en", str(file), "").feedback(None, "a=b,c") == shipped_catalogs()["fr"][FEEDBACK_KEY]


@pytest.mark.parametrize(
    ("default", "channels", "reported"),
    [
        ("en", "telegram", "TELLBACK_CHANNEL_LANGUAGES: 'telegram': write CHANNEL=LANGUAGE"),
        ("en", "=ru", "TELLBACK_CHANNEL_LANGUAGES"),
        ("en", "telegram=xx", "TELLBACK_CHANNEL_LANGUAGES: telegram: no texts in the language 'xx'"),
        ("en", "/nowhere.toml", "TELLBACK_CHANNEL_LANGUAGES: /nowhere.toml"),
        ("klingon", "", "TELLBACK_FALLBACK_LANGUAGE: no texts in the language 'klingon'; use ar, de, en"),
    ],
)
def test_a_language_without_words_is_refused_at_start(default: str, channels: str, reported: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        load_words(default, channels, "")
    assert str(refusal.value).startswith(reported)


@pytest.mark.parametrize("text", ["", "channels = 1", "[channels]\nweb = 1", "[channels", "[other]\nweb='de'"])
def test_a_file_of_channels_in_another_form_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "channels.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"^TELLBACK_CHANNEL_LANGUAGES: .*channels\.toml: "):
        load_words("en", str(file), "")


def test_each_limit_has_a_message() -> None:
    assert set(LIMIT_KEYS.values()) <= KEYS
