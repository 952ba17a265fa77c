"""Secrets that a name gives away across a layout: tables, columns, markup, and the ways in which programs dump values.

All of them are searched only near a long value with a digit (`rules`), so text without one pays nothing. Rows are as in
`assignments`.
"""

from __future__ import annotations

from typing import Final

from tellback.redaction.alternations import preceded_by, trie
from tellback.redaction.assignments import KEYS
from tellback.redaction.forms import HASH, NO_INDEX
from tellback.redaction.margins import IS
from tellback.redaction.values import (
    AT_END,
    DOUBT,
    MIXED_OR_LETTERS,
    MIXED_WORD,
    NAME_GOES_ON,
    NAMES,
    NO_VALUE,
    NOT_NAMED,
    PATH,
    AnchoredRule,
    long_value,
)

# Signs, and words that say that a value follows: `", default="`, ` → `, `: SecretStr("`, `" to "`, `]: !!str `. Paths,
# addresses and references go on with a sign that this leaves out.
_FILLERS: Final = (
    *(
        "is",
        "are",
        "was",
        "be",
        "should",
        "must",
        "to",
        "set",
        "now",
        "value",
        "val",
        "parametervalue",
        "default",
        "type",
        "content",
    ),
    *("string", "str", "from", "some", "into", "secretstr", "field", "protected", "private", "public", "const", "char"),
    *("data", "text", "json", "cdata", "it", "will", "not", "shown", "again", "this", "new", "here", "as", "stdin"),
    *("b", "byte", "bytes", "echo", "securestring", "for you", "copied", "equ"),
    *("defaultvalue", "default_value", "fallback", "unwrap_or", "or", *IS),
)
# A bracket or a comma without a quote after it belongs to a call or to the bases of a class.
_COMMA: Final = r",(?=[ ]?(?:[bru]?[\"'<\[]|[a-z]{2,20}[=: ]|[^\s,()]{8,200}$))"
_BRACKET: Final = r"\((?=[\"'b\n\u201c]|default=|value=)"
_SIGN: Final = r"[^\w\n/#@&+$(,]"
_SIGNS: Final = (
    rf"(?:{_SIGN}|{_COMMA}|{_BRACKET}){_SIGN}{{0,60}}+"
    rf"(?:[,(](?:(?<=,){_COMMA[1:]}|(?<=\(){_BRACKET[2:]}){_SIGN}{{0,60}}+){{0,9}}+"
)
_FIRST: Final = "".join(sorted({word[0] for word in _FILLERS}))  # most values begin otherwise
_FILLER: Final = rf"(?=[{_FIRST}]){trie(_FILLERS)}\b"
# Directly behind a name, brackets hold an index, the id of a task or the parameters of a test.
_CONNECTED: Final = rf"(?![/?%.;-]|::test|\[[\w.-]{{1,80}}\]){_SIGNS}(?:{_FILLER}(?:{_SIGNS})?+){{0,8}}+"
# What else stands between a name and its value, by its first character: where that of an alternative does not fit, `re`
# skips it for 4 ns; to enter it takes up to 40.
_REMARK_ENDS: Final = r"[ ]?+[:=][ \t]{0,4}+(?:\r?\n[ \t]{0,40}+)?+"
_REMARK: Final = rf"[^\"'`\n]{{1,40}}+[\"'`](?=:){_REMARK_ENDS}"  # after its quote
_SCOPES: Final = tuple(  # `API token (prod):`
    f"{scope}{_REMARK_ENDS}" for scope in (r"\([^()\n]{1,40}+\)", r"\[[^\[\]\n]{1,40}+\]")
)
# A question and its answer, of another speaker or in the next line.
_QUESTION: Final = r"\?[ \t]{0,4}+(?:\r?\n)?(?:(?=[^\n:>]{0,40}+[:>])[^\n]{0,40}?[:>][ ]|[^\n]{0,40}+\n)[ \t]{0,4}+"
_CALL: Final = (  # Rust's options, `aws.String("…")`
    r"[:=](?:[ ]?(?:some|optional|just)\([ \t\r\n]{0,40}+|[ \t]{0,40}+[a-z]{2,10}+\.[a-z]{3,20}+\()"
)
_OPTION: Final = (  # stores of clouds, registries
    r"[/-][/-]?(?:[a-z][a-z-]{0,20}[ =][a-z_]{1,20}[ ][/-]{1,2}){0,2}"
    r"(?:secret-)?(?:value|string|data|body|text|secret|[bdv])[ =]"
)
# The text of an element of XML in the next line or in another element.
_IN_ELEMENT: Final = r">[ \t\r]{0,4}(?:\n[ \t]{0,60}|<!\[cdata\[|<[a-z]{1,12}>){1,3}"
# What a debugger or a printer of values says of one before it: `0x55d0e0 "…"`, `(string) (len=24) "…"`, `chr "…"`.
_REPR: Final = r"[:=][ ]?(?:\([\w*. ]{1,30}+(?:=[0-9]{1,6})?\)[ ]?|0x[0-9a-f]{4,16}[ ]|chr[ ]){1,3}(?=[\"'`])"
_TAG: Final = r":[ ]!{1,2}[\w.-]{1,20}[ ]"  # of YAML
_AFTER_SPACE: Final = (
    rf"[\"'`]{_REMARK}",
    *_SCOPES,
    r"[ \t][ \t]{0,78}+reg_[a-z]{2,9}[ \t]{1,8}+",  # values of a registry
    r"<<<[ ]?",  # what a shell passes to the command that names the secret
    r"[\w./@=-][^\n<]{0,24}+<<<[ ]?",
    _CALL,
    r"[ \t][ \t]{0,2}+[:=][ \t]{0,40}+[a-z]{2,10}+\.[a-z]{3,20}+\(",
    r"\{[ ]get;[^{}\n]{0,30}+\}[ ]=[ ]",  # properties of C#
    r"from[ ][\w./-]{1,40}:[ ]",
    *(rf"{was}from[ ]\S{{1,40}}[ ]to[ ]" for was in ("", "was[ ](?:changed[ ])?", "changed[ ]")),
    r"[0-9][ ]",  # the form of what follows, in routers
    r"(?:must|should)[ ][^\n=\"']{1,60}[ ]got[ :]{1,2}(?=[\"'`])",  # what a check was given
    rf"[a-z:]{{1,20}}=[^<>\n]{{1,80}}+(?:{_IN_ELEMENT}|>(?=[^<>\s]{{8,300}}+</))",
    _OPTION,
    r"[\w./-]{1,60}+[ ]=[ ]",  # `PASSWORD elastic = …`
    r"for[ ][\"'][^\"'\n]{1,80}[\"']:[ ]",  # a prompt
    r"\.{3,40}[ ]",  # that fill a line
    r"\[[\w*]{0,20}\]:[ ]",  # a prompt with its default
    _TAG,
    _REPR,
    r"[\"'][^\"'\n]{0,60}[\"'][ ](?:[=-]>|to)[ ]",  # the value before
    r"for[ ][^\s=]{1,80}[ ]?=[ ]?(?:password\()?(?=[\"'`])",  # of a user, in SQL
)
_AFTER_QUOTE: Final = (
    _REMARK,
    _QUESTION,
    rf"[ \t]{{0,4}}+{_CALL}",
    r"(?::[\w\":\\]{1,60}+)?+\]=>[ \t\r\n]{0,20}+string\([0-9]{1,5}\)[ ]",  # PHP's var_dump
    r";(?<=\";)s:[0-9]{1,4}:",  # PHP's serialize
    # Outputs of terraform and fields that describe themselves, in JSON.
    (
        r"[ ]?:(?:(?<=\":)|(?<=\"[ ]:))[ ]?\{[ \t\r\n]{0,40}+"
        r"(?:\"[a-z_]{1,20}\"[ ]?:[ ]?[^,{}\n]{1,60}+,[ \t\r\n]{0,40}+){0,3}"
        r"\"(?:(?:string_?)?value|s|computed|raw)\"[ ]?:[ ]?"
    ),
    r"[ ](?:in|with|of|from)[ ][^\"'\n]{1,120}[ ]value[ :=]{1,3}(?=[\"'`])",  # where it was found
    r",[ ](?:[\w:.&\[\]]{1,40}\(){1,2}b?(?=[\"'`])",  # the next argument, made by a call
    rf"[ ]{_OPTION}",
    r"[)\]]{1,2}[^\"'\n]{1,40}+[\"']",  # in place of a variable that is not set: `getenv("X") or "…"`
    r"[)\]]{1,2}[ \t\r\n]{1,20}(?:[\w<>?\[\]]{1,30}[ ]){1,4}=[ ]?[\"']",  # below an annotation
    r"(?:[ ][a-z:]{1,30}+=[\"'][^\"'\n]{0,40}+[\"']){0,2}[ ][a-z:]{5,25}+(?<=value)=[\"']",  # attributes of XML
    r"(?:[ \t/?][^<>\n]{0,60}+)?+>[ \t\r\n]{0,40}+<value>",
    r"(?:[ ][a-z:]{1,30}+=[\"'][^\"'\n]{0,40}+[\"']){1,3}[ ]?>(?=[^<>\s]{8,300}+</)",
    r",[ ][a-z_]{1,12}:[ ](?=[\"'`])",  # `fill_in "Password", with: "…"`
    r"[ ][a-z]{1,20}:[\"']",  # tags of Go: `env:"DB_PASSWORD" envDefault:"…"`
    r",?[ ]\w{1,10}\[[0-9]{1,3}\]=[\"']",  # arguments of a program, one after the other
    # The same item of a list or a request, in one line: `"name": X`, perhaps others, `"value": …`.
    r",[ ]?(?:[\"']\w{1,30}[\"']:[ ]?[^,{}\n]{1,60},[ ]?){1,3}[\"']value[\"']:[ ]?[\"']",
)
_CELL: Final = (  # of HTML
    r"</[a-z]{1,8}>[ \t:\r\n]{0,40}+(?:</[a-z]{1,8}>[ \t:\r\n]{0,40}+)?+"
    r"(?:<[a-z]{1,8}+[^<>\n]{0,60}+>[ \t\r\n]{0,40}+){0,2}+"
)
_BETWEEN: Final = (
    _CONNECTED,
    f"[ ](?:{'|'.join(_AFTER_SPACE)})",
    f"[\"'](?:{'|'.join(_AFTER_QUOTE)})",
    f"`(?:{_REMARK}|{_QUESTION})",
    _QUESTION,
    *_SCOPES,
    r"\t[ \t]{1,79}+reg_[a-z]{2,9}[ \t]{1,8}+",
    # A function that returns the value.
    r"\([^()\n]{0,60}+\)[^\n{:=]{0,40}+(?:[{:]|=>?+)[ \t\r\n]{0,40}+(?:return[ ])?+(?=[\"'`])",
    rf"@[\w.-]{{1,40}}(?=[ ]?=){_REMARK_ENDS}",
    r"\[[0-9]{1,2}\]:[ ]\|",  # fish: `$DB_PASSWORD[1]: |…|`
    f"%{_REMARK_ENDS}",  # `%token% =`
    r"\)[ ](?:-[a-z][ ][a-z]{1,9}[ ]|#[ ]?=>[ ])?",  # conditions of a proxy; results in comments
    r"\)=\(",  # the value of a key of PostgreSQL
    _IN_ELEMENT,
    _REPR,
    r":[ ]{0,4}[|>][+-]?[0-9]?[ ]{1,4}#[^\n]{0,80}\n[ \t]{0,60}",  # a block of YAML with a remark
    r"\n[ ]{2}[^\n\"']{1,160}[ ]input_value=(?=[\"'`])",  # of pydantic
    r"[:=][ ]?[a-z]{2,10}\((?=[\w+/=-]{16,200}+\))",
    r";[^\]\n]{0,40}+\]",  # properties of a log's command
    _CELL,
    f":{_CELL}",
    _CALL,
    r"\t[ \t]{0,3}+[:=][ \t]{0,40}+[a-z]{2,10}+\.[a-z]{3,20}+\(",
    r":[ ]&\w{1,20}[ ]",  # anchors of YAML
    r":[sb]:",  # files of RDP
    r":[ ](?:\[-[^\]\n]{0,80}-\]\{\+|\{\{(?=[^\s{}]{8,80}\}\}))",  # a diff of words; marks of a wiki
    r"[:=][ ]?[\w.]{1,30}\(\)(?:\.\w{1,20}\([^()\n\"']{0,30}\)){0,4}\.default\((?=[\"'`])",
    _TAG,
    r"\((?=[\w+/=-]{16,200}+\)(?!:))",  # of types that hold a value
    r"=%s(?:\\n)?[\"'][ ]",  # printf
    r"</name>[ \t\r\n]{0,40}<value>",
    (  # columns of an INSERT, or of the first row of a dump
        r"(?=[\"'`\]]?+[ ]?+[,)])[^()\n]{0,100}+\)"
        r"(?:[ \n]{1,4}values[ ]\([^\n]{0,100}?(?<=')|[ ]from stdin;\n[^\n]{0,100}?(?<=\t))"
    ),
    (  # what goes on in the next line
        r"(?=[\"'` ,:{\t\[\]|│]{0,60}+\r?\n)(?:"
        r"(?:\[\])?+[ \t]{0,4}+\r?\n[ \t]{0,40}+:?=[ \t]{0,4}+(?=[\"'`])"  # the sign
        # The same item of a list, a block or a request: `name: X`, perhaps others, `value: …`.
        r"|[\"'`]{0,2}+[ ]?[,:{]?[ \t|│]{0,60}+\r?\n"
        r"(?:[ \t|│]{0,60}+[\"'\w]{1,24}+[ \t]{0,20}+[:=|│][^\n]{0,80}+\n){0,3}?[ \t|│]{0,60}+[\"']?"
        r"(?:parameter|enter a )?(?:value|default|example|val|content|data|string)[\"']?"
        r"[ \t]{0,20}+[:=|│]>?[ \t]{0,8}+)"
    ),
)
BEFORE: Final = f"(?:{'|'.join(_BETWEEN)})"
# A type and an equals sign, or a call that makes the value; calls look values up too, so it must be random.
_MADE: Final = (
    r"[\"'\]]{0,2}[ ]?(?::[ ]?[\w\[\]<>*&:. ]{1,30}=|as[ ]\w{1,12}[ ]=|[:=]{1,2}[ ]?(?:new[ ])?[\w.:<>]{1,40}+[({])"
    r"[ \t\r\n]{0,40}(?=[\"'`])"
)
# `| token.py | 9fceb02… |` lists a file.
_NO_FILE: Final = r"(?<!\.[chr])(?<!\.(?:py|js|ts|go|rs|md|rb|sh))(?<!\.(?:tsx|yml|txt))(?<!\.(?:java|json|yaml|toml))"
# Nor does `END PRIVATE KEY-----` name what follows.
_NAMED: Final = f"{NAME_GOES_ON[:-1]}{_NO_FILE}(?<!---))"
_CHECKED: Final = rf"[\"'`]{{0,2}}+{MIXED_OR_LETTERS}{NO_VALUE}{PATH}{DOUBT}"
_OF_PASS: Final = ("db", "smtp", "ssh", "ftp", "user", "admin", "root", "default")
# Words that only end in "pass".
_ENDS_IN_PASS: Final = rf"(?![a-z])(?:(?<=[a-z_-]pass)|{preceded_by(f'{of} pass' for of in _OF_PASS)})" + preceded_by(
    ("bypass", "compass", "getpass", "askpass", "surpass", "multipass"), unless=True
)
# The value alone in its line, below a line that ends with the name (not `END PRIVATE KEY-----`); a ruler, a fence or a
# blank line may stand between.
_PROMPTS: Final = (  # before what the shell of a language answers; marks of a tree
    r"out\[[0-9]{1,4}\]:[ ]|=>?[ ]|<[ ]|\[[0-9+~-]{1,3}\][ ]|\{ok,|\((?:[\"'][^\"'\n]{0,60}[\"'],[ ]){1,3}"
    r"|(?:val[ ])?[\$r](?:es)?[0-9]{1,3}(?::[ ][\w\[\]]{1,20})?[ ]=[ ](?:0x[0-9a-f]{4,16}[ ])?"
)
LINE_BELOW: Final = (
    r"(?<!---)(?:[\"']?\]?\)?[;.]|[\"']\]|\([0-9]{1,3}\)|[\"'`:*=%\\(\[\]{}) \t<]{0,8}+(?:[|>][+-]?)?)\r?\n"
    r"(?:[ ]{0,4}+\w{1,40}+[ ]{0,20}+\n(?=[ ]?-{3}))?+"  # the head of a table of one column
    r"(?:[ \t]{0,8}+(?:[-=~`_]{3,80}+\w{0,10})?[ \t]{0,4}+\r?\n){0,2}"
    rf"[ \t│├└─]{{0,40}}+(?:[0-9]{{1,3}}\)[ ]|{_PROMPTS})?[\"'`:<-]{{0,3}}+[ ]?"
)
LINE_ENDS: Final = r"[\"'`,;)\]}>]{0,6}+[ \t\r]{0,4}$"
FLAGS: Final = r"(?:[ ]-{1,2}[a-z][\w-]{0,20}){0,3}"  # of the command that prints it
# A call; a path with a hyphen, which no base64 has beside a slash: names of models.
_NOT_ALONE: Final = r"(?![\w.]{4,60}+\([\w., ]{0,60}+\);?$|[\w.-]{1,60}+/[\w.]{0,60}+-)"
# Not shorter than the values near which it is searched: else what comes below decides, and a stream has not got that.
_ALONE: Final = rf"{FLAGS}{LINE_BELOW}{_NOT_ALONE}{_CHECKED}[^\s\"'`<>{{}},]{{12,400}}+{LINE_ENDS}"
# The length first, since most words are too short.
_RANDOM: Final = (
    rf"[\"'`]{{0,2}}+(?=[\w+/.~=%:!@#^*&?-]{{16}}){_CHECKED}[\w+/.~=%:!@#^*&?-]{{16,200}}+(?![(\[\w]|\{{(?!\{{))"
)
# Up to four words may stand between, if what follows is neither hexadecimal, as ids are, nor named by another word.
_FAR: Final = (
    r"(?:[^\w\n=:]{1,6}+[\w.-]{1,19}+(?![\w.+/=-])){0,4}+(?<![ _-]id)[^\w\n/@#.-]{1,6}+(?=[\w+/~-]{20})"
    rf"(?![0-9a-f-]{{20,200}}+(?!\w)|(?:[cj]ss|svelte)-){NO_VALUE}{PATH}(?=(?:[^\s0-9]{{0,16}}+[0-9]{{1,8}}+){{3}})"
    rf"{DOUBT}[\w+/~-]{{20,200}}+={{0,2}}(?![\w(\[.:@=])"
)
_SECRET: Final = f"{_NAMED}(?:(?:{BEFORE}|{_MADE}){_RANDOM}|{_ALONE}|{_FAR}){AT_END}"
# A password may be short. It needs less to be told from words in quotes, or if it has signs.
_SIGNED: Final = r"(?!@)(?=[\w+/.~=%:$-]{0,30}+[!@#^*&])(?=[\w!@#%^&*+~?$/=.:-]{8,100}+(?![(\[{]))"
_GIVEN: Final = f"{NO_VALUE}{PATH}{MIXED_WORD}"
# Without signs it has two digits or is random, and ends its line or cell.
_ENDS: Final = r"(?=[\"'`]?[ \t\r]{0,4}(?:[|│┃<;,)\]}]|$))"
_TWO_DIGITS: Final = r"(?=[^\s0-9]{0,40}+[0-9][^\s0-9]{0,40}+[0-9])[\w!@#%^&*+~?$-]{8,40}+"
# Doubtful values last: where such a one is not random, nothing else is tried.
_SHORT_PASSWORD: Final = (
    rf"{_NAMED}(?:{BEFORE}(?:(?:[\"'`\u201c]|(?<=[\"'`\u201c])){_GIVEN}[^\s\"'`<>$\u201d]{{8,200}}+[\"'`\u201d]"
    rf"|[\"'`]?{_GIVEN}(?:{_SIGNED}|{_TWO_DIGITS}{_ENDS}|{DOUBT}[\w!@#%^&*+~?$/.=-]{{8,100}}+{_ENDS}))"
    rf"|{LINE_BELOW}{_GIVEN}(?=[^\s0-9]{{0,40}}+[0-9]\S{{0,40}}?[0-9!@#^&*])[^\s\"'`<>{{}}$,./=:]{{8,40}}+{LINE_ENDS}"
    rf"|{_MADE}[\"'`]{_GIVEN}{DOUBT}[^\s\"'`<>$]{{8,200}}+[\"'`]"
    # Words may follow the name, if the value below is a random one: what a command that names it prints.
    rf"|(?:{LINE_BELOW}|[^\n:]{{1,60}}+\n[ \t]{{0,40}}+){_GIVEN}{DOUBT}(?!\w{{8,60}}+\()"
    rf"[^\s\"'`<>{{}}$,]{{8,40}}+{LINE_ENDS}){AT_END}"
)
# `password = base64.b64decode(rest)`; a text in the call may be the password.
_NO_METHOD: Final = r"(?!(?:[a-z_]\w{0,30}\.){1,4}[a-z_]\w{0,40}\([a-z_.]{1,40}[,)])"
_PASSWORD: Final = rf"{_NAMED}(?:{BEFORE}{_NO_METHOD}{_CHECKED}[\w+/.~=%:!@#^*&?$-]{{8,200}}+|{_ALONE}){AT_END}"
_NAMES: Final = (
    r"(?:passw|passphrase|secret|token|credential|[_ -](?:key|pwd|psk|pw\b|pass\b|seed)|sshpass"
    rf"|{trie(KEYS)}[_ .-]?key)"
)
# A command whose line speaks of a secret, and below it one value alone: `cat /run/secrets/…`, `wg genkey`, `op read`.
_OF_COMMANDS: Final = (
    r"(?:passw|secret|token|credential|key\b|keygen|genkey|genpsk|key:gen|privkey|vault_pass|pwgen|openssl rand"
    r"|keyring[ ]get|pass[ ](?:show|otp|[a-z]{1,20}/)|[ ]pass[ ]|[._-]psk\b|--with-decryption|/dev/u?random\b"
    r"|randombytes|base64 (?:-d|--decode)\b|obscure|decrypt\b|reveal)"
)

# The value first, then what it is: `… is the token`, `… (api key)`, `"…",  # api key`. A lookbehind has one width, so
# it sees the last characters of the value.
_LAST: Final = tuple(rf"{DOUBT}[\w+/.~=%:!@#^*&?$-]{{{count}}}" for count in (20, 12))
_DETERMINED: Final = r"(?:(?:the|our|my|your|its|a|an)[ ])?(?:[\w-]{1,20}[ ]){0,3}?"
_SECRETS_NAME: Final = rf"[\w-]{{0,40}}?{_NAMES}\w{{0,20}}+(?<!keys){NOT_NAMED}"


def _value_before(sign: str, said: str) -> AnchoredRule:
    closings = ("", "[\"'`]", *(rf"[\"'`][)\],;}} ]{{{count}}}" for count in range(1, 5)))
    ends = "|".join(f"(?<={last}{closing}{sign})" for last in _LAST for closing in closings)
    return AnchoredRule("secret-assignment", sign.replace("\\", ""), f"(?:{ends}){said}")


_VALUE_FIRST: Final = (
    *(
        _value_before(sign, rf"(?:[\w-]{{1,20}}[ ]){{0,5}}?{_SECRETS_NAME}(?![\w-])")
        for sign in (" is the ", " are the ", " is my ", " is our ", " is your ", " - that's the ")
    ),
    _value_before(r" \(", rf"(?:env\.)?{_DETERMINED}{_SECRETS_NAME}\)"),
    _value_before(r"\)\] ", rf"(?:pub )?{_SECRETS_NAME}:"),  # a default of Rust's clap
    _value_before(r" as ", rf"{_DETERMINED}{_SECRETS_NAME}(?![\w-])"),
    _value_before(r" --name ", rf"{_SECRETS_NAME}(?![\w-])"),
    *(_value_before(sign, rf"{_DETERMINED}{_SECRETS_NAME}[.;]?$") for sign in (" # ", " // ", " -- ", " <- ", " - ")),
    *(_value_before(sign, rf"{_DETERMINED}{_SECRETS_NAME}[.;]?$") for sign in (" \u2013 ", " \u2014 ")),
)

_OF_PASSWORDS: Final = rf"(?:word|wd|phrase|code|{_ENDS_IN_PASS}|(?=[ ](?:[\u2192-]|show[ ]))(?<![\w.-]pass))"
# A sentence that goes on with a word fails first, and none is searched far: both took prose some percent.
_AHEAD: Final = (
    r"(?=[^abd-oq-vx-z](?:ord|(?<![a-z])|d|hrase|ode)(?![ ](?!show |for '|as )[a-z]{2,12}+[ ](?!=))"
    r"[^a-z0-9]{0,40}+[^0-9.:]{0,44}+(?:\.[^0-9.:]{0,20}+)?+(?::[^0-9.:]{0,30}+(?::[^0-9.:]{0,30}+(?::[^0-9.:]{0,20}+)?+)?+)?[0-9])"
)
# A password may be shorter than the values near which the others are searched.
NEAR_DIGITS: Final = (
    AnchoredRule("password", "pw", rf"(?<![\w.-]pw){_SHORT_PASSWORD}", r"(?=[^a-z0-9]{1,12}+[^0-9\n ]{0,40}+[0-9])"),
    AnchoredRule("password", "pass", f"{_OF_PASSWORDS}{_SHORT_PASSWORD}", _AHEAD),
)
# Each value that these find seems random.
RANDOM: Final = (
    *(
        AnchoredRule("secret-assignment", anchor, f"{NAMES}{_SECRET}")
        for anchor in ("secret", "token", "cred", "key", "auth", "seed", "salt", "hash", "_dsn", "_pat")
    ),
    # Any other key, if a sign joins it to a value that is no digest.
    AnchoredRule(
        "secret-assignment",
        "key",
        rf"(?<=[a-z0-9][ ._-]key)(?![a-z]){NO_INDEX}{_NAMED}(?:{BEFORE}|{_MADE})"
        rf"(?=[\"'`]{{0,2}}+{HASH}){_RANDOM}{AT_END}",
    ),
    AnchoredRule("secret-assignment", "pepper", _SECRET),
    AnchoredRule(  # what Python's shell answers
        "secret-assignment",
        "key",
        rf"(?<=generate_key)\(\)\r?\n[ \t]{{0,8}}b?['\"]{MIXED_OR_LETTERS}{DOUBT}{long_value(20)}{AT_END}",
        r"(?=\(\)\r?\n)",
    ),
    AnchoredRule("password", "pass", f"{_OF_PASSWORDS}{_PASSWORD}"),
    # Long base64 has such short texts by chance.
    AnchoredRule("password", "pwd", rf"(?<![\w+/]{{12}}pwd){_PASSWORD}"),
    AnchoredRule(
        "password", "psk", rf"(?:(?<![a-z+/0-9]psk)|(?<=wpapsk)|(?<=wifipsk)|(?<=ipsecpsk)|(?<=ikepsk)){_PASSWORD}"
    ),
    AnchoredRule("password", "pw", rf"(?![a-z])(?:(?<=[_ -]pw)|(?<=bindpw)){_PASSWORD}"),
)
RULES: Final = (
    AnchoredRule(
        "password", "pass", rf"word:[ \t\r]{{0,4}}\n[ \t]{{0,40}}(?:[0-9]{{6}}-){{7}}[0-9]{{6}}{AT_END}"
    ),  # BitLocker
    AnchoredRule(
        "secret-assignment",
        "$ ",
        rf"(?!docker[ ](?:run|create))(?=[^\n]{{0,160}}?{_OF_COMMANDS})[^\n]{{3,200}}+\n[ \t]{{0,40}}+{_CHECKED}"
        rf"(?:[^\s\"'`<>{{}}$]{{400}}|[^\s\"'`<>{{}}$]{{12,400}}+[\"'}}\]]{{0,6}}+[ \t\r]{{0,4}}$)" + AT_END,
    ),
    # The value first: lists of parameters and tags, as clouds have them; what is piped into a store of secrets.
    *(
        AnchoredRule(
            "secret-assignment",
            anchor,
            rf"[\"']?{NO_VALUE}{PATH}(?:{MIXED_WORD}|(?=[a-z]{{16}}){DOUBT})(?=[^\"'\n ]{{8,300}}+[\"']?"
            r"(?:,|\n|[ ]where\b|[ ][^\n<>]{0,60}?(?:name|id|key)=)"
            rf"[ \t\r\n]{{0,40}}+(?:[\"']?(?:key|name)[\"']?[ ]?[:=][ ]?)?[\"']?[\w./-]{{0,60}}?{_NAMES})",
        )
        for anchor in ('value": ', 'value":', "value': ", "value=", "value = ", "- value: ")
    ),
    AnchoredRule(
        "secret-assignment",
        "assert ",
        rf"(?:[\w.]{{1,60}}[ ][=!]=[ ])?[\"']{NO_VALUE}{PATH}{MIXED_WORD}(?=[^\"'\n]{{8,300}}+[\"']"
        rf"(?:[ ][=!]=[ ][\w.]{{0,60}}?|[^\n]{{0,80}}\n[^\n]{{0,20}}where[ ][^\n]{{0,160}}?){_NAMES})",
    ),
    AnchoredRule(  # the names in the statement, the values below it
        "secret-assignment",
        "assert ",
        rf"[\w.]{{0,60}}?{_NAMES}[\w.\[\]\"']{{0,30}}[ ][=!]=[ ][^\n]{{1,80}}+\n[^\n]{{0,40}}?assert[ ]"
        rf"[\"']{NO_VALUE}{PATH}{MIXED_WORD}{DOUBT}[^\"'\s]{{8}}{AT_END}",
    ),
    AnchoredRule(  # of pytest
        "secret-assignment",
        "where ",
        rf"[\"']{NO_VALUE}{PATH}{MIXED_WORD}(?=[^\"'\n]{{8,300}}+[\"'][ ]=[ ][^\n]{{0,100}}?{_NAMES})",
    ),
    *_VALUE_FIRST,
    *(
        AnchoredRule(
            "secret-assignment",
            program,
            rf"[\"']?{NO_VALUE}{PATH}{MIXED_WORD}(?=[^\s\"'$]{{8,300}}+[\"']?[ ]{{1,3}}"
            rf"(?:\|[^\n]{{1,80}}?|>{{1,2}}[ ]?[\w./-]{{0,80}}?){_NAMES})",
        )
        for program in ("echo ", "echo -n ", "printf ", "'%s' ")
    ),
    AnchoredRule(
        "secret-assignment",
        "with ",
        rf"[\"'`]?{MIXED_WORD}{DOUBT}[\w!@#%^&*+~?$/=.:-]{{8,200}}+[\"'`]?[ ]as[ ](?:the|your|our|my)[ ]"
        rf"[\w .-]{{0,40}}?{_NAMES}",
    ),
    AnchoredRule(  # a sentence with a variable, and the next line with its value
        "secret-assignment",
        "echo ",
        rf"[^\n$]{{0,80}}+\$\{{?\w{{0,40}}?{_NAMES}[^\n]{{0,60}}+\n(?:[^\s]{{1,30}}[ ]){{0,6}}?[\"'`]?{_CHECKED}"
        r"[^\s\"'`<>{}$]{8,400}+[\"'`.!]{0,3}[ \t\r]{0,4}$" + AT_END,
    ),
    # A value alone in its line, of a length that digests of files in base64 do not have there.
    AnchoredRule(
        "secret-assignment",
        '="',
        r"(?:(?<=\n[ ]{4}\"[0-9a-z+/]{43}=\"),?$|(?<=encrypt(?:\": \"| = \")[0-9a-z+/]{43}=\"))",
    ),
    AnchoredRule(
        "secret-assignment",
        "==",
        r"(?<=[ \t\n\"'=>`(,][\w+/-]{86}==)(?<!512=.{88})(?<!token\": \".{88})"
        r"(?<![ ]3[ ][0-9]{2}[ ].{88})(?![\w=])",  # the last of a key of DNS
    ),
)
