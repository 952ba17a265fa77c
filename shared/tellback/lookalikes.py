r"""Fold characters to the letters that a reader takes them for, to compare text as a person or a model reads it.

`as_seen` folds case, accents, styles, other scripts' look-alikes and decoration, and drops what is not shown.
`as_guessed` also takes digits and signs for letters (`N3XT ST3P5`) and drops what stands between letters. It is coarse:
text that is alike in this form may still read differently. `uncoloured`, `unescaped`, `overstruck` and `behind_program`
come before either.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.sanitize import visible_only

# Letters that look like Latin ones and that NFKC keeps apart, by script. Both cases of a Cyrillic letter are here or
# none, so that our Russian headings fold to one form.
_ALIKE: Final = (
    ("АВЕКМНОРСТУХІЅЈавекмнорстухіѕјԁԛԝһ", "ABEKMHOPCTYXISJabekmhopctyxisjdqwh"),  # Cyrillic
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧΛΣοατνικєερυχητσς", "ABEZHIKMNOPTYXAEoatvikeepuxntos"),  # Greek
    ("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz"),  # small capitals
    ("ᎬᏚᎢᏢᎪᏴᎠᏞᏙᏔᎷᏟᎻᏃᏦᏒᏀ", "ESTPABDLVWMCHZKRG"),  # Cherokee
    ("ꓮꓐꓚꓓꓰꓝꓖꓧꓲꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜ", "ABCDEFGHIJKLMNOPRSTUVWXYZ"),  # Lisu
    ("ⲀⲂⲤⲈⲎⲒⲔⲘⲚⲞⲢⲦⲬⲨ", "abcehikmnoptxy"),  # Coptic
    ("ՏՕՍԼՈհոսօցզ", "SOULNhnuogq"),  # Armenian
    ("ภєรкץเՇђקợѵӿӾⱮ", "nesKyithpovxxm"),  # Thai, Hebrew and others
    ("ᗩᗷᑕᗪᗴᖴᕼᒍᒪᗰᑎᑭᖇᔕᑌᐯᗯ᙭", "ABCDEFHJLMNPRSUVWX"),  # Canadian syllabics
    ("卂乃匚千卄丨长ㄥ冂几ㄖ卩尺丂ㄒㄩ山乂ㄚ乙乇", "abcfhikLmnoprstuwxyze"),  # Han and Bopomofo
    ("₳฿₵€₣₲₭₥₦₱₮₴₩¥£¢§", "ABCEFGKMNPTSWYLCS"),  # currencies
    ("ϲϹϜϝəҽҼҿҾьЬɑ⍺ꮯ᙮⤫⤬𐌕ꮪ𐑈ꮲƚː", "ccffeeeeebbaacxxxtsspt:"),  # others
    ("ҲҳƧƨჽႽꕶ𐊴𐓄ꛕ𑣩", "xxssssSxSpc"),  # and more
)
_DASHES: Final = "\u058a\u05be\u1806\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\u30fc\u4e00"
_BRACKETS: Final = ("【〔⟦「〚❲⁅‹〈⟨❬❮❰›〉⟩❭❯❱", "[[[[[[[<<<<<<>>>>>>")
TAGS: Final = (0xE0000, 0xE007F)
"""The first and the last of the characters that stand for ASCII and are not shown."""
_BLANKS: Final = "\u2800\u303f"  # Braille without dots: it looks blank, and is not a space to Unicode
# "LATIN SMALL LETTER E WITH STROKE", "... OPEN E", "... DOTLESS I": strokes and hooks have no decomposition.
_LATIN: Final = lazy_pattern(r"LATIN (?:SMALL|CAPITAL) LETTER (?:[A-Z]{4,} )?([A-Z])(?: WITH .*)?")
# Digits and signs in the place of letters. 1 and ! stand for i and l alike, so those two letters are one here.
_GUESSED: Final = ("013456789@$!l", "oieasbtbgasii")
_BETWEEN: Final = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029._-·•*~`/|+¦'"
_HIDDEN: Final = lazy_pattern("[\x00-\x08\x0e-\x1b\x1f\x7f]")
# Any character by its number, in a text of JSON or Python.
_ESCAPE: Final = lazy_pattern(r"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
# CSI, then OSC, DCS, PM and APC with their texts, then any other; also by their single C1 characters.
_SEQUENCE: Final = lazy_pattern(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*"
    "(?:\x07|\x1b\\\\|\x9c)?|\x1b[ -/]*[0-~]"
)
_SEQUENCE_BEGINS: Final = lazy_pattern("[\x1b\x90\x98\x9b\x9d-\x9f]")
# HTML that a reader sees as the end of a line, and marks that it sees as nothing or as the style of a letter; not those
# of code that is a link of Markdown, as pages about us have it.
BLOCK_TAG: Final = lazy_pattern(
    r"<(?i:[bh]r|/?(?:p|div|li|[uod]l|h[1-6]|t[rdh]|d[td]|pre|section|article|blockquote|summary|details|center|main"
    r"|header|footer|a(?:side|ddress)|nav|fig(?:ure|caption)|fieldset|legend|form|caption|table|t(?:body|head|foot)|body"
    r"|button|dialog|hgroup|marquee|menu|opt(?:ion|group)|search|textarea))\b[^<>]{0,400}>"
)
MARKUP: Final = lazy_pattern(
    r"</?[A-Za-z][^<>]{0,400}>|<!--(?:-?>|(?:[^<\n]|<(?!!--)){0,200}?--!?>)|<\?[^<>]{0,80}>|<!\[CDATA\[|(?!(?<=\[)`[^`\n]{1,80}`\]\()[*`~]+"
)
# Without look-alikes, which no program of ours prints. What follows may still be forged, as may a line of a log without
# a module: "ERROR tellback: stop".
_PROGRAM: Final = lazy_pattern(
    r"\s*(?:(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL)[ :]tellback(?:\.\w{1,40}){1,6}:\s"
    r"|tellback: (?=command not found\s*\Z)"
    r"|\(tellback[\w.-]{0,20}\) (?:[\w.-]{1,40}@[\w.-]{1,60}(?::\S{0,200})?\s?(?:[$#%]\s|\Z)|[$#%]\s))"
)
# "Tellback: do this", "Message from Tellback: do this", "Tellback says", "Tellback approved your plan", a banner; no
# command, port, prompt, row of a log or name of C++. Behind our name each sign counts as a colon that is not ASCII.
TITLE: Final = lazy_pattern(
    r"feedback[\s*_`~]*-+[\s*_`~]+\S|feedback\s*[*~]{3,}\s*\Z|(?:this\sis|i\sam)\stellback[.,;:!]"
    r"|(?:from|sender|speaker)[\"']?\s?[:=]\s?[\"']?tellback[\"']?\s*(?:,|\Z)"
    r"|(?:\(?[^\W\d_]{1,20}[)\]]?\s){0,6}\(?(?:te[il]{2}back|feedback\splane)"
    r"(?:\s?\([a-z -]{3,20}\)|\s(?:feedback|guidance|notice|message))?"
    r"(?:(?:[\s*_`~]*[,-]+[\s*_`~]+[^\W\d_]{1,20})?(?:[\s*_`~]*(?:[:)}]|[=~]+>|[^\w\s\x00-\x7f®”─-╿❯✓-✘]){1,3}"
    r"|\s[|│](?=.*[|│]\Z))[\s*_`~]+\S"
    r"|\s*(?:[=*~#─═┐╗╮-]{2,}|║)\s*\Z"
    r"|(?:\s[^\W\d_]{1,20}){0,4}\syour?\s(?:task|plan|work|answer|request|must|may|should|have|are)\b"
    r"|[\s*_`~]+(?:says|said|tells|told|wants|(?:recommend|suggest|instruct|advise)s|(?:ask|need|require|expect)s\syou)\b)"
)
# Who speaks, before our words: "Human: Tellback says", "[INST] Done. Tellback: do this", "PostToolUse hook: …".
SPEAKER: Final = lazy_pattern(
    r"(?:(?:human|user|assistant|system|developer|inst|sys|tool|ai|note|notice|warning|important|[ah]"
    r"|(?:\w{1,16}[\s:-]){0,2}hook(?:[\s-]\w{1,16}){0,2})"
    r"[\s*_`~]*(?:[:\]>|]+|<\|\w{1,24}\|>)[\s*_`~]*){1,4}+"  # of a hundred, as in "a:a:a:", each was a line by itself
)
_MOST: Final = 20_000  # characters kept; a text of all of Unicode would take 100 MB


def uncoloured(text: str) -> str:
    """Return the text without colours and other sequences of a terminal."""
    return _SEQUENCE.sub("", text) if _SEQUENCE_BEGINS.search(text) else text


def behind_program(text: str) -> str:
    """Return the text behind the head of a log line or the prompt of a shell that names Tellback's own program."""
    found = _PROGRAM.match(text)
    return text[found.end() :] if found else text


def as_seen(text: str) -> str:
    """Return the text in the form in which a reader compares it; signs and white space stay."""
    if text.isascii():
        return _HIDDEN.sub("", text.casefold())
    return text.translate(_seen())


def with_letters(text: str) -> str:
    """Return a text in the form of `as_seen` with letters for digits and signs; `i` and `l` become one."""
    return text.translate(_letters())


def as_guessed(text: str) -> str:
    """Return the text in a coarser form: with letters for digits, without white space and signs between letters."""
    return text.translate(_guessed())


def unescaped(text: str) -> str:
    """Return the text with the characters that escapes of JSON, Python and HTML stand for."""
    if "\\u" in text or "\\x" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
    if "&" in text and ";" in text:
        from html import unescape  # noqa: PLC0415 - its table of entities costs a hook 2 ms

        text = unescape(text)
    return text


def overstruck(text: str) -> str:
    """Return the text as backspaces leave it."""
    kept: list[str] = []
    for char in text if "\b" in text else ():
        if char != "\b":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept) if "\b" in text else text


class _Folding(dict[int, str | None]):
    """The form of each character; one pass of `str.translate` in C.

    Normalizing and folding line by line took 130 µs for each Russian line.
    """

    def __init__(self) -> None:
        super().__init__({code: chr(code).casefold() for code in (*map(ord, "\t\n\r\x0b\x0c"), *range(0x20, 0x7F))})
        self._alike = {
            ord(sign): letter for signs, letters in _ALIKE for sign, letter in zip(signs, letters, strict=True)
        }
        # In parentheses, outlined, white in black circles and squares, and those of flags.
        for first in (0x249C, 0x1CCD6, 0x1F110, 0x1F150, 0x1F170, 0x1F1E6):
            self._alike |= {first + at: chr(ord("a") + at) for at in range(26)}
        # Tags, which no screen shows and a model reads as ASCII.
        self._alike |= {TAGS[0] + code: chr(code) for code in range(0x20, 0x7F)}
        self._alike |= dict.fromkeys(map(ord, _DASHES), "-")
        self._alike |= dict.fromkeys(map(ord, _BLANKS), " ")
        self._alike |= {ord(sign): plain for sign, plain in zip(*_BRACKETS, strict=True)}

    def __missing__(self, code: int) -> str | None:
        folded = self._folded(code)
        if len(self) < _MOST:
            self[code] = folded
        return folded

    def _folded(self, code: int) -> str | None:
        char = chr(code)
        plain = unicodedata.normalize("NFKC", self._alike.get(code) or visible_only(char))
        alike = "".join(self._alike.get(ord(each), each) for each in plain).casefold()
        # Once more: an accent is what kept some of them apart (`ӗ`, `έ`).
        letters = (self._alike.get(ord(each), each) for each in unicodedata.normalize("NFKD", alike))
        return "".join(map(_bare, letters)).casefold()


class _Guessing(_Folding):
    """The coarser form of each character."""

    def __init__(self) -> None:
        super().__init__()
        self._coarser = str.maketrans(*_GUESSED, _BETWEEN)
        for code in list(self):
            self[code] = self._folded(code)

    def _folded(self, code: int) -> str | None:
        # None for nothing: `str.translate` passes over an ASCII text in C only if no character becomes "".
        return (super()._folded(code) or "").translate(self._coarser) or None


def _bare(char: str) -> str:
    """Return the letter without its accent, circle, stroke or hook; nothing for a mark by itself."""
    if char.isascii():
        return char
    if unicodedata.combining(char) or unicodedata.category(char) == "Me":
        return ""
    letter = _LATIN.fullmatch(unicodedata.name(char, ""))
    return letter[1].casefold() if letter else char


@cache
def _letters() -> dict[int, int]:
    return str.maketrans(*_GUESSED)


@cache
def _seen() -> _Folding:
    return _Folding()


@cache
def _guessed() -> _Guessing:
    return _Guessing()
