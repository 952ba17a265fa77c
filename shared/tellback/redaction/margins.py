r"""Texts as they are searched: with English names, without what logs, listings and diffs put before each line.

Names of passwords and keys in other languages are put into English, so that each rule holds for all of them:
`contraseña = …`, a column `Passwort`, "Das Kennwort für admin ist …".

A name and the value below it are found whatever stands between them: `web-1  | `, a time, a number, a mark of a
comment. A text within a text of JSON (`"…password:\n\nabc"`) is read line by line too. No margin may hold a name, nor a
cell of a table, of which only the rows would lose it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.alternations import trie, written_out
from tellback.redaction.substrings import fold_ascii, searchable
from tellback.redaction.values import BASE64_OF_MARK

_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]"
_LEVEL: Final = r"(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|TRACE)"
# After hours. What runners and clusters put a time before keeps its indentation, which blocks of YAML need.
_CLOCK: Final = (
    r":[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?+(?:Z|[ ]?[+-][0-9]{2}:?[0-9]{2})?+\]?"
    rf"(?:(?<=Z)[ ](?:[ ]{{1,3}}(?={_LEVEL}))?+|[ ]{{1,4}}+)"
)
_NAMES: Final = r"(?i:pass|pw|psk|secret|token|key|cred|auth|code|seed|phrase|salt|cookie|community)"
# A level and the name of a logger, which no secret's may be taken for: to look for those took four fifths of a line's
# time, and few words after a level end as the name of a logger does.
_LOGGER_NAME: Final = r"\[?[A-Za-z][\w./-]{0,60}+\]?(?::[ ]|[ ]-[ ]|(?<=\])[ ])"
_LOGGER: Final = rf"(?:\[?{_LEVEL}\]?[ ]{{1,4}}+(?:(?={_LOGGER_NAME})(?!\S{{0,60}}?{_NAMES}){_LOGGER_NAME})?+)?+"
_HASH: Final = "[bcdf-hj-np-tv-xz2-9]"  # of Kubernetes: without vowels, so that no words are taken for names of pods
_POD: Final = "|".join(rf"(?<=-{_HASH}{{{length}}}-{_HASH}{{5}})" for length in (8, 9, 10))
_AFTER_HOURS: Final = f"{_CLOCK}{_LOGGER}"
_BAR: Final = r"[ ]{0,40}+\|[ ]?"
_NUMBER: Final = r":[0-9]{1,6}:(?![^\s:]{1,63}:[^\s:]{1,63}:[^\s:]{1,100}$)"  # of a line; no port, as in `.pgpass`
# Each begins with a line break, for which `re` searches fast.
_SIGN: Final = (
    r"\n(?=[0-9\[#>;/*+-]|[ ]{1,8}+[0-9*])(?:"
    r"[ ]{1,8}+(?:[0-9]{1,6}(?:[\t→]|:[ ]?|[ ]{2})|\*[ ])"  # cat -n, grep -n, readers of agents; comments
    rf"|[0-9](?:[0-9](?:[0-9]{{2}}-[0-9]{{2}}-[0-9]{{2}}[T ][0-9]{{2}})?{_AFTER_HOURS}"
    r"|[0-9]{0,5}(?:→|:[ ]?(?![0-9])))"
    rf"|\[(?:pod/[^\]\s]{{1,120}}+\][ ]|{_LEVEL}\][ ]|(?:{_DATE})?[0-9]{{2}}{_AFTER_HOURS})"
    r"|##\[[a-z]{4,8}\]"  # logs of GitHub and Azure
    r"|#[ ]|#[0-9]{1,3}[ ][0-9]{1,5}\.[0-9]{1,3}[ ]|>[ ]?|;[ ]|\*[ ]|--[ ]"  # docker build, comments, mail
    rf"|(?!{BASE64_OF_MARK}[0-9A-Za-z+/]{{17}})//[ ]?"
    r"|\+{1,3}+|-(?=[\t\"'<{\[}]|[ ]{2}|[\w.-]{2,60}+[:=])"  # diffs; not lists
    "){1,3}+"  # a comment within a diff within a log
)
_SIGNS: Final = lazy_pattern(_SIGN)
# Its first characters: a text without them needs no other pattern, which takes a millisecond to compile.
_SIGNS_BEGIN: Final = lazy_pattern(r"\n(?:[0-9\[#>;*+-]|//|[ ]{1,8}+[0-9*])")
# Most texts have no time, and two thirds of what it takes to compile the pattern are for them.
_TIME: Final = lazy_pattern(":[0-9]{2}:[0-9]{2}")
_SIGNS_WITHOUT_TIMES: Final = lazy_pattern(_SIGN.replace(_AFTER_HOURS, "(?!)"))
_NAME: Final = r"[A-Za-z_./][\w/@+-]{0,80}+"
_ENDING: Final = r"(?:\.[\w/@+]{0,40}){0,3}\.(?!xox)[a-z]\w{0,5}"  # of a file; no token of Slack, which has such parts
# Tried only in texts with what ends them: they look at each first word, which takes prose a twentieth of all time.
_WORDS: Final = lazy_pattern(
    r"\n(?:[A-Z][a-z]{2}[ ]{1,2}[0-9]{1,2}[ ][0-9:]{8}[ ]"  # syslog
    r"[\w.-]{1,64}+[ ][\w./@-]{1,64}+(?:\[[0-9]{1,7}\])?:[ ]"
    rf"|{_NAME}(?:(?<=-[0-9]){_BAR}|(?<=-[0-9][0-9]){_BAR}"  # docker compose
    rf"|{_ENDING}(?:{_NUMBER}|-[0-9]{{1,6}}-)|{_NUMBER}"  # grep
    rf"|(?:{_POD})[ ][a-z0-9-]{{1,40}}+[ ](?:\u203a[ ])?))",  # stern
    re.MULTILINE,
)
# The same for a text without times and hyphens before numbers, as grep prints: it compiles in two fifths of the time.
_NUMBERED: Final = lazy_pattern(rf"\n{_NAME}(?:{_ENDING}{_NUMBER}|{_NUMBER})", re.MULTILINE)
# A list of arguments, as programs print it: `['sshpass', '-p', '…']`, read as the command that it is.
_BEFORE_FLAGS: Final = ("', '-", '", "-', '","-')
_AFTER_FLAG: Final = lazy_pattern(r"""( -[A-Za-z]{1,2})["'],[ ]?["']""")
# What stands in for a value that is missing: `token: process.env.TOKEN ?? '…'`, read as `token: '…'`. What is left out
# is a name or a call and has no digit: else `token = 'ghp_…' || ''` would not be hidden.
_BEFORE_FALLBACK: Final = (" ?? '", ' ?? "', " || '", ' || "', ") or '", ') or "')
_FALLBACK: Final = lazy_pattern(
    r"""(?<=[:=(,?] )[A-Za-z_$](?:[A-Za-z_.$()\[\]]|(?<=[(\[])["']|["'](?=[)\]])){0,79}+ (?:\?\?|\|\||or) (?=["'])"""
)
_SECRETS_NAME: Final = lazy_pattern(_NAMES)
# Of two names the second counts if short values are hidden after it: `token = env.API_KEY ?? 'hunter2'`.
_OF_SHORT_VALUES: Final = lazy_pattern(r"(?i:passw|pwd|secret|api_?key)")
_NO_WORD: Final = lazy_pattern(r"""["'](?=[^\s"'0-9]{0,60}+[0-9])[^\s"']{1,200}+["']""")
_LAST_NAME: Final = lazy_pattern(r"[A-Za-z_$]+(?=[)\]\"']*[ ]\S+[ ]\Z)")
_BEFORE_TARGET: Final = 40  # characters
_AFTER_COLON: Final = lazy_pattern(":[0-9]{1,6}:")
_AFTER_HYPHEN: Final = lazy_pattern(  # a class fails faster than alternatives, of which lines of hyphens enter none
    rf"-[0-9{_HASH[1:]}(?:(?<=[0-9])[0-9]{{0,5}}+(?:-|[ ]{{0,40}}\|)|{_HASH}{{4}}(?<={_HASH}{{5}})[ ][a-z0-9-])"
)
_OPENINGS: Final = ('": "', '":"', "': '")
# The last line of a text, before the next field: `…⏎abc", "is_error": false`, `…⏎abc', returncode=0`.
_LAST_LINE: Final = lazy_pattern(
    r"""\\n[ =>]{0,4}["']?[^"'\\]{0,400}+["']{1,2}(?=,[ ]?(?:["'][\w-]{1,40}+["'][ ]?:|[a-z_]{1,40}+=))"""
)
_LONGEST_NAME: Final = 300  # characters of a line up to the text in it


class Readable:
    """A text as it is searched; for each of its lines the number of that which holds it, unless they are the same."""

    __slots__ = ("holders", "text")

    def __init__(self, text: str, holders: list[int] | None) -> None:
        self.text = text
        self.holders = holders

    def held(self, numbered: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return the rules with the numbers of lines of the text as it was given."""
        if self.holders is None:
            return list(numbered)
        return [(self.holders[number], rule) for number, rule in numbered]

    def first_of(self, number: int) -> int:
        """Return the first line of the text that this line of the given one holds."""
        return number if self.holders is None else bisect_left(self.holders, number)


def numbered(lines: Iterable[str], found: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the matches of a text with the numbers of their lines in place of their positions."""
    starts = list(accumulate(map((1).__add__, map(len, lines)), initial=0)) if found else []
    return [(bisect_right(starts, place) - 1, rule) for place, rule in found]


def _name_of_fallback(found: re.Match[str]) -> str:
    """Return the name of what is left out, if it says more of the value than what gets it: `k = process.env.TOKEN`."""
    target = found.string[max(0, found.start() - _BEFORE_TARGET) : found.start()].rpartition("\n")[2]
    name = _LAST_NAME.search(found[0])
    if name is None or not _SECRETS_NAME.search(name[0]):
        return ""
    if _SECRETS_NAME.search(target) and not (
        _OF_SHORT_VALUES.search(name[0]) and _NO_WORD.match(found.string, found.end())
    ):
        return ""
    return f"{name[0]}="


def read(text: str) -> Readable:
    """Return the text with English names, without its margins, and with the line breaks that another text escapes."""
    within = searchable(text)
    if any(sign in within for sign in _BEFORE_FALLBACK):
        text = _FALLBACK.sub(_name_of_fallback, text)
    for sign in _BEFORE_FLAGS:
        if sign in within:
            text = _AFTER_FLAG.sub(r"\1 ", text.replace(sign, " -"))
    holders: list[int] | None = None
    if "\\n" in text:
        lines = text.replace("\\\\n", "\\n").split("\n")
        holders = []
        begin = 0
        for number in [number for number, line in enumerate(lines) if "\\n" in line]:  # few, in source code
            lines[number] = _opened(lines[number])
            holders += [*range(begin, number), *[number] * (lines[number].count("\\n") + 1)]
            begin = number + 1
        holders += range(begin, len(lines))
        text = "\n".join(lines).replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "")
    return Readable(_without_margins(in_english(text)), holders)


def _opened(line: str) -> str:
    """Return the line with the first line of the text that it holds once more, without the name before it.

    The head of a table is no head otherwise.
    """
    line = _LAST_LINE.sub(r"\g<0>\\n", line)
    end = line.find("\\n")
    first = line[:end]
    start = max(first.rfind(sign, 0, _LONGEST_NAME) + len(sign) for sign in _OPENINGS)
    return f"{first}\\n{first[start:]}{line[end:]}" if start > len(_OPENINGS[0]) else line


def _without_margins(text: str) -> str:
    text = _without_signs(f"\n{text}")
    for _ in range(2):  # a log may hold a log
        hyphened = _AFTER_HYPHEN.search(text) is not None
        if not (hyphened or _AFTER_COLON.search(text)):
            break
        text, found = (_WORDS if hyphened or _TIME.search(text) else _NUMBERED).subn("\n", text)
        if not found:
            break
        text = _without_signs(text)
    return text[1:]


def _without_signs(text: str) -> str:
    if not _SIGNS_BEGIN.search(text):
        return text
    return (_SIGNS if _TIME.search(text) else _SIGNS_WITHOUT_TIMES).sub("\n", text)


# A line of Chinese, Japanese or Korean has no spaces around a value, and signs of its own.
_EAST_ASIAN: Final = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WIDE: Final = lazy_pattern(rf"[\u3000-\u303f\uff01-\uff5e{_EAST_ASIAN}]")
# In UTF-8 their letters begin with these bytes, and their signs may with the two that follow.
_WIDE_BEGIN: Final = bytes(ord("w") if 0xE3 <= byte <= 0xED else ord(" ") for byte in range(256))
_SIGNS_BEGIN_WIDE: Final = (b"\xef\xbc", b"\xef\xbd")
# A value between such letters. Both begin with one, to which `re` skips.
_VALUE_AFTER: Final = lazy_pattern(rf"[{_EAST_ASIAN}]++(?=[0-9A-Za-z][!-~]{{7}})")
_VALUE_BEFORE: Final = lazy_pattern(rf"[{_EAST_ASIAN}](?<=[!-~]{{8}}.)")
_FULL_WIDTH: Final = re.compile(b"\xef[\xbc\xbd][\x80-\xbf]")  # in UTF-8, where `re` skips to the first byte
_SIGNS_OF: Final = (
    {chr(0xFEE0 + sign): chr(sign) for sign in range(0x21, 0x7F)}
    | {chr(0xFEE0 + ord(sign)): f"{sign} " for sign in ",:;)"}
    | dict(zip("\u3000\u3001\u3002\u300c\u300d\uff08", (" ", ", ", ". ", ' "', '" ', " ("), strict=True))
)
# Of French, Russian and German. Those of English are read as they are, so “ and ” count only behind „ in their line:
# what is hidden must not depend on other lines.
_QUOTES_ABROAD: Final = (*(f"«{gap}" for gap in " \xa0\u202f"), *(f"{gap}»" for gap in " \xa0\u202f"), *"«»„")
_LOW_QUOTED: Final = lazy_pattern('„([^„“”"\n]{0,200}+)[“”]')
_PRINTED: Final = bytes(ord("v") if ord("!") <= byte <= ord("~") else ord(" ") for byte in range(256))
_LONG: Final = b"v" * 8  # as a value between such letters is

# Only ASCII is folded, so a word whose first letter may be a capital begins with its second.
_PASSWORDS: Final = (
    *("contraseña", "hasło", "lösenord", "jelszó", "ifre", "ật khẩu", "ωδικός", "ароль", "арола", "סיסמה", "סיסמא"),
    *("كلمة المرور", "كلمة السر", "رمز عبور", "पासवर्ड", "รหัสผ่าน"),
    *("密码", "密碼", "口令", "パスワード", "비밀번호", "암호", "비번", "패스워드"),
)
_PASSWORDS_IN_ASCII: Final = (
    *("kennwort", "wachtwoord", "contrasena", "contrasenya", "senha", "parola", "heslo"),
    *("adgangskode", "salasana", "lozinka", "kata sandi", "mdp"),
)
_WITH_PASS: Final = ("passwort", "passord", "mot de passe", "mot_de_passe", "palavra-passe")
_KEYS: Final = ("schlüssel", "clé", "люч", "окен", "密钥", "金鑰", "令牌", "トークン", "キー", "토큰")
_LOGINS: Final = ("zugangsdaten", "credenciales", "credenciais", "identifiants")
_KEYS_IN_ASCII: Final = ("clave", "chave", "chiave", "sleutel", "klucz", "nyckel", "jeton")
IS: Final = ("ist", "lautet", "es", "est", "é", "è")  # in tables and markup too, see `layouts`
_IS: Final = (
    *(*IS, "war", "está", "era", "jest", "to", "är", "er", "on", "je", "este"),
    *("adalah", "là", "είναι", "هي", "הוא", "היא"),
)
_SHORT: Final = 6  # letters; such a word is part of others ("enclave")
_SHORTEST: Final = 3  # such a one is part of ids
# What a sentence says after the name ("… für den Server lautet: "), or the sign before a value. After a colon words
# may stand for themselves in English (`password: hunting`); here they are as often those of a form.
_SAYS: Final = (
    r"(?:(?:[ \t][^\s:=]{1,24}+){0,6}?"
    rf"(?:(?P<says>[ \t]{written_out(trie(_IS))}[ \t:]{{1,3}})|(?P<sign>[ \t\xa0]{{0,2}}:[ \t](?=[ \t]{{0,4}}+\S)))"
    rf"|(?P<joined>[ \t]{{0,2}}[{_EAST_ASIAN}]{{0,4}}+[ \t:]{{0,3}}(?=[\"'(]?[!-~]{{8}})))?"
)


def _patterns(words: Iterable[str], english: str, value: str = "") -> dict[str, tuple[str, re.Pattern[str]]]:
    """Map each word to its English name and the pattern of the word, of what leads to its value, and of `value`."""
    return {word: (english, lazy_pattern(f"{re.escape(word)}{_end_of(word)}{_SAYS}{value}")) for word in words}


def _end_of(word: str) -> str:
    if word[-1] >= "\u3000":
        return ""
    if len(word) > _SHORT or not word.isascii():
        return "(?![a-z])"
    others = "a-z" if len(word) > _SHORTEST else "a-z0-9"
    return f"(?<![{others}]{word})(?![{others}])"


def _escaped(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words as JSON escapes them."""
    return tuple("".join(sign if sign.isascii() else f"\\u{ord(sign):04x}" for sign in word) for word in words)


def _with_quotes_of_ascii(text: str) -> str:
    if "„" in text:
        text = _LOW_QUOTED.sub(r'"\1"', text)
    if any(quote in text for quote in "«»„"):
        for quote in _QUOTES_ABROAD:  # with `re` such a text takes a quarter longer
            text = text.replace(quote, '"')
    return text


def _with_signs_of_ascii(text: str) -> str:
    """Return a text with the signs and spaces of ASCII between letters of East Asia.

    Most such text has no value, and is read at a third of the speed if it is searched for each sign and each value.
    """
    encoded = text.encode("utf-8", "surrogatepass")
    if b"w" not in encoded.translate(_WIDE_BEGIN) and not any(sign in encoded for sign in _SIGNS_BEGIN_WIDE):
        return text
    if _WIDE.search(text) is None:
        return text
    full_width = {sign.decode() for sign in set(_FULL_WIDTH.findall(encoded))}
    for sign in ("\u3000", "\u3001", "\u3002", "\u300c", "\u300d", *full_width):
        text = text.replace(sign, _SIGNS_OF.get(sign, sign))
    if _LONG in text.encode("utf-8", "surrogatepass").translate(_PRINTED):
        text = _VALUE_BEFORE.sub(r" \g<0>", _VALUE_AFTER.sub(r"\g<0> ", text))
    return text


SIGNS: Final = (*_BEFORE_FLAGS, *_PASSWORDS_IN_ASCII, *_KEYS_IN_ASCII, *_LOGINS)
"""Without these, or "pass" or an escape, `read` takes no more than margins from a text in small letters of ASCII."""

_IN_OTHERS: Final = _patterns(_PASSWORDS, "password") | _patterns(_KEYS, "api key")
_IN_ASCII: Final = (
    _patterns(_PASSWORDS_IN_ASCII, "password")
    | _patterns(_KEYS_IN_ASCII, "api key")
    | _patterns(_LOGINS, "credentials")
)
_OF_PASS: Final = _patterns(_WITH_PASS, "password")
# The same words name passwords, which people make of a word and a year or a number and a sign.
_MADE: Final = _patterns(
    _KEYS_IN_ASCII, "password", r"(?=[\"']?[a-z]{4,20}+(?:[0-9]{4}|[0-9]{1,3}[!#$%*?@])[!#$%*?@]?(?![\w-]))"
)
_ESCAPED: Final = _escaped((*_PASSWORDS, *_KEYS))
_LETTER: Final = lazy_pattern(r"\\u((?!00[0-7]|[dD][89a-fA-F])[0-9a-fA-F]{4})")


def in_english(text: str) -> str:
    """Return the text with such names in English, each with what leads to its value cut down to "is" or "="."""
    given, folded = text, fold_ascii(text)
    within = searchable(folded)
    if "\\u" in within and any(word in within for word in _ESCAPED):
        text = _LETTER.sub(lambda escaped: chr(int(escaped[1], 16)), text)
    if not text.isascii():
        text = _with_signs_of_ascii(_with_quotes_of_ascii(text))
    if text is not given:
        folded = fold_ascii(text)
        within = searchable(folded)
    names = list[tuple[str, re.Pattern[str]]]()
    for words in (_MADE, _IN_ASCII, _OF_PASS if "pass" in within else {}, {} if text.isascii() else _IN_OTHERS):
        for word, name in words.items():
            if word in within:
                names.append(name)
    for english, pattern in names:
        if matches := list(pattern.finditer(folded)):
            text = _replaced(text, matches, english)
            folded = fold_ascii(text)
    return text


def _replaced(text: str, matches: Iterable[re.Match[str]], english: str) -> str:
    parts: list[str] = []
    end = 0
    for match in matches:
        parts += (
            text[end : match.start()],
            english,
            " is " if match["says"] or match["joined"] is not None else " = " if match["sign"] else "",
        )
        end = match.end()
    return "".join((*parts, text[end:]))
