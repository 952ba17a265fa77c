"""Secrets in what single programs print or read, each told by words that hardly anything else has.

Rows are as in `assignments`. They come from a set of outputs that was written from memory of the programs
(`tests/data/outputs`). An anchor of its own costs each text half a nanosecond a character, so a rule begins with one
that other rules have, where it can, and looks behind.
"""

from __future__ import annotations

from typing import Final

from tellback.redaction.alternations import preceded_by
from tellback.redaction.values import (
    AT_END,
    DOUBT,
    GIVEN,
    MIXED_OR_LETTERS,
    MIXED_WORD,
    NO_VALUE,
    PATH,
    PHRASE,
    AnchoredRule,
)

_LINE: Final = r"[ \t]{0,4}+\r?\n[ \t]{0,20}+"
_ENDS: Final = r"(?:@|[ ]\w{1,20}=)"  # of the password: a host, a setting
_NOT_HERE: Final = r"(?!\$|<|\{|\*)"
_QUOTED: Final = r"[^\"'\s]{8,100}+[\"']"
# The rest of a call with a user, perhaps an address before, and a password: `login("svc", "…")`, `login(svc, …)`.
_WORDS: Final = rf"(?:{MIXED_WORD}|{PHRASE})"
_DOUBTED: Final = rf"(?:{PHRASE}|{MIXED_WORD}{DOUBT})"
_CALLED: Final = r"\w{0,20}+(?:\(|,\[|::new(?:\(|,\[))"  # to enter a group that may be missing takes 30 ns more
_OF_USER: Final = (
    rf"{_CALLED}(?:"
    r"(?:[^()\"'\n,:]{0,60}+(?:[\"'][^\"'\n]{1,120}+[\"'](?:\.\w{2,12}\(\))?+)?+,[ ]?){1,6}(?:some\([ ]?)?"
    rf"[\"'](?![^\"'@\n]{{1,64}}@[\w-]{{1,40}}\.){NO_VALUE}{PATH}{_WORDS}{_QUOTED}"
    rf"|[\w.@-]{{1,64}},[ ]{MIXED_WORD}{DOUBT}[^\s()\"',]{{8,100}}+\))"
)
# Words that no user is called: "login attempt u1a2b3c4".
_AFTER_LOGIN: Final = (
    r"(?:a(?:nd|s|t|ttempt)|by|code|event|f(?:ailed|low|or|orm|rom)|i[dns]|name|node|o[fnr]|page|session|to|user"
    r"|via|was|with)[ ]"
)
# The value alone in the next line; a text that holds it may end there.
_BELOW: Final = r"[^\n]{0,120}\n[ \t]{0,40}"
_LINE_ENDS: Final = r"(?=[\"'`,;)\]}]{0,6}+(?:</[\w-]{1,30}>)?+[ \t\r]{0,4}$)"
RULES: Final = (
    # Stores of secrets, clouds, clusters.
    AnchoredRule("secret-assignment", "securestring", rf"\",[ \t\r\n]{{0,40}}+\"value\":[ ]?\"[^\"\n]{{4}}{AT_END}"),
    AnchoredRule(
        "azure-key",
        "key",
        r"[\\\"](?:(?<=primarykey.)|(?<=secondarykey.))(?:(?<=\")|\")[ ]?:[ ]?\\?\"[0-9a-z+/]{43,86}={1,2}",
    ),
    AnchoredRule(
        "secret-assignment",
        "pass",
        r"word\"(?<=\"random_password\")[^}]{0,400}?\n[ ]{2,8}result[ ]{1,12}=[ ]\"[^\"\n]{4}" + AT_END,
    ),
    AnchoredRule(
        "secret-assignment",
        "name",
        rf">(?<=<name>)(?=[\w.-]{{0,80}}?(?:passw|secret|token|credential|api[._-]?key))[\w.-]{{1,100}}+</name>"
        rf"[ \t\r\n]{{0,40}}+<value>{_NOT_HERE}[^<\n]{{6}}{AT_END}",
    ),
    # Databases and brokers.
    AnchoredRule("password", "identified ", r"with[ ]\w{1,40}[ ](?:by|as)[ ]'(?!\$|<|\*)[^'\s]{4}"),
    AnchoredRule("password", "pass", rf"\"(?<=requirepass\"){_LINE}2\)[ ]\"[^\"\n]{{4}}{AT_END}"),
    AnchoredRule("password", "auth", r"\"[ ]\"(?<=\"auth\"[ ]\")(?:[^\"\n]{1,64}\"[ ]\")?[^\"\n]{4}"),
    AnchoredRule("password", "mysql", r":(?<=construct\('mysql:)[^'\n]{1,120}',[ ]'[^'\n]{1,64}',[ ]'[^'$\n]{3}"),
    AnchoredRule(
        "password",
        "mysql",
        r"(?:i(?:_connect)?|(?:db)?\.connect)\([\"'][^\"'\n]{1,80}[\"'],[ ]?"
        r"[\"'][^\"'\n]{1,64}[\"'],[ ]?[\"'][^\"'$\n]{3}",
    ),
    *(  # of WordPress, whose values may have any sign
        AnchoredRule("secret-assignment", word, rf"'(?<=_{word}'),[ ]{{1,20}}'[^'\n]{{60,70}}'[ ]?\);")
        for word in ("key", "salt")
    ),
    AnchoredRule("password", "cookie", rf"[ ](?<=-setcookie[ ]){GIVEN}"),
    # Protocols in which a client shows its password: SMTP, POP3, FTP, IRC, IMAP, Redis; a proxy's peer.
    AnchoredRule("basic-auth", "auth", r"[ ]plain[ ](?<=auth plain )[0-9a-z+/]{12,400}={0,2}"),
    AnchoredRule(
        "password",
        "pass",
        rf"[ ](?<![^ '\".\n]pass[ ])(?=[^\s/]{{6,80}}?['\\rn]{{0,6}}$){MIXED_WORD}{DOUBT}[^\s/'\\]{{6}}",
        r"(?=[ ]\S{6,88}$)",
    ),
    AnchoredRule("password", "login", r"[ ]\"(?<=[ ]login[ ]\")[^\"\n]{1,64}\"[ ]\"[^\"\n]{4}"),
    AnchoredRule(
        "secret-assignment",
        "key",
        r"[\"'`*: \n](?<=recovery key.)[\"'`*: \n]{0,5}(?:[a-z0-9]{4,6}-){3,8}[a-z0-9]{4,6}(?![\w-])",
    ),
    AnchoredRule("password", "login", rf"=(?<=[ ?]login=)[^\s:/&\"'`]{{1,64}}:{_NOT_HERE}[^\s&]{{4}}"),
    AnchoredRule(
        "password",
        "auth",
        rf"[ ](?:(?<=[>\n][ ]auth[ ])|(?<=[\n\"]auth[ ])|(?<=hello[ ][23][ ]auth[ ]))(?:[\w-]{{1,32}}[ ])?"
        rf"[\"']?{MIXED_WORD}{DOUBT}[^\s\"']{{8,200}}+[\"']?[ \t\r]{{0,4}}$",
    ),
    AnchoredRule("password", "auth", rf"(?<=\nauth)\r?\n\$[0-9]{{1,3}}\r?\n\S{{4}}{AT_END}"),  # the protocol itself
    AnchoredRule("password", "auth", r"[ ]default[ ](?<=auth default )(?!\$|<)[^\s\"']{6,100}+[ \t\r]{0,4}$"),
    AnchoredRule("basic-auth", "authorization", r":[ ][a-z]{3,12}[ ](?:token=)?(?=\S{0,60}?[0-9])[\w.~+/=-]{20}"),
    AnchoredRule(
        "password",
        "login",
        rf"(?:[ ](?<=[ ]login[ ])[\w.-]{{1,64}}[ ]{MIXED_WORD}{DOUBT}\S{{8,200}}+$"
        rf"|:?[ ](?<![\w-]login[ ])(?<![\w-]login:[ ])(?!{_AFTER_LOGIN})[\w.@-]{{1,64}}[ ](?![0-9a-f-]{{8,64}}+(?!\w))"
        rf"{MIXED_WORD}{DOUBT}[\w!@#%^&*+~?=-]{{8,40}}+(?=[\"'`,;.)]{{0,2}}(?:\s|$)))",
    ),
    AnchoredRule("password", "pass", rf"[ ](?<=auth-pass )[\w.-]{{1,60}}[ ]{MIXED_WORD}\S{{6,100}}+$"),
    # Pairs of a user and a password in calls.
    *(AnchoredRule("password", call, _OF_USER) for call in ("login", "connect")),
    *(AnchoredRule("password", call, _OF_USER.replace(_WORDS, _DOUBTED)) for call in ("auth", "pass", "cred")),
    AnchoredRule("password", "auth", rf"\((?<=[.:>]auth\()[\"']{_DOUBTED}[^\"'\s]{{8,100}}+[\"']\)"),
    AnchoredRule("password", "auth", rf"[ ]%[sb][^\"'\n]{{0,8}}\",[ ]?(?:[\w.\"]{{1,40}},[ ]?)?\"{_WORDS}[^\"\s]{{6}}"),
    *(  # a user and a password in one text
        AnchoredRule(
            "password",
            word,
            rf"{rest}[\"']?+[ ]{{0,4}}+[:=,][ ]?+[\"'][\w.@+-]{{1,64}}+:{NO_VALUE}{_DOUBTED}[^\s\"'/:]{{8,100}}+[\"']",
        )
        for word, rest in (("auth", ""), ("pwd", ""), ("cred", "entials"))
    ),
    AnchoredRule(
        "password", "auth", rf"(?:\(|[ ]?=[ ]?\()[\"'][^\"'\n]{{1,64}}[\"'],[ ]?[\"']{NO_VALUE}{PATH}[^\"'\s]{{6}}"
    ),
    AnchoredRule("github-token", "auth", r"\.github\.com[ ](?<=github-oauth\.github\.com[ ])[0-9a-z_]{30}"),
    AnchoredRule("password-hash", "secret", r"[ ][0-9][ ]\$[0-9a-z]{1,2}\$\S{8}"),
    AnchoredRule("password-hash", "pass", r"word[ ]7[ ][0-9a-f]{8}"),
    AnchoredRule(
        "password",
        "pass",
        r"word[ ]'(?:(?<=login password ')|(?<=with password ')|(?<=encrypted password '))(?!\$|<|%)[^'\s]{4}",
    ),
    # Mail, networks.
    AnchoredRule("password", "login", rf"[ ](?<=[ ]login[ ])[^\s@]{{1,64}}@[^\s@]{{1,80}}[ ]{GIVEN}(?=$|[,}}])"),
    AnchoredRule("password", "key", r"[ ]content[ ]{1,20}:[ ]\S{6}"),
    AnchoredRule(
        "password",
        "pass",
        r"word[\"']?[ ]?[:=][ ]?[\"']?(?:[a-z]{4}[ ]){3}[a-z]{4}[\"']?,?$",
        r"(?=word[\"']?+[ ]?+[:=][ ]?+[\"']?+[a-z]{4}[ ])",  # to enter a group that repeats costs three times as much
    ),
    AnchoredRule("password", "key", r"material>[^<\s$]{8,63}<"),
    AnchoredRule("password", "psk", r"(?<![a-z]psk)[ ]\"[^\"\n<$]{6}"),
    # Keys of Solana, as its tools store them: an array of 64 bytes.
    AnchoredRule(  # not the bytes of a text, which are below 128
        "solana-key",
        "[",
        r"(?=[^\]]{0,300}?[\[, ](?:1[3-9][0-9]|2[0-9]{2}))(?:[0-9]{1,3},[ ]?){63}[0-9]{1,3}\]",
        "(?=[0-9]{1,3},[ ]?[0-9]{1,3},)",
    ),
    AnchoredRule(  # a phrase in a sentence
        "password",
        "use ",
        rf"[\"'`]?{PHRASE}[a-z-]{{14,60}}+[\"'`]?[ ](?:as|for|when[ ]asked[ ]for)[ ](?:the|your|our|my|its)[ ]"
        r"[\w .-]{0,40}?pass(?:word|wd|[ ]?phrase)(?!s|[ ](?:field|input|form|reset|hash|manage|stor|valid))",
    ),
    # Stores of secrets, by their commands.
    AnchoredRule(
        "secret-assignment",
        "echo ",
        r"(?:-n[ ])?[\"']?(?!\$|<)[^\s\"'$]{8,300}+[\"']?[ ]{1,3}\|[^\n|]{1,60}?"
        r"(?:secrets?[ ](?:put|set|create|add|versions[ ]add)|config[ ]set[ ]--secret|env[ ]add)[ ]",
    ),
    *(  # stores of secrets of clouds, as `az keyvault secret set --name db --value …`
        AnchoredRule(
            "secret-assignment",
            anchor,
            rf"[^\n]{{0,160}}?[ ]{flag}[ =][\"']?{_NOT_HERE}{NO_VALUE}(?!@|file:)[^\s\"'<>|-][^\s\"'<>|]{{5}}",
        )
        for anchor, flag in (
            ("secret set ", "--value"),
            ("add-generic-password", "-w"),
            ("add-internet-password", "-w"),
            ("securestring", "--value"),
            ("setairportnetwork ", r"[\w.-]{1,40}"),
        )
    ),
    AnchoredRule(
        "secret-assignment",
        "secrets versions access",
        rf"{_BELOW}{_NOT_HERE}{NO_VALUE}[^\s\"'`<>{{}}()]{{8,200}}{_LINE_ENDS}{AT_END}",
    ),
    AnchoredRule(
        "secret-assignment",
        "secrets:",
        rf"[ ]?\n[ ]{{0,20}}-[ ]name:[ ][\w.-]{{1,60}}\n[ ]{{1,24}}value:[ ][\"']?{_NOT_HERE}{NO_VALUE}[^\s\"']{{6}}"
        + AT_END,
    ),
    AnchoredRule(  # no path
        "password",
        "neo4j/",
        rf"(?<=[\"'=: ]neo4j/)(?!\S{{0,100}}\.[a-z]){MIXED_WORD}{DOUBT}"
        r"[^\s\"'`/<>(){}]{8,100}+(?=[\"'`<,;)}\]]|\s|$)",
    ),
    # Of single programs.
    AnchoredRule("password", "<(echo ", rf"(?:-n[ ])?[\"']?{_NOT_HERE}[^\s\"')]{{6}}"),
    AnchoredRule("password", "useradd ", rf"[^\n]{{0,80}}?-p[ ]{GIVEN}"),
    AnchoredRule("password", "rclone ", rf"(?:obscure|[^\n]{{0,160}}?[ ]pass)[ ]{GIVEN}"),
    AnchoredRule("password", "signtool ", rf"[^\n]{{0,120}}?[ ]/p[ ]{GIVEN}"),
    AnchoredRule("password", '"result": "', r"[^\"\n]{4,200}\",\s{0,40}\"special\""),  # of terraform's random_password
    AnchoredRule("password", "pgp_sym_", rf"(?:de|en)crypt\([^\n']{{1,80}},[ ]?'{MIXED_WORD}{DOUBT}[^'\s]{{8}}"),
    AnchoredRule("password", " /rp ", GIVEN),
    AnchoredRule("password", "http-basic.", rf"[\w.-]{{1,60}}[ ]\S{{1,64}}[ ]{GIVEN}"),
    AnchoredRule("password", "]:587 ", r"[^\s:@]{1,64}(?:@[^\s:]{1,80})?:(?!\$)\S{6}"),
    *(AnchoredRule("password", f': {of} "', MIXED_WORD) for of in ("eap", "xauth")),
    AnchoredRule("password", "pass", rf">(?<=auth-user-pass>)\r?\n[^\n]{{1,64}}\n\S{{4}}{AT_END}"),
    AnchoredRule("password", "{plain}", r"[^\s:]{6}"),
    AnchoredRule("password", "wifi:", r"(?:[a-z]:[^;\n]{0,64};){0,4}?p:[^;\n]{4}"),
    # Applications and what tests type into them.
    AnchoredRule(
        "password", "cred", rf"(?:entials(?:[ ]are)?|s):?[ ][^\s/]{{1,64}}[ ]/[ ][\"']?{_NOT_HERE}[^\s\"']{{6}}"
    ),
    AnchoredRule(
        "password",
        "cred",
        rf"entials(?:[ ]are)?:?[ ][\w.-]{{1,64}}:{MIXED_WORD}{DOUBT}[^\s\"'/:@<}}]{{8,60}}+(?=[\s\"'`,;<]|$)",
    ),
    AnchoredRule(
        "password",
        "auth",
        rf"[ ](?:sha|md5)(?:-?[0-9]{{3}})?[ ](?![0-9a-f]{{8,64}}+\b){MIXED_WORD}{DOUBT}[^\s\"'/]{{8,60}}+",
    ),
    AnchoredRule(
        "password",
        "pass",
        r"word[\"'][\])]{1,2}[^\n]{0,20}?\.(?:type|fill|send_?keys|set_?text|set_?value)\([\"']"
        rf"{_NOT_HERE}[^\"'\s]{{4}}",
        r"(?=word[\"'])",
    ),
)
_OF_NO_ROUTER: Final = preceded_by(
    (
        # Not "host", "primary" or "routing", whose keys are secrets of Azure and PagerDuty.
        f"{of} key "
        for of in ("public", "partition", "foreign", "sort", "object", "cache")
    ),
    unless=True,
)
NEAR_DIGITS: Final = (
    AnchoredRule(  # of tools for browsers: `"element": "Password textbox", "text": "…"`
        "password",
        "pass",
        rf"word[^\"\n\\]{{0,40}}+\",[ ]?\"(?:text|value)\"[ ]?:[ ]?\"{_NOT_HERE}{MIXED_WORD}[^\s\"]{{6,100}}+\"",
    ),
    # Configurations of routers and of servers for RADIUS.
    *(
        AnchoredRule(
            "password",
            word,
            rf"[ ]{_OF_NO_ROUTER}(?:[0-9][ ])?[\"']?(?=\S{{8}}){MIXED_WORD}{NO_VALUE}{PATH}(?![0-9a-f-]{{8,64}}+(?!\w))"
            rf"{DOUBT}[\w!@#%^&*+~?=.-]{{8,40}}+"
            r"(?=[\"']?[ \t\r]{0,4}(?:$|#[ ]|[ ](?:address|r[ow])\b))",
        )
        for word in ("key", "secret")
    ),
)
# A sentence that goes on: "the api token for staging is …, please rotate it". Each value seems random.
_FOR: Final = r"[ ](?:for|of|in|on|at|to)[ ]"
RANDOM: Final = tuple(
    AnchoredRule(
        "password" if anchor in {"pass", "psk"} else "secret-assignment",
        anchor,
        rf"{of}{_FOR}(?:[\w.'-]{{1,30}}+[ ]){{1,3}}?(?:is|was)[ :]{{1,3}}[\"'`]?"
        rf"(?=[\w+/.~=%:!@#^*&$-]{{12}}){MIXED_OR_LETTERS}{NO_VALUE}{PATH}{DOUBT}[\w+/.~=%:!@#^*&$-]{{12,200}}",
        rf"(?={of}{_FOR})",
    )
    for anchor, of in (
        *((name, "") for name in ("token", "secret", "salt", "psk")),
        ("pass", "(?:word|phrase)"),
        ("key", "(?<=[a-z][_ -]key)"),
        ("hash", "(?<=api.hash)"),
    )
)
# Searched only near a long value with a digit, which all of these have.
NEAR_VALUES: Final = (
    *(  # what generates or shows one, without the prompt that `layouts` looks for
        AnchoredRule(
            "secret-assignment",
            command,
            rf"{_BELOW}{_NOT_HERE}{MIXED_WORD}[^\s\"'`<>{{}}()]{{10,200}}{_LINE_ENDS}{AT_END}",
        )
        for command in ("openssl rand", "consul keygen")
    ),
    *(  # of MercadoPago
        AnchoredRule("payment-key", of, r"[0-9]{16}-[0-9]{6}-[0-9a-f]{32}") for of in ("app_usr-", "test-")
    ),
    AnchoredRule(
        "secret-assignment",
        "dagster",
        rf"[^\n]{{0,160}}?(?:\n[^\n]{{0,80}}?){{0,2}}(?:user|agent):(?:[a-z0-9-]{{1,60}}+:)?[0-9a-f]{{32}}(?![0-9a-f]){AT_END}",
    ),
    AnchoredRule("secret-assignment", "microk8s join ", r"[\w.:\[\]-]{1,60}/[0-9a-f]{32}"),
    AnchoredRule(
        "secret-assignment", "mc alias set ", r"[\w.-]{1,40}[ ]https?://\S{1,100}[ ](?!\$)\S{3,64}[ ](?!\$)\S{4}"
    ),
    AnchoredRule(
        "secret-assignment",
        '"label": "',
        rf"(?:password|credential|api key)\",[ \t\r\n]{{0,40}}+\"value\":[ ]\"[^\"\n]{{4}}{AT_END}",
    ),
    AnchoredRule("password", "scram-sha-256$", r"[0-9]{3,7}:[0-9a-z+/]{16}"),
    AnchoredRule(  # of second factors
        "secret-assignment",
        "manually",
        rf":?[ ]{{1,4}}{MIXED_WORD}(?:[a-z2-7]{{16,64}}|(?:[a-z2-7]{{4}}[ ]){{3,15}}[a-z2-7]{{4}})(?![\w-])",
    ),
    AnchoredRule("password", "{ssha", r"(?:256|384|512)?\}[0-9a-z+/=]{24}"),
    AnchoredRule("secret-assignment", "hmac-", r"(?:sha[0-9]{1,3}|md5):[\w.-]{1,80}:[0-9a-z+/]{16}"),
    # SMTP's "Password:" in base64, and below it the answer.
    AnchoredRule("password", "ugfzc3dvcmq6", r"[^\n]{0,4}\n[^\n]{0,8}?[0-9a-z+/]{8,200}+={0,2}$" + AT_END),
    AnchoredRule("password", "identify ", rf"{MIXED_WORD}{DOUBT}\S{{8}}"),
    AnchoredRule("secret-assignment", "=\t", r"(?<=[0-9a-z+/]{43}=\t)[0-9a-z+/]{43}=\t[0-9]{1,5}\t"),  # `wg show dump`
    *(
        AnchoredRule("secret-assignment", sign, rf"\"?{MIXED_WORD}{DOUBT}[^\s\"]{{8}}") for sign in ("\t*\t", " *  ")
    ),  # `chap-secrets`
    # What `expect` answers to a prompt.
    AnchoredRule(
        "password",
        "assword",
        rf"[:\]*? ]{{0,6}}[\"'][^\n]{{0,8}}[\n;][ \t]{{0,40}}[\w.]{{0,20}}"
        rf"send(?:line)?[ (]{{1,2}}[\"']{MIXED_WORD}[^\"'\n]{{6}}{AT_END}",
    ),
    *(  # what a tool shows only once
        AnchoredRule(
            "secret-assignment",
            word,
            rf"{preceded_by(f'{seen} {word}' for seen in ('shown', 'displayed', 'printed', 'visible', 'it'))}"
            rf"[^\n]{{0,80}}(?::[ ]{{1,4}}|\n(?:[ \t\r]{{0,4}}\n)?[ \t]{{0,20}})"
            rf"[\"'`]?{NO_VALUE}{PATH}{MIXED_WORD}{DOUBT}[^\s\"'`<>{{}}()]{{8,300}}+{_LINE_ENDS}{AT_END}",
        )
        for word in ("once", "again")
    ),
    # Keys of TLS sessions, as browsers log them.
    *(
        AnchoredRule("secret-assignment", of, r"[0-9a-f]{64}[ ][0-9a-f]{64}")
        for of in ("client_random ", "_traffic_secret_0 ", "exporter_secret ")
    ),
    AnchoredRule("secret-assignment", "raw result: ", MIXED_WORD),  # of a scanner of secrets
    AnchoredRule("secret-assignment", "hex:", r"(?<=[0-9] hex:)[0-9a-f]{32}"),  # of chrony
    AnchoredRule("password", "invalid user ", rf"{MIXED_WORD}{DOUBT}\S{{8,100}}+[ ]from"),
    AnchoredRule("password", "bundle config", rf"[^\n]{{1,120}}[ ][\w.-]{{1,64}}:{_NOT_HERE}\S{{6}}"),
    *(
        AnchoredRule("secret-assignment", call, rf"{given}b?[\"']{MIXED_OR_LETTERS}{DOUBT}[^\"'\s]{{12}}")
        for call, given in (
            ("hmac", r"[\w.]{0,20}\((?:[\"']\w{1,12}[\"'],[ ]?)?[^\"'\n]{0,40}"),
            ("jwt.", r"(?:de|en)code\([^\n\"']{1,80},[ ]?"),
            ("crypt(", r"[^\n\"']{1,80},[ ]?"),
            ("sign(", r"[^\n\"']{0,80}?(?:[\"'][^\"'\n]{0,40}[\"'][^\n\"']{0,40}){0,3}?,[ ]?"),
            ("cookieparser(", ""),
            ("cookiestore(", r"\[\]byte\("),
        )
    ),
    AnchoredRule(
        "secret-assignment", 'plaintext": "', rf"(?:\\?\")?{MIXED_WORD}{DOUBT}[^\"'\s]{{8}}"
    ),  # of Pulumi's state
    AnchoredRule(
        "secret-assignment",
        "totp",
        r"(?:[ ]-[a-z]){0,2}\"?[ ]?[:= ][ ]?\"?(?=[a-z]{0,30}[2-7])[a-z2-7]{16,64}(?![\w-])",
    ),
    AnchoredRule("github-token", 'github-oauth"', r":[ ]?\{\s{0,20}\"[\w.-]{1,60}\":[ ]?\"\w{30}"),
    AnchoredRule(
        "secret-assignment", 'username":', r"[ ]?\"[^\"\n]{1,64}\",[ \r\n]{0,20}\"key\"[ ]?:[ ]?\"[0-9a-f]{32}\""
    ),
    AnchoredRule(
        "bearer",
        "bearer",
        rf"[:\s{{}}\"'`,=]{{1,8}}+(?:value:[ ]?)?[\"']?{MIXED_OR_LETTERS}{DOUBT}[\w+/.~=-]{{16}}{AT_END}",
    ),
    # Tokens in arguments of commands.
    AnchoredRule("basic-auth", " -u", rf"[ =][\"']?{MIXED_OR_LETTERS}{DOUBT}[\w.-]{{20,200}}+:(?=[\"'\s]|$)"),
    *(
        AnchoredRule(
            "secret-flag", flag, rf"[ ]?(?![0-9a-f]{{20,200}}+\b){MIXED_OR_LETTERS}{DOUBT}[\w-]{{20,200}}+(?=\s|$)"
        )
        for flag in (" -t", " -k ")
    ),
    AnchoredRule(
        "secret-flag",
        "login ",
        rf"(?<=[ ]login[ ])(?:<<<[ ])?{MIXED_OR_LETTERS}{DOUBT}[\w.-]{{20,200}}+(?=\s|$)",
    ),
    AnchoredRule(  # without a scheme
        "url-credentials",
        "//",
        rf"(?<!:..)[\w.-]{{1,60}}+:{NO_VALUE}{MIXED_WORD}{DOUBT}[^\s/@\"'<>{{}}]{{8,200}}+@[\w\[]",
    ),
    *(  # of Oracle
        AnchoredRule("password", tool, rf"[^\n]{{0,60}}?[\w.-]{{1,40}}/{MIXED_WORD}{DOUBT}[^\s@/\"']{{8,60}}{_ENDS}")
        for tool in ("expdp ", "impdp ", "rman ", "sqlldr ", "conn ", "connect ")
    ),
    *(AnchoredRule("password", call, _OF_USER.removeprefix(_CALLED)) for call in ("user(", "pdo(")),
)
