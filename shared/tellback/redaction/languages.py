"""Names of passwords and keys in languages other than English, and how a sentence says what they are.

Rows are as in `assignments`. All are searched only near a long value with a digit, so most texts do not pay for them.
Only ASCII is folded, so a word whose first letter may be a capital begins with its second.
"""

from __future__ import annotations

from typing import Final

from tellback.redaction.values import DOUBT, MIXED_OR_LETTERS, MIXED_WORD, NO_VALUE, PATH, AnchoredRule, trie

_PASSWORDS: Final = (
    *("asswort", "kennwort", "wachtwoord", "mot de passe", "mot_de_passe", "contraseña", "contrasena", "contrasenya"),
    *("senha", "palavra-passe", "parola", "hasło", "heslo", "lösenord", "passord", "adgangskode", "salasana", "jelszó"),
    *("lozinka", "ifre", "ật khẩu", "kata sandi", "ωδικός", "ароль", "арола", "סיסמה", "סיסמא"),
    *("كلمة المرور", "كلمة السر", "رمز عبور", "पासवर्ड", "รหัสผ่าน"),
    *("密码", "密碼", "口令", "パスワード", "비밀번호", "암호"),
)
_KEYS: Final = (
    *("schlüssel", "clé", "clave", "chave", "chiave", "sleutel", "klucz", "nyckel", "jeton", "люч", "окен"),
    *("密钥", "金鑰", "令牌", "トークン", "キー", "토큰"),
)
IS: Final = ("ist", "lautet", "es", "est", "é", "è")  # in tables and markup too, see `layouts`
_IS: Final = (
    *(*IS, "war", "está", "era", "jest", "to", "är", "er", "on", "je", "este"),
    *("adalah", "là", "είναι", "هي", "הוא", "היא"),
)
_WORDS: Final = r"(?:[ \t][^\s:=\uff1a]{1,24}+){0,6}?"
_SEPARATED: Final = r"[\w-]{0,12}[\"']?[ \t\xa0]{0,4}[:=\uff1a][ \t]{0,4}"
_SAID: Final = rf"[ \t](?:{trie(_IS)}|[-\u2013\u2014])[ \t:]{{1,3}}"
_JOINED: Final = r"[ \t]{0,2}(?:は|是|为|為|을|를|은|는)[ \t:\uff1a]{0,3}"
_OPEN: Final = rf"[\"'`\u00ab\u201e\u201c\u300c]?{NO_VALUE}{PATH}"
_GIVEN: Final = f"{_OPEN}{MIXED_OR_LETTERS}"
_STATED: Final = rf"(?:{_WORDS}(?:{_SAID}|{_SEPARATED})|{_JOINED}){_GIVEN}"

RULES: Final = (
    *(
        AnchoredRule(
            "password",
            word,
            rf"(?:{_SEPARATED}{_OPEN}{MIXED_WORD}[^\s\"'<>|;]{{8}}|{_STATED}{DOUBT}[^\s\"'<>|;]{{8}})",
        )
        for word in _PASSWORDS
    ),
    AnchoredRule("password", "password", rf"{_WORDS}{_SAID}{_GIVEN}{DOUBT}[^\s\"'<>|;]{{8}}"),
    *(AnchoredRule("secret-assignment", word, rf"{_STATED}{DOUBT}[\w+/.~=%:!@#^*&?$-]{{12}}") for word in _KEYS),
)
