"""Names of passwords and keys in other languages, put into English before a text is searched.

So each rule holds for all of them: `contraseña = …`, a column `Passwort`, "Das Kennwort für admin ist …".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.redaction.substrings import fold_ascii, searchable
from tellback.redaction.values import trie

# Only ASCII is folded, so a word whose first letter may be a capital begins with its second.
_PASSWORDS: Final = (
    *("contraseña", "hasło", "lösenord", "jelszó", "ifre", "ật khẩu", "ωδικός", "ароль", "арола", "סיסמה", "סיסמא"),
    *("كلمة المرور", "كلمة السر", "رمز عبور", "पासवर्ड", "รหัสผ่าน"),
    *("密码", "密碼", "口令", "パスワード", "비밀번호", "암호"),
)
_PASSWORDS_IN_ASCII: Final = (
    *("kennwort", "wachtwoord", "contrasena", "contrasenya", "contrase\\u00f1a", "senha", "parola", "heslo"),
    *("adgangskode", "salasana", "lozinka", "kata sandi"),
)
_WITH_PASS: Final = ("passwort", "passord", "mot de passe", "mot_de_passe", "palavra-passe")
_KEYS: Final = ("schlüssel", "clé", "люч", "окен", "密钥", "金鑰", "令牌", "トークン", "キー", "토큰")
_KEYS_IN_ASCII: Final = ("clave", "chave", "chiave", "sleutel", "klucz", "nyckel")
IS: Final = ("ist", "lautet", "es", "est", "é", "è")  # in tables and markup too, see `layouts`
_IS: Final = (
    *(*IS, "war", "está", "era", "jest", "to", "är", "er", "on", "je", "este"),
    *("adalah", "là", "είναι", "هي", "הוא", "היא"),
)
_SHORT: Final = 6  # letters; such a word is part of others ("enclave")
# What a sentence says after the name ("… für den Server lautet: "), or the sign before a value. After a colon words
# may stand for themselves in English (`password: hunting`); here they are as often those of a form.
_SAYS: Final = (
    r"(?:(?:[ \t][^\s:=\uff1a]{1,24}+){0,6}?"
    rf"(?:(?P<says>[ \t]{trie(_IS)}[ \t:]{{1,3}})|(?P<sign>[ \t\xa0]{{0,2}}(?:\uff1a|:[ \t])(?=[ \t]{{0,4}}+\S)))"
    r"|(?P<joined>[ \t]{0,2}(?:は|是|为|為|을|를|은|는)[ \t:\uff1a]{0,3}))?"
)


def _pattern(word: str) -> re.Pattern[str]:
    alone = rf"(?<![a-z]{word})" if len(word) <= _SHORT and word.isascii() else ""
    return lazy_pattern(rf"{re.escape(word)}{alone}(?![a-z]){_SAYS}")


_IN_OTHERS: Final = {word: ("password", _pattern(word)) for word in _PASSWORDS} | {
    word: ("api key", _pattern(word)) for word in _KEYS
}
_IN_ASCII: Final = {word: ("password", _pattern(word)) for word in _PASSWORDS_IN_ASCII} | {
    word: ("api key", _pattern(word)) for word in _KEYS_IN_ASCII
}
_OF_PASS: Final = {word: ("password", _pattern(word)) for word in _WITH_PASS}


def in_english(text: str) -> str:
    """Return the text with such names in English, each with what leads to its value cut down to "is" or "="."""
    within = searchable(fold_ascii(text))
    names = dict[str, tuple[str, re.Pattern[str]]]()
    for words in (_IN_ASCII, _OF_PASS if "pass" in within else {}, {} if text.isascii() else _IN_OTHERS):
        for word, name in words.items():
            if word in within:
                names[word] = name
    for english, pattern in names.values():
        text = _replaced(text, pattern.finditer(fold_ascii(text)), english)
    return text


def _replaced(text: str, matches: Iterable[re.Match[str]], english: str) -> str:
    parts: list[str] = []
    end = 0
    for match in matches:
        parts += (
            text[end : match.start()],
            english,
            " is " if match["says"] or match["joined"] else " = " if match["sign"] else "",
        )
        end = match.end()
    return "".join((*parts, text[end:]))
