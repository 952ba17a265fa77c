"""The rules of style that no reviewer should have to check: words, docstrings, sizes, citations."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = sorted(path for top in ("shared", "workers", "beat") for path in (ROOT / top).rglob("*.py"))
MODULE_LINES: Final = 400
FUNCTION_LINES: Final = 50
TESTS: Final = sorted(path for top in ("tests", "benchmarks") for path in (ROOT / top).rglob("*.py"))
TOOLS: Final = sorted(path for top in ("ops", "examples", "docs") for path in (ROOT / top).rglob("*.py"))
SCRIPTS: Final = sorted((ROOT / "shared").rglob("*.lua"))
OTHERS: Final = sorted(
    path
    for top, ends in {
        "ops": ("*.json", "*.pml", "*.sh", "*.y*ml"),
        "shared": ("*.json", "*.js"),
        "docs": ("*.js",),
        "tests/simulation": ("*.c",),
    }.items()
    for end in ends
    for path in (ROOT / top).rglob(end)
)
"""Files in other languages whose names are ours: dashboards, alerts, deployments, proofs, schemas, pages."""
RETIRED: Final = re.compile(
    r"stands?_?by|door_?bell|glance|looker|crowded|with_room|in_?the_?way|patience|hurr(?:y|ied)|fallen|held_facts?|"
    r"came_to|(?:in|of)_context|screened|"
    r"(?<![a-z])(?:told|tell(?:s|ing|ers?)?|naps?|moments?|drain(?:s|ed|ers?)?|bells?|rings?|rung|"
    r"bur(?:y|ies|ied)|set_aside|look(?:s|ed)?|say_encoder|not_woken|mails?|memories|unsure|attend(?:s|ed|ing)?|deaf|"
    r"contexts|anew|mend(?:s|ed|ing)?)(?![a-z])",
    re.IGNORECASE,
)
IN_PROSE: Final = re.compile(
    r"\b(?:mend(?:s|ed|ing)?|door ?bells?|drainers?|standby|way in (?:for|of)|hurr(?:y|ied)|naps?|"
    r"(?:held|remembered) facts?|w(?:as|ere) told of|anew|lest|amid)\b",
    re.IGNORECASE,
)
"""Retired words that plain English has no other use for, and archaic ones; they are wrong in a sentence too."""
ALIKE: Final = {
    "Outbox": "in an example's text, of a check that looks for writes beside the scripts",
    "PendingConnection": "in the text of the generated stub",
    "ToolUsageMonitor": "replaces the built-in provider of this name, as a user's may",
}
NO_FOR_NOT_A: Final = re.compile(
    r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer\b|such\b)\w|\bstands? twice|\baside\b"
)
FACT: Final = re.compile(r"(?<![a-z])facts?(?![a-z])", re.IGNORECASE)
OF_BANKS: Final = re.compile(
    r"tellback/(?:signals|embedding|demo)/|tellback/state/(?:bank|stored_facts|decay|scripts/signals)|"
    r"tellback/client/(?:banks|recall|signal_session|statistics)|tellback/contracts/signals|tellback/settings|"
    r"tellback/cli/(?:banks|plots|signal|stats_report)|loops/(?:fact_writer|signals)"
)
"""The modules of banks, where a fact is the text that a bank stores."""
OPENINGS: Final = re.compile(
    r"(?:What|Whether|Takes?|Who|How|Why|When|Where|Which|Keeping|From when|For how long|For scripts|Until when)\b"
)
DOUBTFUL: Final = re.compile(rf'r?"""\\?\s*{OPENINGS.pattern}')
"""Such an opening in the text of a module, which is worth a syntax tree then."""
CONTINUES: Final = re.compile(r"(?:Also|And|Or|Nor|But|Else|Unless|Rather|Not|So that|As where|(?:In|Of) which)\b")
"""Such an opening goes on with the name of the test, so that nobody can read the sentence alone."""
REQUIREMENT: Final = re.compile(r"\b([ACGTS])-(\d+)\b")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def definitions(path: Path) -> Iterator[Definition]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, Definition):
            yield node


def headers(path: Path) -> Iterator[tuple[int, str]]:
    """The line that opens a script's header, below its flags."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.startswith("--"):
            return
        if not line.startswith("-- flags:"):
            yield number, line.removeprefix("--").strip()
            return


def docstrings(path: Path, containing: re.Pattern[str] | None = None) -> Iterator[tuple[int, str]]:
    """Each docstring with its line; of a module without `containing` none, since parsing all of them takes seconds."""
    source = path.read_text("utf-8")
    if containing and not containing.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | Definition):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each text of the code except docstrings: of errors, log lines and help."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.lineno, node.value


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each name that a module makes: definitions, parameters, variables, attributes and keywords of calls."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case _:
                pass


def reported_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each log event, thread name and script name: the first text of such a call, or its `thread_name_prefix`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        texts = [*node.args[:1], *(each.value for each in node.keywords if each.arg in {"name", "thread_name_prefix"})]
        for text in texts:
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and re.fullmatch(r"[\w.-]+", text.value):
                yield node.lineno, re.sub(r"[.-]", "_", text.value)


def lua_names(text: str) -> Iterator[tuple[int, str]]:
    """Each name of a script's code; names of keys and arguments are used there as the header declares them."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"[A-Za-z_]\w*", re.sub(r"--.*|'[^']*'", "", line)):
            yield number, name


def other_names(text: str) -> Iterator[tuple[int, str]]:
    """Each name in a file of another language: what joins words by `_`, is defined, called, or is a key."""
    name = re.compile(r"\b([A-Za-z]+(?:_[A-Za-z]+)+|[A-Za-z]\w*(?=\())|\"([A-Za-z]\w*)\":|^\s*([A-Za-z]\w*):")
    for number, line in enumerate(text.splitlines(), 1):
        for match in name.finditer(line):
            yield number, match[1] or match[2] or match[3]


def words_of(text: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text)


def retired(path: Path, names: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{where(path, line)} {name}" for line, name in names if RETIRED.search(words_of(name))]


def test_no_name_uses_a_retired_word() -> None:
    """docs/decisions/vocabulary.md says which word to use."""
    found: list[str] = []
    for path in [*SOURCES, *TESTS, *TOOLS]:
        found += retired(path, [(1, path.stem)])
        source = path.read_text("utf-8")
        if not RETIRED.search(words_of(source)):
            continue
        tree = ast.parse(source)
        found += retired(path, bound_names(tree))
        if path in SOURCES:
            found += retired(path, reported_names(tree))
    for path in SCRIPTS:
        found += retired(path, [(1, path.stem), *lua_names(path.read_text("utf-8"))])
    for path in OTHERS:
        found += retired(path, [(1, path.stem), *other_names(path.read_text("utf-8"))])
    assert not found, "\n".join(found)


def test_no_sentence_uses_a_retired_word() -> None:
    """Pages, docstrings, comments, errors and help are checked; the page of old words and the changelog quote them."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "shared").rglob("*.toml")]
    quoting = {ROOT / "CHANGELOG.md", ROOT / "docs" / "decisions" / "vocabulary.md", Path(__file__).resolve()}
    found = [
        f"{where(path, number)} {line.strip()}"
        for path in [*SOURCES, *TESTS, *SCRIPTS, *TOOLS, *pages]
        if path not in quoting and IN_PROSE.search(text := path.read_text("utf-8"))
        for number, line in enumerate(text.splitlines(), 1)
        if IN_PROSE.search(line)
    ]
    assert not found, "\n".join(found)


def test_only_modules_of_banks_speak_of_facts() -> None:
    """Events are things that happened, and features are things known of a call; neither is a fact."""
    found = [
        f"{where(path, line)} {name}"
        for path in SOURCES
        if not OF_BANKS.search(path.as_posix()) and FACT.search(words_of(source := path.read_text("utf-8")))
        for line, name in bound_names(ast.parse(source))
        if FACT.search(words_of(name))
    ]
    assert not found, "\n".join(found)


def test_the_check_of_names_finds_what_it_should() -> None:
    made = "def test_a_look_fails(told, nap=1):\n    bell = _ring = 1\n    log.info('ring.postponed')\n    Drainer = 2"
    fine = "def retell_string(dealing, overlooked, tellback):\n    log.info('wakeup.postponed')"
    for code, count in ((made, 7), (fine, 0)):
        tree = ast.parse(code)
        assert len(retired(ROOT / "x.py", [*bound_names(tree), *reported_names(tree)])) == count
    script = "-- a bell\nlocal told = redis.call('LLEN', key_mail) -- glance\nreturn arg_ring"
    assert [name for _, name in lua_names(script) if RETIRED.search(words_of(name))] == ["told", "key_mail", "arg_ring"]
    model = '{"told": 1}\n#ifdef LAST_LOOK\n#define look() (x)\nhe looked around; tell me: now'
    assert [name for _, name in other_names(model) if RETIRED.search(words_of(name))] == ["told", "LAST_LOOK", "look"]


def test_docstrings_open_with_a_verb_or_a_noun_phrase() -> None:
    found = [
        f"{where(path, line)} {text.splitlines()[0]}"
        for path in [*SOURCES, *TESTS, *TOOLS]
        for line, text in docstrings(path, containing=DOUBTFUL)
        if OPENINGS.match(text)
    ]
    found += [f"{where(path, line)} {text}" for path in SCRIPTS for line, text in headers(path) if OPENINGS.match(text)]
    assert not found, "\n".join(found)


def test_the_docstring_of_a_test_is_a_sentence_of_its_own() -> None:
    opens = re.compile(rf'r?"""\\?\s*{CONTINUES.pattern}')
    found = [
        f"{where(path, line)} {text.splitlines()[0]}"
        for path in TESTS
        for line, text in docstrings(path, containing=opens)
        if CONTINUES.match(text)
    ]
    assert not found, "\n".join(found)


def test_messages_read_as_a_technical_writer_would_write_them() -> None:
    """They say "X is not a number", not "X is no number", and that lines are quarantined, not set aside."""
    found = [
        f"{where(path, line)} {text}"
        for path in SOURCES
        if NO_FOR_NOT_A.search(source := path.read_text("utf-8"))
        for line, text in messages(ast.parse(source))
        if NO_FOR_NOT_A.search(text)
    ]
    assert not found, "\n".join(found)


def test_a_class_name_stands_once() -> None:
    """Two classes of one name are two meanings of one word. Private ones count, since a reader greps for both.

    It reads lines and not syntax trees, because parsing every test takes as long as the rest of this file.
    """
    line = re.compile(r"^ *class _*(\w+)[:(\[]", re.MULTILINE)  # `_Delivery` beside `Delivery` is found as well
    names = Counter(name for path in [*SOURCES, *TESTS, *TOOLS] for name in line.findall(path.read_text("utf-8")))
    assert {name for name, count in names.items() if count > 1} == set(ALIKE)


def test_modules_and_functions_keep_their_size() -> None:
    long = [
        f"{path.relative_to(ROOT)} has {lines} lines"
        for path in (*SOURCES, *TESTS, *TOOLS)
        if (lines := len(path.read_text("utf-8").splitlines())) > MODULE_LINES
    ]
    long += [
        f"{where(path, node.lineno)} {node.name} has {lines} lines"
        for path in SOURCES
        for node in definitions(path)
        if not isinstance(node, ast.ClassDef) and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_the_glossary_is_short_and_sorted() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    terms = re.findall(r"^\| ([a-z].*?) \| \S.* \|$", text, re.MULTILINE)
    assert 0 < len(terms) <= 60
    assert terms == sorted(terms, key=str.casefold)
    assert len(terms) == len(set(terms))


def requirements() -> dict[str, str]:
    """Each requirement of docs/requirements, by number, with its line."""
    return {
        match[1]: line
        for page in (ROOT / "docs" / "requirements").glob("*.md")
        for line in page.read_text("utf-8").splitlines()
        if (match := re.match(r"\| ([ACGTS]-\d+) \|", line))
    }


def test_every_requirement_names_tests_that_exist() -> None:
    problems: list[str] = []
    for number, line in requirements().items():
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", line)
        if not named:
            problems.append(f"{number} names no test")
        for path, function in named:
            if not (ROOT / path).is_file():
                problems.append(f"{number}: {path} does not exist")
            elif function and f"def {function}(" not in (ROOT / path).read_text("utf-8"):
                problems.append(f"{number}: {path} has no {function}")
    assert not problems, "\n".join(problems)


def test_each_number_is_one_requirement() -> None:
    """Two changes that were made side by side may have taken the same next number."""
    pages = (page.read_text("utf-8") for page in (ROOT / "docs" / "requirements").glob("*.md"))
    counts = Counter(number for text in pages for number in re.findall(r"^\| ([ACGTS]-\d+) \|", text, re.MULTILINE))
    assert not [number for number, count in counts.items() if count > 1]


def test_docstrings_cite_requirements_that_exist() -> None:
    known = requirements()
    assert known
    tests = sorted((ROOT / "tests").rglob("*.py"))
    found = [
        f"{where(path, line)} cites {match[0]}"
        for path in [*SOURCES, *tests]
        for line, text in docstrings(path, containing=REQUIREMENT)
        for match in REQUIREMENT.finditer(text)
        if match[0] not in known
    ]
    assert not found, "\n".join(found)


def test_no_docstring_cites_a_document_outside_the_repository() -> None:
    outside = re.compile(
        r"feedback-guarantee|feedback-providers|actionable-feedback|runtime-feedback-loops|feedback-signals"
    )
    found = [
        f"{where(path, line)} {text.splitlines()[0]}"
        for path in [*SOURCES, *sorted((ROOT / "tests").rglob("*.py"))]
        if path != Path(__file__).resolve()
        for line, text in docstrings(path, containing=outside)
        if outside.search(text)
    ]
    assert not found, "\n".join(found)
