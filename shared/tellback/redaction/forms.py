"""Secrets given away by the form of their line: sentences, pairs of a name and a value, command lines, files.

Rows are as in `assignments`. Most forms were added when sets of secrets that were written without knowledge of the
rules showed what had been missed (docs/operations/redaction.md has the figures).
"""

from __future__ import annotations

from typing import Final

from tellback.redaction.values import (
    AFTER_NAME,
    AFTER_PASSWORD,
    AT_END,
    DOUBT,
    NO_VALUE,
    PATH,
    TABLE,
    AnchoredRule,
    long_value,
    preceded_by,
    trie,
)

_MIXED: Final = r"(?=[^\s\"'0-9]{0,60}+[0-9])(?=[^\s\"'a-z]{0,60}+[a-z])"
_MIXED_WELL: Final = r"(?=\S{0,60}?[0-9]\S{0,60}?[0-9])"
_NAMES: Final = (
    r"(?:passw|passphrase|pwd|secret|token|cred|api[_-]?key"
    r"|(?:access|private|account|auth|write|signing|encryption|master|shared|unseal|app|subscription)[_-]?key|[_-]key"
    r"|[_-]dsn|[_-]pat\b)"
)
_NO_VALUE_OF: Final = (
    r"(?<!name)(?<!path)(?<!file)(?<!url)(?<!type)(?<!expiry)(?<!length)(?<!limit)(?<!count)(?<!header)"
)
_BETWEEN: Final = r"(?:[ \t]?[:=][ \t]{0,3}+|[ \t]{1,3}+)"
# A name, then its value after a keyword, on the same line or the next: environments of Kubernetes and of ECS task
# definitions, Terraform variables, XML settings, `gh secret set NAME --body VALUE`.
_PAIR_NAME: Final = rf"[\\\"']{{0,2}}+{_BETWEEN}[\\\"']{{0,2}}+"
_PAIR_VALUE: Final = (
    r"[\w.-]{1,80}+[\\\"']{0,2}+[ \t]{0,4}+[,{]?[ \t]{0,4}+\r?\n?[ \t]{0,60}+[\\\"']{0,2}+(?:value|default|--body)"
)
_PAIR: Final = (
    rf"{_PAIR_NAME}(?=[\w.-]{{0,60}}?{_NAMES})(?=[\w.-]{{1,80}}+{_NO_VALUE_OF}){_PAIR_VALUE}[\\\"']{{0,2}}+{_BETWEEN}"
    rf"[\\\"']{{0,2}}+{NO_VALUE}{PATH}(?![0-9.]{{1,20}}+\b)[^\s\"'<>{{}}]{{4}}{AT_END}"
)
_PAIR_AHEAD: Final = f"(?={_PAIR_NAME}{_PAIR_VALUE})"
# `key` and `pat` alone are too common to be telling. They count only before a long, random-looking value, and not
# before a hash: cache keys, object ids and checksums are hex of 32 to 128 digits.
_HASH: Final = r"(?!(?:sha\d{1,3}[:-])?[0-9a-f-]{32,128}+(?![\w+/])|[\w.-]{0,200}?-[0-9a-f]{32,128}+(?![\w+/]))"
# "cache_key", "partition_key" and the like name lookup keys, which are not secret.
_INDEX: Final = (
    *("public", "cache", "restore", "partition", "primary", "foreign", "sort", "object", "group", "index"),
    "idempotency",
)
_NO_INDEX: Final = preceded_by((f"{name}{sign}key" for name in _INDEX for sign in "_- "), unless=True)
_A_DIGIT: Final = r"(?=[a-z+/.~=%:_-]{0,60}+[0-9])"


def _alone(word: str) -> str:
    return rf"(?<![a-z.]{word}){_NO_INDEX if word == 'key' else ''}"


# The same in camel case: `cosmosKey`. It runs over the original text, since in lower case it looks like `monkey`.
CAMEL: Final = tuple(
    AnchoredRule(
        "secret-assignment",
        word,
        rf"(?<=[a-z0-9]{word}){preceded_by((name[1:] + word for name in _INDEX), unless=True)}[\\\"']{{0,2}}+[ \t]?"
        rf"(?:[=:][ \t]?[\\\"']{{1,2}}+|>){PATH}{_HASH}(?=[A-Za-z+/.~=%:_-]{{0,60}}+[0-9]){DOUBT}{long_value(20)}",
    )
    for word in ("Key", "Pat")
)
# A value that a sentence or a call tells: "the password is …", "rotate the token (…)", "use … as the key".
_FILLERS: Final = (
    *("is", "was", "are", "be", "has", "been", "will", "now", "set", "reset", "changed", "rotated", "updated", "to"),
    *("as", "value", "generated", "created", "here", "for", "the", "your", "new", "user", "root", "admin"),
)
_FILLER: Final = rf"(?:[ \t:=]{{1,3}}+(?:[\w.-]{{1,40}}+@[\w.-]{{1,40}}+|{trie(_FILLERS)})\b){{0,5}}+"
_IN_SENTENCE: Final = (
    rf"{_FILLER}[ \t:=\[\](]{{1,6}}+[\"'`]{{0,2}}+{NO_VALUE}{PATH}(?=[\w!@#%^&*+~?$/=.:-]{{8}})"
    rf"(?=[^\s\"'`0-9]{{0,60}}+[0-9])(?=[^\s\"'`a-z]{{0,60}}+[a-z]){DOUBT}[\w!@#%^&*+~?$/=.:-]{{8,200}}+(?![(\[])"
)
_LONG_IN_SENTENCE: Final = _IN_SENTENCE.replace("{8", "{12")
_KEY_IN_SENTENCE: Final = _LONG_IN_SENTENCE.replace(
    DOUBT, rf"(?![\w.-]{{0,200}}?-[0-9a-f]{{32,128}}+(?![\w+/])){DOUBT}"
)
# One word on before all of it: a group that repeats costs more than the other checks together.
_SENTENCE_AHEAD: Final = (
    rf"(?=[a-z]{{2,6}}+[ \t:=\[(]{{1,6}}+[\"'`]{{0,2}}+(?:[^\s\"'`0-9]{{0,60}}+[0-9@]|{trie(_FILLERS)}\b))"
    rf"(?=[a-z]{{2,6}}+{_FILLER}[ \t:=\[(]{{1,6}}+[\"'`]{{0,2}}+[^\s\"'`0-9]{{0,60}}+[0-9])"
)
_SAID: Final = rf"[ \t]is[ \t:]{{1,3}}+[\"'`]?{_MIXED}{_MIXED_WELL}{PATH}[\w!@#%^&*+~?$/=-]{{8}}"
_CALLED: Final = rf"\([ \t]?[\"']{NO_VALUE}{PATH}{_MIXED}[^\"'\s$<{{%]{{8,200}}+[\"']"
_P: Final = r"[ =][\"']?(?!\$|<|[\d.:]{1,40}(?:/[a-z]{3})?(?![\w]))(?=[^\s0-9]{0,60}+[0-9])[^\s\"'$<-][^\s\"'/]{5}"
_STORES, _PARTS = ("", "src", "dest"), ("store", "key")  # of options of keytool: `-srcstorepass`

# These are searched only where a long value with two digits stands, see `rules`.
SENTENCES: Final = (
    # Each begins with a letter, so that `re` goes from one such to the next.
    *(("secret-assignment", f"{word}(?:[ ]id)?{_LONG_IN_SENTENCE}") for word in ("secret", "token", "webhook")),
    ("secret-assignment", f"key{_NO_INDEX}(?<![a-z.]key){_KEY_IN_SENTENCE}"),
    (
        "secret-assignment",
        (
            rf"use [\"'`]?{_MIXED}{_MIXED_WELL}{DOUBT}[\w!@#%^&*+~?$/=.:-]{{12,200}}+[\"'`]?[ ](?:as|for)"
            r"[ ](?:the|your|our|my|its)[ ][\w .-]{0,40}?(?:token|secret|key|passw|passphrase)"
        ),
    ),
)
RULES: Final = (
    AnchoredRule("secret-assignment", "key", _PAIR, r"(?=[\\\"']{0,2}+[ \t]?[:=])" + _PAIR_AHEAD),
    *(AnchoredRule("secret-assignment", word, _PAIR, _PAIR_AHEAD) for word in ("name", "variable", "secret set")),
    *(
        AnchoredRule(
            "secret-assignment",
            word,
            rf"{_alone(word)}[\\\"']{{0,2}}+[ \t]?[=:][ \t]?[\\\"']{{0,2}}+{PATH}{_HASH}{_A_DIGIT}"
            f"{DOUBT}{long_value(20)}",
            r"(?=[\\\"']{0,2}+[ \t]?[=:])",
        )
        for word in ("key", "pat")
    ),
    AnchoredRule("secret-assignment", "key", r"=(?:(?<=[?&]key=)|(?<![\w-]key=))[0-9a-f]{32}(?![0-9a-f])"),
    AnchoredRule("secret-assignment", "pat", r"=[0-9a-f]{32}(?![0-9a-f])"),
    # Sentences and calls.
    AnchoredRule(
        "password", "pass", rf"w(?:or)?d[\w-]{{0,20}}+[ \t]{{1,80}}+[\"']{NO_VALUE}{_MIXED}[^\"'\s$<{{]{{6,100}}+[\"']"
    ),
    AnchoredRule(
        "password",
        "pass",
        rf"word(?<!\S........)[ \t]{{1,8}}+{NO_VALUE}{_MIXED}[^\s\"'()<>{{}}=]{{8,100}}+$",
        r"(?=word[ \t]{1,8}+[^\s\"'()<>{}=]{8,100}+$)",
    ),
    AnchoredRule("password", "pass", rf"(?>word|wd|phrase|code){_IN_SENTENCE}", _SENTENCE_AHEAD),
    AnchoredRule("password", "pass", rf"(?:word|wd|phrase)(?:{_SAID}|{_CALLED})", r"(?=[a-z]{2,6}+(?:[ \t]is|\())"),
    *(
        AnchoredRule("secret-assignment", anchor, f"{named}{said}", ahead if named else "")
        for said, ahead in ((_SAID, r"(?=[ \t]is)"), (_CALLED, r"(?=\()"))
        for anchor, named in (
            ("token", ""),
            ("secret", ""),
            ("key", preceded_by(("apikey", "api_key", "api-key", "api key", "_key", "accountkey", "privatekey"))),
        )
    ),
    # A row of a printed table: a name, a bar, its value.
    *(
        AnchoredRule(
            "password" if word == "pass" else "secret-assignment",
            word,
            rf"{TABLE}{named}[\w-]{{0,40}}+[ \t]{{1,40}}+\|[ \t]{{1,8}}+{_MIXED_WELL}{DOUBT}{long_value(8)}",
            AFTER_PASSWORD if word == "pass" else AFTER_NAME,
        )
        for word, named in (
            ("pass", "w"),
            ("token", ""),
            ("secret", ""),
            ("key", preceded_by(("apikey", "api_key", "api-key", "_key"))),
        )
    ),
    # What tools print: Vault's shares of its key, the words of a wallet.
    AnchoredRule("secret-assignment", "unseal key", r"[ ][0-9]{1,2}:[ \t]{0,8}+[0-9a-z+/=]{12}"),
    *(
        AnchoredRule(
            "seed-phrase",
            words,
            r"[\\\"']{0,2}+[ \t]{0,4}+(?:is[ \t:]{1,3}|[:=])[ \t]{0,4}+[\\\"']{0,2}+(?:[a-z]{3,8}[ \t]){11}[a-z]{3,8}",
        )
        for words in ("mnemonic", "seed phrase", "recovery phrase")
    ),
    # Recognised by a word that hardly anything else contains.
    AnchoredRule("masked-value", "::add-mask::", r"(?!\$|<)\S{4}"),
    AnchoredRule("password", "identified by", r"[ \t]{1,4}+(?:password[ \t])?'(?!\$|<|\*|%s|\?)[^\"'\s]{4}"),
    AnchoredRule("password", "securestring", r"[ \t]{1,4}+(?:-string[ \t])?[\"'](?!\$|<)[^\"'\s]{4}"),
    AnchoredRule("password", "cred", rf"ential\([\"'][^\"'\n]{{1,64}}[\"'],[ \t]?[\"']{NO_VALUE}[^\"'\s]{{4}}"),
    AnchoredRule("password", "/user:", rf"[^\s\"']{{1,64}}+[ \t]{{1,4}}+{_MIXED}[^\s/\"'][^\s\"']{{5}}"),
    *(
        AnchoredRule("password", anchor, rf"[ \t](?<={word}.)[ \t]{{0,7}}[\"']?(?!\$|<|--|\")[^\s\"']{{4}}")
        for anchor, word in (("pw", "bindpw"), ("pass", "requirepass"), ("auth", "masterauth"))
    ),
    AnchoredRule("url-credentials", ":thin:", r"[^\s/:@\"']{1,64}/(?!\$|<|\{)[^\s/@\"']{3,100}@"),
    # Values of fixed form in lower case, or behind a text that is too common for any but long values.
    *(AnchoredRule("json-web-key", f'"{name}', rf"\\?\"[ ]?:[ ]?\\?\"{DOUBT}[\w-]{{42}}") for name in "dk"),
    AnchoredRule(
        "basic-auth",
        "auth",
        r"(?<=[\"']auth)[\\\"']{1,2}:[ \t]{0,4}[\\\"']{1,2}(?=[a-z+/=]{0,60}[0-9])"
        r"(?:[0-9a-z+/]{400}|[0-9a-z+/]{20,400}+={0,2}[\\\"'])",
    ),
    AnchoredRule("secret-assignment", "auth", r"=(?<=[?&]auth=)(?=[a-z_.-]{0,60}+[0-9])[\w.~%+/-]{20}"),
    *(
        AnchoredRule("private-key", "key", rf"{end}[ \t]{{0,3}}[\"']?ls0tls1crudjti")
        for end in (r"-data[\"']?[ \t]{0,3}[:=]", r"[\"'][ \t]{0,3}[:=]", r"[ \t][ \t]{0,2}[:=]", "[:=]")
    ),
    AnchoredRule("databricks-token", "dapi", "[0-9a-f]{32}"),
    AnchoredRule("clickhouse-key", "4b1d", "[0-9a-z]{38}(?![0-9a-z])"),
    AnchoredRule("artifactory-token", "cmvmd", "[0-9a-z]{50}"),
    AnchoredRule("nuget-key", "oy2", "[a-z0-9]{43}(?![0-9a-z])"),
    AnchoredRule("webhook-url", "hook", r"s\.slack\.com/(?:services|workflows|triggers)/[\w/+]{20}"),
    AnchoredRule("webhook-url", "hook", r"s/\d{16,20}/[\w-]{40}"),
    AnchoredRule("webhook-url", "hook", r"s/catch/[0-9]{3,12}/[0-9a-z]{5}"),
    AnchoredRule("webhook-url", "hook", r"(?:b2)?/[0-9a-z]{8}-[0-9a-z-]{27}@"),  # Teams, Outlook; ids need not be hex
    AnchoredRule("webhook-url", "hook", r"/(?<=\.tines\.com/webhook/)[0-9a-z]{20}"),
    AnchoredRule("webhook-url", "with/key/", r"[\w-]{20}"),
    AnchoredRule("signed-url", "sig=", r"(?<=[?&]sig=)[\w%+/-]{20}"),
    # .pgpass: host:port:database:user:password. Database and user must not be numbers, as in times and positions.
    *(
        AnchoredRule(
            "password",
            port,
            rf"(?![0-9]{{1,20}}:)[\w*-]{{1,63}}+:(?![0-9]{{1,20}}:)[\w*-]{{1,63}}+:{_MIXED}[^\s:\"'/]{{6,100}}+$",
        )
        for port in (":5432:", ":5433:", ":6432:", ":*:")
    ),
    # Command lines.
    AnchoredRule("password", "pass", r"[ ](?<=sshpass[ ])[ ]{0,3}-p ?[^\s$<]{3}"),
    AnchoredRule("password", "redis-cli", r"[^\n]{0,80}? -a [\"']?[^\s$<\"']{3}"),
    AnchoredRule("password", "mysql", r"[a-z]{0,10}+[^\n]{0,80}? -p[^\s$<-][^\s]{2}"),
    *(
        AnchoredRule("password", word, rf"{more}\b[^\n]{{0,120}}?[ ]-p{_P}")
        for word, more in (("login", ""), ("mongo", "[a-z]{0,8}"), ("twine upload", ""))
    ),
    AnchoredRule("password", "zip ", rf"[^\n]{{0,80}}?-p{_P}"),
    AnchoredRule("password", "7z", r"[a-z]?[ ][^\n]{0,80}?[ ]-p[\"']?(?!\$|<)[^\s\"'<-][^\s\"']{3}"),
    AnchoredRule("password", "sqlplus", r"[ ][^\n]{0,40}?[\w.-]{1,40}/[\"']?(?!\$|<|/)[^\s@\"'/]{3,60}[\"']?@"),
    AnchoredRule("password", "echo ", r"[\"']?(?!\$|<)[^\s\"'$]{4,100}[\"']?[ ]{1,3}\|[ ]{1,3}sudo[ ][^\n]{0,20}?-s"),
    AnchoredRule("password", "echo ", r"[\"']?[^\s:$]{1,64}:(?!\$|<)[^\s]{4,100}[ ]\|[ ](?:sudo[ ])?chpasswd"),
    AnchoredRule(
        "password",
        "ldap",
        r"(?:search|modify|add|delete|whoami|passwd)[ ][^\n]{0,160}?[ ]-w[ ][\"']?(?!\$|<)[^\s\"'-][^\s\"']{3}",
    ),
    AnchoredRule(
        "password",
        "pass",
        rf"[ =]{preceded_by(f'-{of}{what}pass{sign}' for of in _STORES for what in _PARTS for sign in ' =')}"
        r"[\"']?(?!\$|<|env:|file:)[^\s\"'-][^\s\"']{3}",
    ),
    AnchoredRule("password", "pass", r":(?<=[ ]pass:)(?!\$|<)[^\s\"']{4}"),
    AnchoredRule("password", "openssl enc", r"[ ][^\n]{0,120}?[ ]-k[ ][\"']?(?!\$|<)[^\s\"'-][^\s\"']{5}"),
    AnchoredRule("password", "smbclient", r"[ ][^\n]{0,120}?[ ]-u[ ][^\s%]{1,64}%(?!\$|<)\S{4}"),
    AnchoredRule(
        "password", "pass", r"wd[ ](?<=htpasswd[ ])-[a-z]{0,5}b[a-z]{0,5}[ ]\S{1,100}[ ]\S{1,64}[ ](?!\$|<)\S{4}"
    ),
)
