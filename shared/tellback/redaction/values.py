r"""Building blocks of the rules: separators, the values that count, and what is not a value.

The patterns run over lower-case text, where Python searches words several times faster than with IGNORECASE. Every
repeat is bounded, and a repeat that could backtrack is possessive: each position of the text costs at most a constant.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.lazy_pattern import lazy_pattern
from tellback.light_struct import LightStruct
from tellback.redaction.alternations import preceded_by, trie


class AnchoredRule(LightStruct):
    """A rule whose every match begins with the text `anchor`; `rest` is the pattern after it, and may look behind.

    Rules of one anchor share their `guard`, a lookahead that fails fast where none of them can match.
    """

    name: str
    anchor: str
    rest: str
    guard: str = ""


DOUBT: Final = "\0"  # in a pattern: here starts a value that only its changes of case and digits distinguish from words
AT_END: Final = "\1"  # in a pattern of two lines: hide the line where the match ends, so the name stays visible
# Four characters stand for three of ASCII, of which the first two are no control characters, as one of eleven random
# groups does.
BASE64_OF_TEXT: Final = r"[CDI-Za-f][AC-HQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][\w+/-]"
BASE64_OF_MARK: Final = "[/_]{2}[4-7]"  # the byte order mark of UTF-16 as Windows writes it
NAMES: Final = "\2"  # in a pattern: `assignments.names_after` its anchor, which only a text with that needs

# A name that is only about a secret (`token_count`, `secret_name`) is excluded by its end.
_NOT_THE_VALUE: Final = (
    *("name", "names", "path", "file", "url", "uri", "count", "counts", "size", "length", "limit", "type", "version"),
    *("ttl", "expiry", "expires", "age", "header", "field", "prefix", "suffix", "endpoint", "host", "region", "class"),
    *("algorithm", "format", "hash", "digest", "policy", "scope", "scopes", "env", "label", "index", "arn", "rule"),
    *("spec", "publickey", "public_key", "hashers", "_re", "budget", "ids", "usage", "mask", "pattern", "regex"),
    *("hint", "sha256", "trace", "_grant", "realm", "reply"),
    # Labels and times of a password. Each is as long as another word here: every new length costs a lookbehind.
    *("holder", "validator", "validators", "mismatch", "last_used", "lastused", "changed", "_at", "expiresat"),
    *("transport", "iterations", "_form", "matching", "error", "action"),
    *("ial_id", "ialid", "retsid"),
    *("createdat", "updatedat", "changedat", "passwordkey", "encoder", "encryption", "accessor", "request", "success"),
    *("passwordmgr", "wd.h", ".hpp", ".cuh"),  # headers, in angle brackets as elements of XML have
    *("keysz", "charset", "_period", "timeout", "_time", " h1"),  # the last is a digest's in go.sum
    # Of private and API keys, and of credentials; those of access keys and clients are half of what opens an account.
    *("te_key_id", "tekeyid", "pi_key_id", "pikeyid", "ials_id", "ialsid"),
    *(".go", ".py", ".js", ".ts", ".rs", ".rb", ".sh", ".md", ".gz", ".so", ".txt", ".pem"),  # `MD5 (token.go) = …`
)
# `:` `=` and `=>` in all their forms: `?=`, `+=`, `:=`, `::=` of make, `??=` of scripts, `.=` of PHP, `:**` of
# Markdown, `= "old" -> "new"` of a terraform plan.
# Each alternative but the last begins with a character, so `re` skips it without entering it.
SEPARATOR: Final = (
    r"(?:=(?:=?+[ ]\"[^\"\n]{0,60}+\"[ ]->|={0,2}+>?)|[?+:|./][?+:|./]?=={0,2}+>?|->|:\*\*"
    r"|:(?!:test):?+|>(?<=[\w\"']>)|\|\||\{(?=[\"'])"
    # The next argument or column: neither a flag, a host and its port, nor a sentence.
    r"|,(?<=[\"'],)(?=[ \t]?[\"'](?!-|[\w.-]{1,60}+:[0-9]{1,5}[\"'])[^\"'\s]{0,60}?[0-9!@#$%^&*])"
    r"|(?<=[ \t])(?:(?=[\"'])|(?<=\][ ])))"
    r"[ \t]{0,40}+(?:[fbrunl@$]{1,2}(?=[\"']))?+"
)
# The end of a name, then spaces: `terraform plan` and many listings align their values.
CLOSE: Final = r"""[\\"'`\])}*]{0,4}+[ \t]{0,80}+"""
# Before `=`, in annotations and in Go, where no colon precedes the type.
_TYPES: Final = r"(?:str|string|&str|&'static[ ]str|str[ ]\|[ ]none|final|final\[str\])"
TYPE: Final = rf"(?>:[ \t]?+{_TYPES}[ \t]{{0,40}}+(?==)|(?=[sf&]){_TYPES}[ \t]{{0,40}}+(?==)|)"
OPEN: Final = r"""(?:\[[ ]?(?=[\\"']))?+[\\"'`=]{0,4}+"""
# Lookaheads for a separator and a value: they fail fast, before the name's end and the value are checked.
_NAME: Final = r"(?=[\w.-]{0,40}+"
_SIGN: Final = r"""[:=>,]|[?+.|/][?+:|./]?=|\|\||->|\{(?=["'])"""
_NAME_CLOSED: Final = _NAME + r"""[\\"'`\])}*]{0,4}+[ \t]{0,80}+"""
AHEAD: Final = rf"{_NAME_CLOSED}(?:{_SIGN}|value=|string[ \t]{{0,40}}+=))"
# Hostile text reaches them at every name, so each part that may be missing is an alternative that begins with a
# character: `re` skips such without entering it, while a lookbehind costs 20 ns there and `(?:...)?+` 50.
_MAYBE_TYPE: Final = rf"(?:[ \t]{_TYPES}[ \t]{{0,40}}+=|[&fs](?:tr|tring|str|inal)[ \t]{{0,40}}+=|)"
_TYPED: Final = r"[&fs](?:tr|tring|tr[ ]\|[ ]none|str|'static[ ]str|inal|inal\[str\])[ \t]{0,40}+="
_QUOTED: Final = r"""[fbrunl@$][fbru@$]?["']"""
_MAYBE_QUOTED: Final = rf"""{_MAYBE_TYPE}[\\"'`=:>|?+*\[ \t-]{{0,40}}+(?:{_QUOTED}["']{{0,2}}+|)"""
_SCHEME: Final = r"[abdt](?:asic|earer|oken|pikey|igest)[ \t]"
_OLD: Final = r"""=[ ]"[^"\n]{0,60}+"[ ]->"""
_WITH_DIGIT: Final = r"[a-z_+/.~%:=-]{0,24}+[0-9][\w+/.~%:=-]{4}"
_LONG_WORD_AHEAD: Final = r"[\wa-z0-9_+/-]{12,100}+(?![\w.(:\[])"
_IN_BRACKETS: Final = r"[\w+/~%\[`\\$@](?<=\][ ].)"
AHEAD_LONG: Final = (
    AHEAD.replace(f"(?:{_SIGN}|", rf"""(?:(?:{_SIGN}|["'](?<=[ \t].)|{_OLD}|""")[:-1]
    + rf"{_MAYBE_QUOTED}(?:{_SCHEME}|)(?:{_WITH_DIGIT}|{_LONG_WORD_AHEAD})|{_IN_BRACKETS}))"
)
# The same where the name ends, before a value that may have any sign: six characters of it.
AHEAD_SIGNED: Final = (
    AHEAD.replace(r"[\w.-]{0,40}+", "", 1).replace(f"(?:{_SIGN}|", rf"(?:(?:{_SIGN}|{_OLD}|")[:-1]
    + rf"{_MAYBE_QUOTED}[^\"'`\s\\]{{6}}))"
)
# The same before a password, which may be a short word in quotes. What nearly every value begins with comes first.
_BEGINS: Final = (
    r"[a-z_]{0,60}+(?:[0-9!@#%^&*+?~-]|[.=](?<![a-z_]{31}.)[a-z_]{0,30}+[0-9!@#%^&*?]"
    r"|(?<=[a-z]{6})(?:(?<=[a-z]{8})(?![\w(.:=\[])|[ \t]{0,40}+$))"
    r"|[a-z0-9+][a-z0-9+/]{11}|/(?![a-z_.-]{1,20}/)[a-z0-9+/]{11}"
)
_PASSWORD_BEGINS: Final = (
    r"""[:=>,|?+ \t-]{0,84}+(?:["'`\\]|\[[ ]?["'\\]|[fbrunl@$][fbrun@$]?["']"""
    r"|[&s][st](?:r|tr)(?:ing)?[ \t]{0,40}+=|final"
    rf"|(?=[^\s:,;]{{6}})(?:{_BEGINS}))"
)
AHEAD_PASSWORD: Final = (
    rf"{_NAME_CLOSED}(?:[:=>,]{_PASSWORD_BEGINS}"
    rf"|(?:[?+.|/][?+:|./]?=|\|\||->|value=|string[ \t]{{0,40}}+=){_PASSWORD_BEGINS}"
    r"""|\{["']|>(?<=\w>)(?=[^\s:,;=>|?+-][^\s:,;]{5})[^\s<>]{6,60}+<))"""
)
# What may follow a name: its value on the next line, or a bar, as in a table. A check for any of these fails nearly as
# fast as one of them, and then no other is tried.
_LINE_BELOW: Final = r"[+-]?[1-9]?[ \t]{0,4}+\r?\n[ \t]{0,60}+(?:-[ ])?+|</key>[^<]{0,66}+<string>)"
_VALUE_BELOW: Final = (
    rf"(?:[:>][ \t]{{0,4}}+[|>]?{_LINE_BELOW}[\"']{{0,2}}+(?:[a-z_+/.~%:=-]{{0,60}}+[0-9]|[\w+/-]{{12}})"
)
_BLOCK_BELOW: Final = rf"(?:(?::[ \t]{{0,4}}+[|>]|>){_LINE_BELOW}[^\s\"'<>{{}}]{{4}}"
NEXT_LINE: Final = _NAME + r"[\"']{0,2}+" + _VALUE_BELOW + ")"
NEXT_IN_BLOCK: Final = _NAME + r"[\"']{0,2}+" + _BLOCK_BELOW + ")"
TABLE: Final = r"(?=[\w-]{0,40}+[ \t]{1,40}+\|)"


# Before all rules of a name, in half of the time of the checks above, which follow it: it lets through what they do and
# a little more. A sign, others, and what begins a value; its row in a table; its value below. Each alternative begins
# with a character, or with few.
_SIGNS_AND_VALUE: Final = (
    r"""[\\"'`=:>|?+*.\[ \t-]{0,44}+"""
    rf"(?:{_WITH_DIGIT}|{_LONG_WORD_AHEAD}|{_QUOTED}|{_SCHEME}|{_TYPED})"
)
_NEXT: Final = r"[ \t|>+1-9-]{0,12}+(?:\n|\r\n)[ \t]{0,60}+(?:-[ ])?+"
_NEXT_VALUE: Final = r"[\"']{0,2}+(?:[a-z_+/.~%:=-]{0,60}+[0-9]|[\w+/-]{12})"
AFTER_NAME: Final = (
    rf"""{_NAME_CLOSED}(?:[:=>,]{_SIGNS_AND_VALUE}|[?+.|](?=[?+:|./]?=|\|){_SIGNS_AND_VALUE}|->{_SIGNS_AND_VALUE}"""
    rf"""|["'](?<=[ \t].){_SIGNS_AND_VALUE}|\{{(?=["']){_SIGNS_AND_VALUE}"""
    rf"|value={_SIGNS_AND_VALUE}|string[ \t]{{0,40}}+={_SIGNS_AND_VALUE}"
    rf"|{_OLD}|{_IN_BRACKETS}|\|[ \t]{{1,8}}+[^\s0-9]{{0,60}}+[0-9]"
    rf"|:{_NEXT}{_NEXT_VALUE}|>{_NEXT}{_NEXT_VALUE}|</key>[^<]{{0,66}}+<string>{_NEXT_VALUE}))"
)
# Most words `key` are no secret's, and to compare what is before them with 130 names costs more than all else.
AFTER_KEY: Final = f"(?<=[a-z_. -]key){AFTER_NAME}"
_IN_NEXT_LINE: Final = r"[+-]?[1-9]?[ \t]{0,4}+(?:\n|\r\n)[ \t]{0,60}+(?:-[ ])?+[^\s\"'<>{}]{4}"
AFTER_PASSWORD: Final = (
    rf"{AHEAD_PASSWORD[:-2]}|\|(?=\||[?+:|./]?=)|:[ \t]{{0,4}}+[|>]{_IN_NEXT_LINE}|>{_IN_NEXT_LINE}"
    r"|</key>[^<]{0,66}+<string>[^\s\"'<>{}]{4}))"
)
# Not a value: references (`$DB_PASSWORD`), placeholders, calls, masks (`***`), versions, type names (`password: str`).
# Two digits and a letter near the start: words of a language or of a program rarely have both.
MIXED: Final = r"(?=[a-z_+/.~=%:-]{0,60}+[0-9][a-z_+/.~=%:-]{0,60}+[0-9])(?=[0-9_+/.~=%:-]{0,60}+[a-z])"
# The letters of a value without a digit must be random ones: it follows DOUBT.
MIXED_OR_LETTERS: Final = r"(?:(?=[^\s\"'0-9]{0,60}+[0-9])(?=[^\s\"'a-z]{0,60}+[a-z])|(?=[a-z_.-]{16}))"
MIXED_WORD: Final = r"(?=[^\s\"'0-9]{0,60}+[0-9])(?=[^\s\"'a-z]{0,60}+[a-z])"  # a digit and a letter, whatever else
# What is moved to a sprint, a module or a host is no password that was set.
_MOVES: Final = ("moved", "renamed", "assigned", "added", "linked", "merged", "postponed", "deferred", "migrated")
NOT_MOVED: Final = "".join(f"(?<!{verb}[ ])" for verb in _MOVES)  # before "to"
# Four words or more, as pass phrases have them: names of classes and of files have fewer.
PHRASE: Final = r"(?=(?:[a-z]{3,10}+-){3,7}[a-z]{3,10}+(?![\w./(-]))"
# The name of a secret in place of its value: its path at Google, a file that is mounted, what a program asks for.
NO_STORED_NAME: Final = (
    r"(?!_?(?:id|name)?[\"']?[ ]{0,4}[:=][ ]{0,4}[\"']?projects/[\w.:-]{1,64}/secrets/[\w-]{1,255}"
    r"(?:/versions/\w{1,12})?(?![\w/+=-])"
    r"|:[\w./-]{1,80}\][ ]mounted\b"
    r"|(?<=get_secret)\([\"'](?:[a-z]{1,20}[/_.-]){1,8}(?:[a-z]{1,20}|[0-9]{1,4})[\"']\))"
)
GIVEN: Final = r"[\"']?(?!\$|<|%|-)[^\s\"'<>|;]{4,100}+[\"']?"  # a value where only a password can stand
PATH: Final = r"(?!\.{1,2}/|~/|/[a-z_.-]{1,20}/|[a-z]:\\|https?:|[a-z]{2,10}(?:\+[a-z]{2,6})?://|file:|[a-z0-9-]{1,40}+\.(?:io|com|org)/)"
LETTERS: Final = r"[a-z]{8,100}+(?![\w(.:=\[])"  # without a digit: follows DOUBT, since only its capitals decide
# Only generated values have both: punctuation that neither names nor paths use, and a digit.
SIGNS: Final = r"(?=[\w+/.~=%:$-]{0,30}+[!@#^*&])(?=[^\s\"'`0-9]{0,40}+[0-9])"
# 100 characters suffice, whatever follows: session tokens of clouds have many hundreds. A shorter value must not be
# followed by `(`, `[` or `{`, as a call, an index or a literal of Go would be.
_LONG_AS: Final = r"[\w+/~%-](?:[\w+/.~=%:-]{100}|[\w+/.~=%:-]{MIN,100}+(?![(\[{\w]))"


def long_value(least: int) -> str:
    """Return the pattern of a value of at least `least` characters that no call or index follows."""
    return _LONG_AS.replace("MIN", str(least - 1))


# A value that only its capitals give away: a colon or a dot must not follow, since words continue so.
DOUBTFUL: Final = DOUBT + r"[\w+/-](?:[\w+/-]{100}|[\w+/-]{11,100}+={0,2}(?![\w.(:=\[]|[ ]\|[ ]))"


_NO_VALUES: Final = (
    *("null", "none", "nil", "true", "false", "str", "string", "text", "int", "bool", "boolean", "bytes", "required"),
    *("optional", "redacted", "hidden", "any", "object", "undefined", "self", "os", "env", "process", "config", "arn"),
    *("sha1", "sha256", "sha384", "sha512", "md5"),  # `token.pyi,sha256=…`
    *("replace_me", "replaceme", "change_me", "changeme", "utf8string", "value_specified_in_no_log_parameter"),
    *("settings", "getpass", "input", "token", "value", "values", "secrets", "vars", "password", "passwort", "passwd"),
    *("password1", "password2", "uint8array"),
)
# In quotes: settings, and the word for a password on a translated page, also with the letters that JSON escapes (a
# backslash at the start belongs to the quote).
_NO_QUOTED: Final = (
    *("enable", "disable", "always", "pass", "passed", "fail", "failed", "active", "inactive", "geslo", "heslo"),
    *("parol", "parola", "parole", "passwuert", "wachtwoord"),
    *("kennwort", "senha", "salasana", "adgangskode", "lozinka", "passord", "has\\u0142o", "u015eifre"),
    *("salas\\u00f5na", "l\\u00f6senord", "jelsz\\u00f3", "slapta\\u017eodis"),
)
# Names of types and of members of an enumeration.
_TYPE_ENDS: Final = "".join(("(?:", "|".join(f"(?<={end})" for end in ("attribute", "details", "_value")), ")"))
NO_VALUE: Final = (
    r"(?!(?=[$<~^v0-9{%*&x.\[!?#])(?:[*&][a-z_]{1,40}+(?:(?:->|\.)[a-z_]{1,40}+)?;(?!\S)"  # a pointer of C
    r"|#(?:[0-9a-f]{3,4}){1,2}\b|0[0-9]{3}_[a-z]"  # a colour; a migration of Django
    r"|(?<![\"'`])[0-9]{1,7}(?:[mnu]s|[kmg]i?b)(?![\w!@#$%^&*+?~-])"  # `second pass: 1200ms`
    r"|\^t[a-z]|!(?:vault|ref|sub|getatt|secret|env|env_var)\b|\?[a-z_ ]{0,60}\}"
    r"|0x[0-9a-f]{1,16}\b|0x[0-9a-f]{40}\b|~?\$[\w({]|[<{\[]|[~^v]?[0-9]{1,5}\.[0-9]{1,5}(?:\.[0-9]|[\"'])|%[(\w]|\*{3}|x{4}|\.{3}))(?!op://)"
    # Placeholders behind the prefix of a token; what Sealed Secrets encrypted; a colour in a style sheet.
    r"(?!--[a-z-]{3,40}[\"']|urn:[a-z]|[\w-]{2,10}[-_](?:x{4}|\*{3}|\.{3})|ag[a-d][0-9a-z+/]{100}|[a-z-]{3,24}+:#[0-9a-f]{3}"
    r"|your[_-]|change-?me-|scram-sha-[0-9]{1,3}(?![0-9$])|[a-z][a-z0-9]{0,30}+_[0-9]\.[a-z]|aes-?[0-9]{3}-"
    r"|a[0-9]{3}cbc|utf-?(?:8|16)|(?:md5|sha[0-9]{1,3}|(?:ec)?dsa|rsa)-?with)"  # `v4_1.default` of compiled TypeScript
    rf"(?!{trie(_NO_VALUES)}\b(?![!@#%^&*+?~-])|(?:{trie(_NO_QUOTED)}|[a-z_]{{4,60}}+{_TYPE_ENDS}|type[a-z]{{8,60}}+)[\"'`])"
)
NOT_NAMED: Final = preceded_by(_NOT_THE_VALUE, unless=True)
# The rest of a name. It rarely continues; checking its end costs more than all other checks.
NAME_GOES_ON: Final = rf"(?:(?![\w.-])|[\w.-]{{1,40}}+{NOT_NAMED})"
# A value on the line below its name: blocks of YAML, XML, property lists. A bare colon may also open a mapping.
_BELOW: Final = r"[ \t]{0,4}+\r?\n[ \t]{0,60}+(?:-[ ])?+"
_PLIST: Final = r"</key>[ \t]{0,4}+\r?\n?[ \t]{0,60}+<string>"
_NAME_ENDS: Final = rf"[\w.-]{{0,40}}+{NOT_NAMED}[\"']{{0,2}}+"
IN_BLOCK: Final = rf"{_NAME_ENDS}(?:(?::[ \t]{{0,4}}+[|>][+-]?[1-9]?|>){_BELOW}|{_PLIST})"
BELOW: Final = rf"{_NAME_ENDS}(?:(?::[ \t]{{0,4}}+(?:[|>][+-]?[1-9]?)?+|>){_BELOW}|{_PLIST})"

# `re` looks up a character of ASCII in a table if a class names it, and asks Unicode about each for `\w` alone, which
# takes three times as long; so does `\s` in a negated class.
_CLASS: Final = lazy_pattern(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]")
_ESCAPE: Final = lazy_pattern(r"\\.")
_SPACES: Final = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_IN_CLASS: Final = {r"\w": r"\w0-9A-Za-z_", r"\d": r"\d0-9", r"\s": _SPACES}
_OUTSIDE: Final = {escape: f"[{named}]" for escape, named in _IN_CLASS.items()} | {r"\S": f"[^{_SPACES}]"}


def in_tables(pattern: str) -> str:
    """Return a pattern that matches the same, with classes that `re` looks up in tables."""
    return _CLASS.sub(_in_table, pattern)


def _in_table(found: re.Match[str]) -> str:
    if found[0][0] == "\\":
        return _OUTSIDE.get(found[0], found[0])
    return _ESCAPE.sub(lambda escape: _IN_CLASS.get(escape[0], escape[0]), found[0])


# Where a value goes over between small letters, capitals and digits: random values do often (`seems_random`).
CHANGES: Final = lazy_pattern(r"[a-z][A-Z0-9\d]|[0-9\d][A-Za-z]|[A-Z](?:[A-Z][a-z]|\d)")

_DIGIT: Final = lazy_pattern("[0-9]")

_LONG_WORD: Final = 16
_FEWEST_ODD: Final = 5
# Letters that make 5 % of English words and 27 % of random ones, and the beginnings of what words hardly have: such
# letters beside consonants, five consonants in a row. Of 86,341 long identifiers in Python packages 0.1 % have as many.
RARE_LETTERS: Final = "jkqvwxz"
_DIVIDED: Final = lazy_pattern("[._/-]")
_CONSONANT: Final = "[bcdfghjklmnpqrstvwxz]"
_FIVE_IN_A_ROW: Final = lazy_pattern(f"{_CONSONANT}{{5}}")
_ODD: Final = lazy_pattern(
    rf"{_CONSONANT}(?={_CONSONANT})"  # which most letters fail at
    r"(?:(?<=[jqxz])|(?<![ns])(?=[jqxz])|(?<=[vw])(?=[bcdfgjkmpqtvxz])|(?<=[bcdfgkmpt])(?=[vw])"
    rf"|(?={_CONSONANT}{{4}}))"
)

# Words and abbreviations in camel case, which random letters hardly ever fall into: `UserAPIKeyAuth`, a type.
# Each run of letters is read in one way: in parts, a long one took hours until no part of it was left.
_CAMEL: Final = lazy_pattern(r"(?>[A-Z]?[a-z]{2,80}+|[A-Z]{2,80}(?![a-z])){1,12}+")
# The same with numbers: `Oauth2Client`, `X509v3`, `UTF-8%20`. A short value with small letters, capitals and a digit
# that is none is random: 88 % of passwords of 8 characters are told so, where their changes alone tell a third.
NUMBERED_WORDS: Final = lazy_pattern(
    r"(?:[A-Z]{0,5}[a-z]{2,20}+|[A-Z]{2,20}+|[A-Za-z](?=[0-9])|[0-9]{1,20}+[dDxK]?|[._/=+:-]|%[0-9A-F]{2})+"
)
# Names of classes with a number, which change case as often as a token: `JinaEmbeddingsV3PreTrainedModel`. Such words
# make three quarters of one random value of 16 characters in 1,500, and of hardly any longer one.
_NAMING_WORD: Final = lazy_pattern(r"[A-Z][a-z]{3,20}")
_NAMING_WORDS: Final = lazy_pattern(r"[A-Z][a-z]{2,20}")  # of a longer one
_MANY_WORDS: Final = 24
_OF_EACH: Final = lazy_pattern(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])")

# A symbol of C++ or Rust, as `strings`, `nm` and linkers print it: `_ZN4node6crypto7NodeBIO3NewEv`.
_MANGLED: Final = lazy_pattern(r"_Z[A-Z]{0,4}[absdiot]?[0-9]{1,2}[A-Za-z_][a-z]")

_LONGEST_NAME: Final = 80  # characters before the word that makes it a secret's, and from there on
_SHORT_NAME: Final = 8  # of a name that people put at the end of a password: "mypassword"
KEY_TYPES: Final = ("privatekey", "publickey")  # `key: Ed25519PrivateKey`
_NAME_AFTER: Final = lazy_pattern(r"[\w-]{1,80}")
_NAME_BACKWARDS: Final = lazy_pattern(r"[\w-]{0,80}")  # up to `\Z` instead, a search of 80 letters takes 100 µs
_LAST_WORD: Final = lazy_pattern(r"(?<=[\s.=(\"'`])([\w-]{6,80}+)[\"'`:]?\Z")
_GOES_ON: Final = lazy_pattern(r"[\w+/.~=%!@#^&*?$:-]")
_VALUE: Final = lazy_pattern(r"[\w+/.~=%!@#^&*?$-]{8,80}")


def repeats_name(text: str, start: int, end: int) -> bool:
    """Return whether the value that ends at `end` says the name around `start` again, or ends as it does.

    So do references, bases of classes, types and constants, in any spelling: `_OpenToken = api.OpenToken`,
    `CLIENT_SECRET = "client-secret"`.
    """
    value = _LAST_WORD.search(text, start, end)
    if value is None or _GOES_ON.match(text, value.end()):
        return False
    before = _NAME_BACKWARDS.match(text[max(0, start - _LONGEST_NAME) : start][::-1])
    name = _NAME_AFTER.match(text, start, value.start())
    if before is None or name is None:
        return False
    named, said = _without_signs(before[0][::-1] + name[0]), _without_signs(value[1])
    return named.endswith(said) or said.endswith(KEY_TYPES if len(named) <= _SHORT_NAME else (named, *KEY_TYPES))


def _without_signs(name: str) -> str:
    return name.replace("_", "").replace("-", "")


def has_random_letters(value: str) -> bool:
    """Return whether the letters of a value without a digit are random ones."""
    folded = value.lower()
    rare = sum(map(folded.count, RARE_LETTERS))
    if rare <= 1 and _FIVE_IN_A_ROW.search(folded) is None:
        return False  # a rare letter makes two odd beginnings at most
    odd = rare + len(_ODD.findall(folded))
    if odd < _FEWEST_ODD:
        return False
    letters = sum(map(str.isalpha, value))
    if _DIVIDED.search(value):  # `attn.qkv_proj`: abbreviations, which names of variables are full of
        return odd >= max(6, letters // 3)
    return odd >= max(_FEWEST_ODD, letters * 2 // 7)


MOST_JUDGED: Final = 4_096
_judged = dict[int, bool]()  # by the hash of a value, so that no secret is kept; most texts hold the same words often


def seems_random(text: str, start: int) -> bool:
    """Return whether the value at `start` changes between cases and digits more often than words and names do."""
    found = _VALUE.match(text, start)
    if found is None:
        return False
    value = hash(found[0])
    seems = _judged.get(value)
    if seems is None:
        if len(_judged) >= MOST_JUDGED:
            _judged.clear()
        seems = _judged[value] = _is_random(found[0])
    return seems


def _is_random(value: str) -> bool:
    if value.startswith("_Z") and _MANGLED.match(value):
        return False
    digit = _DIGIT.search(value)
    long = len(value) >= _LONG_WORD
    if digit is not None:
        words = _NAMING_WORDS if len(value) >= _MANY_WORDS else _NAMING_WORD
        if long and sum(map(len, words.findall(value))) * 4 >= len(value) * 3:
            return False
        return len(CHANGES.findall(value)) >= max(3, len(value) // 7) or (
            has_random_letters(value)
            if long
            else _OF_EACH.match(value) is not None and not NUMBERED_WORDS.fullmatch(value)
        )
    if value.islower() or value.isupper():
        # Without a change; to count them costs ten times as much, and hostile text is full of such.
        return long and has_random_letters(value)
    if _CAMEL.fullmatch(value.rstrip("=.,")):
        return False
    # Names such as `ListOfThings` change case too: without a digit, a value needs nearly twice as many changes.
    changes = len(CHANGES.findall(value))
    return changes >= max(3, len(value) // 4) or (long and changes >= 3 and has_random_letters(value))
