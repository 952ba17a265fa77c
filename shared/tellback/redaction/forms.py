"""Secrets given away by the form of their line: sentences, pairs of a name and a value, command lines, files.

Rows are as in `assignments`. Most forms were added when sets of secrets that were written without knowledge of the
rules showed what had been missed (docs/operations/redaction.md has the figures).
"""

from __future__ import annotations

from typing import Final

from tellback.redaction.alternations import preceded_by, trie
from tellback.redaction.assignments import UNLESS
from tellback.redaction.values import (
    AFTER_KEY,
    AFTER_NAME,
    AT_END,
    DOUBT,
    MIXED_OR_LETTERS,
    MIXED_WORD,
    NO_VALUE,
    NOT_MOVED,
    PATH,
    PHRASE,
    TABLE,
    AnchoredRule,
    long_value,
)

_MIXED: Final = MIXED_WORD
_MIXED_WELL: Final = r"(?=\S{0,60}?[0-9]\S{0,60}?[0-9])"
_NAMES: Final = (
    r"(?:passw|passphrase|[_-]pass\b|pwd|secret|token|cred|api[_-]?(?:key|hash)"
    r"|(?:access|private|account|auth|write|signing|encryption|master|shared|unseal|app|subscription)[_-]?key|[_-]key"
    r"|[_-]dsn|[_-]pat\b|pw\b|psk\b|(?:client|access)[ _-]?id\b)"
)
_NO_VALUE_OF: Final = (
    r"(?<!name)(?<!path)(?<!file)(?<!url)(?<!type)(?<!expiry)(?<!length)(?<!limit)(?<!count)(?<!header)"
)
_BETWEEN: Final = r"(?:[ \t]?[:=][ \t]{0,3}+|[ \t]{1,3}+)"
# A name, then its value after a keyword, on the same line or the next: environments of Kubernetes and of ECS task
# definitions, Terraform variables, XML settings, `gh secret set NAME --body VALUE`.
_PAIR_NAME: Final = rf"[\\\"']{{0,2}}+{_BETWEEN}[\\\"']{{0,2}}+"
_PAIR_VALUE: Final = (
    r"[\w.-]{1,80}+[\\\"']{0,2}+[ \t]{0,4}+[,{]?+[ \t]{0,4}+\r?+\n?+[ \t]{0,60}+[\\\"']{0,2}+"
    r"(?:value|default|example|--body)"
)
_PAIR_REST: Final = (
    rf"{_PAIR_VALUE}[\\\"']{{0,2}}+{_BETWEEN}"
    # `value=new_spend,` and `value: data.token}` pass a variable.
    rf"(?:[\\\"']{{1,2}}+|(?![\w.]{{1,60}}+\(|[a-z_.]{{1,60}}+[,)]|[a-z_]{{1,30}}+(?:\.[a-z_]{{1,30}}+){{1,4}}+$|(?:this|self|data)\.[a-z_.]{{1,60}}+\}}))"
    rf"{NO_VALUE}{PATH}(?![0-9.]{{1,20}}+\b)[^\s\"'<>{{}}]{{4}}"
)
_PAIR: Final = rf"{_PAIR_NAME}(?=[\w.-]{{0,60}}?{_NAMES})(?=[\w.-]{{1,80}}+{_NO_VALUE_OF}){_PAIR_REST}{AT_END}"
_PAIR_AHEAD: Final = f"(?={_PAIR_NAME}{_PAIR_REST})"  # before a search for all names at each character of the name
# `key` and `pat` alone are too common to be telling. They count only before a long, random-looking value, and not
# before a hash: cache keys, object ids and checksums are hex of 32 to 128 digits; deliveries of ours have keys too.
HASH: Final = (
    r"(?!(?:sha\d{1,3}[:-])?[0-9a-f-]{32,128}+(?![\w+/])|t[0-9]{1,3}-[0-9a-f]{24}:"
    r"|(?=[\w.-]{33})[\w.-]{0,200}?-[0-9a-f]{32,128}+(?![\w+/])"
    r"|[\w.-]{1,60}/[\w./-]{1,160}\.[a-z]{2,4}(?![\w/+=]))"  # of a file, in a store of objects
)
# "cache_key", "partition_key" and the like name lookup keys, which are not secret.
_INDEX: Final = (
    *("public", "cache", "restore", "partition", "primary", "foreign", "sort", "object", "group", "index"),
    "idempotency",
    *("last", "websocket", "publishable", "dedup", "message", "lock", "row", "record", "s3"),
)
NO_INDEX: Final = preceded_by(
    ("did:key", *(f"{name}{sign}key" for name in _INDEX for sign in "_- ")), unless=True
)  # decentralised identifiers are public keys
_A_DIGIT: Final = r"(?=[a-z+/.~=%:_-]{0,60}+[0-9])"


# The same in camel case: `cosmosKey`. It runs over the original text, since in lower case it looks like `monkey`.
CAMEL: Final = tuple(
    AnchoredRule(
        "secret-assignment",
        word,
        rf"(?<=[a-z0-9]{word}){preceded_by((name[1:] + word for name in _INDEX), unless=True)}[\\\"']{{0,2}}+[ \t]?"
        rf"(?:[=:][ \t]?[\\\"']{{1,2}}+|>|</key>\s{{0,40}}+<string>|[ ]value=[\"']){PATH}{HASH}"
        rf"(?=[A-Za-z+/.~=%:_-]{{0,60}}+[0-9]){DOUBT}{long_value(20)}{AT_END}",
    )
    for word in ("Key", "Pat")
)
# A value that a sentence or a call tells: "the password is …", "rotate the token (…)", "use … as the key".
_FILLERS: Final = (
    *("is", "was", "are", "be", "has", "been", "will", "now", "set", "reset", "changed", "rotated", "updated", "to"),
    *("as", "auf", "value", "generated", "created", "here", "for", "the", "your", "new", "user", "root", "admin"),
    *("provided", "given", "below", "found", "received", "expected", "got", "used", "supplied", "invalid"),
)
_FILLER: Final = rf"(?:[ \t:=]{{1,3}}+(?:[\w.-]{{1,40}}+@[\w.-]{{1,40}}+|{trie(_FILLERS)})\b){{0,5}}+"
_CALL_ID: Final = r"\[[0-9a-f-]{36}\]"  # Celery names a task and its id: `app.tasks.rotate_token[…]`
_IN_SENTENCE: Final = (
    rf"{_FILLER}(?!{_CALL_ID})[ \t:=\[\](]{{1,6}}+[\"'`]{{0,2}}+"
    rf"(?:(?=[^\s\"'`0-9]{{0,60}}+[0-9])|(?=[a-z]{{16}}))(?=[\w!@#%^&*+~?$/=.:-]{{8}})"
    rf"(?=[^\s\"'`a-z]{{0,60}}+[a-z]){NO_VALUE}{PATH}{DOUBT}[\w!@#%^&*+~?$/=.:-]{{8,200}}+(?![(\[])"
)
_LONG_IN_SENTENCE: Final = _IN_SENTENCE.replace("{8", "{12")
# What is printed of a certificate or of a key of PGP is its fingerprint.
_NO_FINGERPRINT: Final = preceded_by(
    ("rsa key", "dsa key", "kernel key", "pgp key", "gpg key", "gpg: key"), unless=True
)
_KEY_IN_SENTENCE: Final = _LONG_IN_SENTENCE.replace(
    DOUBT,
    rf"(?!(?=[\w.-]{{33}})[\w.-]{{0,200}}?-[0-9a-f]{{32,128}}+(?![\w+/])|[a-z]{{2,16}}+[_-][0-9a-f]{{6,16}}+(?![\w-])"
    rf"|[\w.-]{{1,60}}/[\w./-]{{1,160}}\.[a-z]{{2,4}}(?![\w/+=])){DOUBT}",
)
# A name, up to eight words, what says that a value follows, and the end of the line: "The password for the key is …".
_STATES: Final = rf"[ ](?:(?:is|{NOT_MOVED}to)(?:[ ]{{0,2}}:)?|[-–])"
_NO_ID: Final = "(?<![ _-]id:)(?<!(?:request|session|account|message)id:)(?<!(?:trace|event)id:)"
STATED: Final = (
    r"(?:[ \t][\w\[\]@.'\"()%/-]{1,30}+){0,8}?"
    rf"(?::(?<!key:){_NO_ID}|=|{_STATES}|[ \t](?:[:=]|{_STATES}|[ \t](?:[:=]|{_STATES})))"
    rf"[ \t]{{1,8}}+[\"'`]?{NO_VALUE}{PATH}(?![0-9.:]{{1,30}}+(?![\w-])|[0-9]{{1,4}}-[0-9]{{1,2}}-|[0-9]{{1,2}}:[0-9])"
)
_STATED_END: Final = r"[\"'`]?[.;]?(?:[\"'}\])]{1,6}+|</[\w-]{1,30}>)?[ \t\r]{0,4}$"  # perhaps of a text in JSON or XML
_STATED_PASSWORD: Final = (
    r"(?:word|wd|phrase|code)"
    rf"{STATED}(?=[^\s\"'`0-9]{{0,60}}+[0-9!@#$%^&*])(?=[^\s\"'`a-z]{{0,60}}+[a-z])[^\s\"'`()<>{{}}=/]{{8,100}}+{_STATED_END}"
)
_STATED_IN_SENTENCE: Final = (
    rf"(?:word|wd|phrase|code){STATED}{_MIXED}{DOUBT}[^\s\"'`()<>{{}}]{{8,100}}?"
    r"[\"'`]?(?:[,.;][ ]|[ ]\(|[.;]?[ \t\r]{0,4}$)"
)
_STATED_SECRET: Final = rf"{STATED}{_MIXED}{DOUBT}[\w+/.~=%:!@#^*&$-]{{12,200}}+{_STATED_END}"
# Only after these words: to look for a digit costs 4 ns a character.
_STATED_AHEAD: Final = (
    r"(?=[a-z]{2,6}+[ \t](?:[–-]|(?:for|is|was|of|has|to|reset|generated|on|in|at)\b)[^0-9\n]{0,100}+[0-9])"
)
_STATED_END_AHEAD: Final = r"(?=[^\n]{0,480}+(?:(?<=\S{8})|(?<=[ \t\r])))"
# A value ends the line, or spaces do. To go through the words before it costs 100 ns each.
_STATED_GUARD: Final = r"(?=[ \t:=][^\n]{0,480}+(?:(?<=\S{12})|(?<=[ \t\r])))"


# A line that ends in a colon, then the value alone: "Please use the following password:", a blank line, the password.
def _alone_after(least: int) -> str:
    value = rf"[\w+/.~=%!@#^*&$-]{{{least},200}}+[ \t\r]{{0,4}}+$"
    return (
        rf"[^\n:=(\[{{]{{0,60}}+(?:\([^()\n:=]{{0,80}}\))?:[ \t]{{0,4}}+\r?\n(?:[ \t]{{0,4}}+\r?\n)?+[ \t]{{0,20}}+"
        rf"(?={value}){NO_VALUE}{PATH}{MIXED_OR_LETTERS}{DOUBT}{value}{AT_END}"  # first what most lines are not
    )


_ALONE_GUARD: Final = r"(?=[^:=\n]{0,60}+:[ \t\r]{0,5}+\n)"
# One word on before all of it: a group that repeats costs more than the other checks together.
_SENTENCE_AHEAD: Final = (
    rf"(?=[a-z]{{2,6}}+[ \t:=\[(]{{1,6}}+[\"'`]{{0,2}}+(?:[^\s\"'`0-9]{{0,60}}+[0-9@]|{trie(_FILLERS)}\b))"
    rf"(?=[a-z]{{2,6}}+{_FILLER}[ \t:=\[(]{{1,6}}+[\"'`]{{0,2}}+[^\s\"'`0-9]{{0,60}}+[0-9])"
)
_SAID: Final = rf"[ \t]is[ \t:]{{1,3}}+[\"'`]?{_MIXED}{_MIXED_WELL}{PATH}[\w!@#%^&*+~?$/=-]{{8}}"
_CALLED: Final = rf"\([ \t]?[\"']{NO_VALUE}{PATH}{_MIXED}[^\"'\s$<{{%]{{8,200}}+[\"']"
# A password that the line gives in words. One check for a digit behind the name decides nearly every place for all.
_WORDED_AHEAD: Final = r"(?=[a-z]{0,6}+(?:[ \t]{1,8}+(?=\S)[^0-9\n]{0,50}+[0-9]|[:=(\[]))"
_WORDED_PASSWORD: Final = (
    rf"(?:(?=word[ \t]{{1,8}}+[^\s\"'()<>{{}}=]{{8,100}}+$)"
    rf"word(?<!\S........)[ \t]{{1,8}}+{NO_VALUE}{_MIXED}[^\s\"'()<>{{}}=]{{8,100}}+$"
    rf"|(?=[a-z]{{0,6}}+(?:[ \t]is|\())"
    rf"(?:(?:word|wd|phrase)(?:{_SAID}|{_CALLED})|(?<=[_-]pass){_SAID}|(?<=[a-z]pass)(?<!bypass){_CALLED})"
    rf"|{_STATED_AHEAD}{_STATED_END_AHEAD}{_STATED_PASSWORD})"
)
_WORDED_DOUBTFUL: Final = (
    rf"(?:{_STATED_AHEAD}{_STATED_IN_SENTENCE}|{_SENTENCE_AHEAD}(?>word|wd|phrase|code){_IN_SENTENCE})"
)

_PAIRS_OF: Final = " ".join(
    f"{of}{sign}{{word}}" for of in (*"名号户디", "id", "user", "username", "login") for sign in "/&|,"
)
_PAIR_BEGINS: Final = r"[ \t]{0,2}(?:[=-]?>|[:=(-])[ \t]{0,4}"
# After a space alone, and before a comma and a space, comes prose too: `username/password authentication, OAuth2`.
_PAIRED: Final = (
    rf"[)\]]?(?:{_PAIR_BEGINS}[\w.@-]{{1,64}}+(?:[ ]{{0,2}}//?[ ]{{0,2}}|[:,(])|[ \t][\w.@-]{{1,64}}+//?"
    rf"|(?:{_PAIR_BEGINS}|[ \t])[\w.@-]{{1,64}}+[ :,(]{{1,3}}{DOUBT})"
    rf"(?=[^\s\"'`()<>{{}},;/]{{6}}){NO_VALUE}{_MIXED}[^\s\"'`()<>{{}},;/]{{6,60}}+(?!/)"
)
_IDENTIFIED: Final = ("is", "be", "are", "was", "one", "file", "library", "module", "locate revision")  # alembic
_NO_PROSE: Final = preceded_by((f"{word} identified " for word in _IDENTIFIED), unless=True)

# These are searched only where a long value with a digit stands, see `rules`. Each value of the first seems random.
RANDOM: Final = (
    *(
        AnchoredRule(
            "secret-assignment",
            word,
            rf"{unless}[\\\"']{{0,2}}+[ \t]?[=:][ \t]?[\\\"']{{0,2}}+{PATH}{HASH}{DOUBT}{long_value(20)}",
            rf"(?<![a-z.]{word})(?=[\\\"']{{0,2}}+[ \t]?[=:][ \t]?[\\\"']{{0,2}}+{_A_DIGIT}[\w+/.~=%:-]{{20}})",
        )
        for word, unless in (("key", NO_INDEX), ("pat", ""))
    ),
    *(
        AnchoredRule("secret-assignment", word, f"{named}{_LONG_IN_SENTENCE}")
        for word, named in (("secret", f"{UNLESS['secret']}(?:[ _]id)?"), ("token", UNLESS["token"]), ("webhook", ""))
    ),
    *(AnchoredRule("secret-assignment", word, rf"[ _-]id{_LONG_IN_SENTENCE}") for word in ("client", "access")),
    # In any form, since the value has a name of its own, which made it seem less random: `("Cookie", "sessionid=…`.
    AnchoredRule(
        "secret-assignment",
        "cookie",
        rf"(?![a-z])[^\n{{}};?&]{{0,80}}?(?:[|>]-?\n[ \t]{{0,40}}+|\n[ \t]{{0,40}}+value:[ ][\"']?)?"
        r"(?<![\w.-])(?!_ga|_gid|_gcl|_fbp|__utm|cookie|sha[0-9]{1,3}=|md5=)[\w.-]{2,40}+="
        rf"{PATH}{HASH}{DOUBT}{long_value(20)}{AT_END}",
    ),
    *(
        AnchoredRule("secret-assignment", word, f"{named}{rest}", f"{before}{guard}")
        # Not shorter than the values near which it is searched: what comes below, which a stream has not got, must not
        # decide.
        for rest, guard in ((_STATED_SECRET, _STATED_GUARD), (_alone_after(12), _ALONE_GUARD))
        for word, before, named in (
            ("token", "", UNLESS["token"]),
            ("secret", "", UNLESS["secret"]),
            ("key", "(?<=[a-z][_ -]key)", f"{NO_INDEX}{_NO_FINGERPRINT}"),
        )
    ),
    AnchoredRule("secret-assignment", "key", rf"{NO_INDEX}{_NO_FINGERPRINT}(?<![a-z.]key){_KEY_IN_SENTENCE}"),
    AnchoredRule(
        "secret-assignment",
        "use ",
        rf"[\"'`]?{MIXED_OR_LETTERS}{DOUBT}[\w!@#%^&*+~?$/=.:-]{{12,200}}+[\"'`]?[ ](?:as|for)"
        r"[ ](?:the|your|our|my|its)[ ][\w .-]{0,40}?(?:token|secret|key|passw|passphrase|api.hash)",
    ),
)
SENTENCES: Final = (
    # Long values with digits that begin with a text of their own.
    AnchoredRule("secret-assignment", "operator unseal", r"[ ](?:-\S{1,80}[ ]){0,3}[\"']?[0-9a-z+/=]{32}"),
    AnchoredRule("secret-assignment", ") 0x", r"(?<=\([0-9]\) 0x)[0-9a-f]{64}\b"),  # lists of development chains' keys
    *(
        AnchoredRule("recovery-code", f"{of} code", rf"[ ]is[ :]{{1,3}}[\"'`]?{_MIXED}{DOUBT}[\w-]{{8}}")
        for of in ("recovery", "backup", "scratch", "one-time")
    ),
    AnchoredRule("databricks-token", "dapi", "[0-9a-f]{32}"),
    AnchoredRule("clickhouse-key", "4b1d", "[0-9a-z]{38}(?![0-9a-z])"),
    AnchoredRule("nuget-key", "oy2", "[a-z0-9]{43}(?![0-9a-z])"),
)
NEAR_DIGITS: Final = (
    # A user and a password behind both names: `ID/PW: alice/…`.
    *(
        AnchoredRule(
            "password",
            word,
            rf"{preceded_by(_PAIRS_OF.format(word=word).split())}{rest}(?![a-z]){_PAIRED}",
            f"(?<=[/&|,]{word})",
        )
        for word, rest in (("pw", "d?"), ("pass", "(?:word|wd)?"))
    ),
    # Sentences and calls.
    AnchoredRule(
        "password",
        "pass",
        rf"w(?:ord|d)[\w-]{{0,20}}+[\"']?+[ \t]{{1,80}}+[\"']{NO_VALUE}{_MIXED}[^\"'\s$<{{]{{6,100}}+[\"']",
    ),
    *(AnchoredRule("password", "pass", worded, _WORDED_AHEAD) for worded in (_WORDED_PASSWORD, _WORDED_DOUBTFUL)),
    AnchoredRule(
        "password",
        "pw",
        rf"(?<![\w.-]pw){_STATED_IN_SENTENCE.removeprefix('(?:word|wd|phrase|code)')}",
        r"(?=[ ](?:for|is|was|of|on|in|at)\b[^0-9\n]{0,100}+[0-9])",
    ),
    # `Login: alice/…`, "creds for the wiki: alice / …", "portal login ann@example.com / …"; no path.
    *(
        AnchoredRule(
            "password",
            word,
            rf"{rest}(?:[ ][\w.-]{{1,16}}+){{0,4}}?[ ]?[:=]?[ ]?(?![\w-]{{1,20}}+/v[0-9])[\w.@-]{{1,40}}+[ ]?/[ ]?"
            rf"(?=[^\s/\"'`()<>{{}}]{{8}}){NO_VALUE}{_MIXED}{DOUBT}[^\s/\"'`()<>{{}}]{{8,40}}+(?!/)",
            rf"(?={rest}[ :][^\n/]{{1,200}}+/)",
        )
        for word, rest in (("login", ""), ("cred", "(?:entials|s)"))
    ),
    *(
        AnchoredRule("secret-assignment", anchor, f"{named}{said}", ahead if named else "")
        for said, ahead in ((_SAID, r"(?=[ \t]is)"), (_CALLED, r"(?=\()"))
        for anchor, named in (
            ("token", UNLESS["token"]),
            ("secret", UNLESS["secret"]),
            ("key", preceded_by(("apikey", "api_key", "api-key", "api key", "_key", "accountkey", "privatekey"))),
        )
    ),
    # A row of a printed table: a name, a bar, its value. Passwords are shorter, see `layouts`.
    *(
        AnchoredRule(
            "secret-assignment",
            word,
            rf"{TABLE}{named}[\w-]{{0,40}}+[ \t]{{1,40}}+\|[ \t]{{1,8}}+{_MIXED_WELL}{DOUBT}{long_value(8)}",
            AFTER_KEY if word == "key" else AFTER_NAME,
        )
        for word, named in (
            ("token", UNLESS["token"]),
            ("secret", UNLESS["secret"]),
            ("key", preceded_by(("apikey", "api_key", "api-key", "_key"))),
        )
    ),
)
RULES: Final = (
    AnchoredRule(  # a password may be shorter, so it is searched everywhere
        "password", "passw", f"(?:or)?d{_alone_after(8)}", _ALONE_GUARD
    ),
    AnchoredRule(
        "secret-assignment", "key", _PAIR, rf"(?=[\\\"']{{0,2}}+[ \t]?[:=][ \t]{{0,3}}+[\\\"']{{0,2}}+{_PAIR_REST})"
    ),
    *(AnchoredRule("secret-assignment", word, _PAIR, _PAIR_AHEAD) for word in ("name", "variable", "secret set")),
    AnchoredRule("secret-assignment", "pat", r"=[0-9a-f]{32}(?![0-9a-f])"),
    # What tools print: Vault's shares of its key, the words of a wallet.
    AnchoredRule(
        "secret-assignment", "key", r"[ ](?:(?<=unseal.....)|(?<=recovery.....))[0-9]{1,2}:[ \t]{0,8}+[0-9a-z+/=]{12}"
    ),
    AnchoredRule("secret-assignment", "key", r"[ ](?<!\wkey[ ])[0-9]{1,2}:[ ]{1,8}[0-9a-z+/]{43}=(?![\w=])"),
    AnchoredRule(
        "secret-assignment",
        "key",
        r"s_(?<=unseal_keys_)(?:b64|hex)\"[ ]?:\s{0,20}+\[\s{0,20}+\"[0-9a-z+/=]{32}" + AT_END,
    ),
    AnchoredRule("secret-assignment", "login", r"[ ](?<=wandb.login.)(?:--[\w=-]{1,40}[ ]){0,3}[\"']?[0-9a-z]{40}"),
    AnchoredRule(
        "secret-assignment",
        "key",
        r"(?<=[pty][^=]key)(?:(?<=setup....)|(?<=secret....)|(?<=entry....))"
        r"[^\n:]{0,40}+:?[ \n]{1,4}(?:[a-z2-7]{4}[ ]?){4,16}$" + AT_END,
    ),
    *(
        AnchoredRule(
            "seed-phrase",
            words,
            r"[\\\"']{0,2}+(?:[ ][\w-]{1,20}){0,8}?(?:[ ]\([^()\n]{1,40}\))?[ \t]{0,4}+(?:is[ \t:]{1,3}|->|[:=]|(?=\n))"
            r"[ \t]{0,20}+(?:\r?\n){0,2}+[ \t]{0,8}+"
            r"[\\\"'`]{0,2}+(?:[a-z]{3,8}[ \t]){11}[a-z]{3,8}" + AT_END,
        )
        for words in ("mnemonic", "phrase", "bip39")
    ),
    AnchoredRule(
        "seed-phrase",
        "seed",
        r"(?:[ ]words)?[\"']?[ ]?[:=][ ]?[\"'`]?(?:[a-z]{3,8}[ ]){11}(?:(?:[a-z]{3,8}[ ]){3}){0,4}[a-z]{3,8}"
        r"[\"'`]?[,.;]?[ \t\r]{0,4}$",
    ),
    # A part of a form with many: its name, a blank line, the value.
    AnchoredRule(
        "secret-assignment",
        "name",
        rf"=\"(?<=form-data; name..)(?=[\w.-]{{0,60}}?{_NAMES})[\w.-]{{1,80}}+\"[^\n]{{0,80}}+\n"
        r"(?:[a-z-]{4,40}+:[^\n]{1,80}+\n){0,3}+\r?\n"
        rf"{NO_VALUE}[^\s]{{6}}{AT_END}",
    ),
    # Recognised by a word that hardly anything else contains.
    AnchoredRule("masked-value", "::add-mask::", r"(?!\$|<|\{|\*{3})\S{4}"),
    # What Elasticsearch, cloud-init and Windows' answer files print below a line that names it.
    AnchoredRule(
        "password",
        "pass",
        r"word(?:[ ]for the \[\w{1,40}\] user successfully reset\.?[ ]?\r?\n?[ ]?new value:[ ]{1,4}\S{6}"
        r"|s(?<='random' passwords)\r?\n[\w-]{1,32}:\S{6,64}$"
        rf"|>(?<=administratorpassword>)[ \t]{{0,4}}\r?\n?[ \t]{{0,40}}<value>(?!\$|<)\S{{4}}){AT_END}",
    ),
    AnchoredRule(
        "password",
        "user ",
        r"(?:(?:(?<=setuser )[\w-]{1,64}[ ][^\n>]{0,80}+|[\w-]{1,64}[ ]on[ ][^\n>]{0,80}+)>"
        r"|[\w-]{1,64}[ ]o(?:n|ff)[ ][^\n#]{0,80}+#(?=[0-9a-f]{64}\b)"
        r"|(?<=createuser )[\w-]{1,64}[ ](?:md5|sha[0-9-]{0,5})[ ]\"?)(?!\$|<)\S{4}",
    ),
    AnchoredRule("password", "pwd", rf"=\{{(?:{_MIXED}|{PHRASE})[^{{}}\s$().]{{6,100}}\}}(?:[;\"']|$)"),  # ODBC
    AnchoredRule(
        "password", "login", r"(?::|[ ](?:with|as|using))[ ][\w.@-]{1,64}[ ]/[ ](?=[^\s0-9]{0,40}+[0-9])[^\s/]{6}"
    ),
    AnchoredRule(
        "password", "identified ", rf"{_NO_PROSE}by[ \t]{{1,4}}+(?:password[ \t])?[\"'](?!\$|<|\*|%s|\?)[^\"'\s]{{4}}"
    ),
    AnchoredRule(
        "password", "identified ", rf"by[ ]{_MIXED}{DOUBT}[\w!@#%^&*+?$=./-]{{8,60}}+(?:;|[ \t\r]{{0,4}}$|[ ][a-z])"
    ),
    AnchoredRule(
        "password",
        "securestring",
        r"[ \t]{1,4}+(?:-string[ \t])?(?:[\"'](?!\$|<)[^\"'\s]{4}|(?![$<(-])\S{8,100}[ ]-asplain)",
    ),
    AnchoredRule("password", "cred", rf"entials?\([\"'][^\"'\n]{{1,64}}[\"'],[ \t]?[\"']{NO_VALUE}[^\"'\s]{{4}}"),
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
        r"[\\\"'](?<=[\"']auth.)[\\\"']?+:[ \t]{0,4}+[\\\"']{1,2}+(?=[a-z+/=]{0,60}+[0-9])"
        r"(?:[0-9a-z+/]{400}|[0-9a-z+/]{20,400}+={0,2}[\\\"'])",
    ),
    AnchoredRule("secret-assignment", "fernet(", r"b?[\"'][\w-]{43}="),
    # .pgpass: host:port:database:user:password. Database and user must not be numbers, as in times and positions.
    *(
        AnchoredRule(
            "password",
            port,
            rf"(?![0-9]{{1,20}}:)[\w*-]{{1,63}}+:(?![0-9]{{1,20}}:)[\w*-]{{1,63}}+:{_MIXED}[^\s:\"'/<]{{6,100}}+(?=[\"'}}\],)<]|$)",
        )
        for port in (":5432:", ":5433:", ":6432:", ":*:")
    ),
)
