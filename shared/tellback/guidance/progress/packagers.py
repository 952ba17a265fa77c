"""The effect of package managers: they install, and run a project's tests, builds and scripts by their names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tellback.guidance.progress.effects import Effect, words_in

PACKAGERS: Final = words_in("pip pip3 npm yarn pnpm bun cargo go poetry uv pdm composer bundle dotnet pipx")
# Those that run the scripts that a project names, also by the name alone: `yarn e2e`.
_SCRIPTED: Final = words_in("npm yarn pnpm bun composer")
# Installers of a system, an environment or a language, whose other subcommands install or remove.
INSTALLERS: Final = words_in("apt apt-get yum dnf apk brew conda mamba gem")
_INSTALLER_READS: Final = words_in("list show info search policy depends rdepends history deps leaves outdated")

_WITH_VALUE: Final = words_in(
    "--prefix -C --cwd --dir --filter -F -w --workspace --manifest-path --directory --project"
)
_INSTALLS: Final = words_in(
    "install i ci add uninstall remove update upgrade sync get require link unlink rebuild prune dedupe wheel venv"
)
_TESTS: Final = words_in(
    "test t build check vet clippy lint tsc typecheck bench tool exec dlx testall compile coverage verify"
)
_STARTS: Final = words_in("start dev serve preview watch")
_READS: Final = words_in(
    "list ls ll la view info show outdated why explain tree metadata search freeze root bin prefix help doctor ping",
    "whoami env doc docs licenses fund query diff index inspect hash debug locate-project pkgid audit config version",
    "cache mod pkg python",
)
_WRITES: Final = words_in(
    "init new create publish pack lock fix clean generate-lockfile vendor generate download format fmt ef"
)
# What is read unless the next word says otherwise.
_READS_WITH: Final = {
    "config": words_in("get list ls"),
    "version": frozenset[str](),
    "cache": words_in("ls list dir info verify"),
    "mod": words_in("graph why verify"),
    "pkg": words_in("get"),
    "python": words_in("list find dir"),
}
_ASKS: Final = words_in("-v --version -h --help")
_PARTS: Final = re.compile(r"[:_.-]")


def installer_effect(words: tuple[str, ...]) -> Effect:
    """Return the effect of an installer of a system: `apt list` only shows."""
    return "install" if _INSTALLER_READS.isdisjoint(_plain(words)[:2]) else "read"


def packager_effect(program: str, words: tuple[str, ...], is_test: Callable[[str], bool]) -> Effect:
    """Return the effect of a package manager's command; `is_test` knows the programs that test.

    A subcommand that nobody knows runs something: a script of the project, or a plugin.
    """
    plain = _plain(words)
    if plain[:1] in (["workspace"], ["workspaces"]):  # of Yarn
        plain = plain[2:] if plain[0] == "workspace" else plain[1:]
    if plain[:1] == ["pip"]:  # of uv
        plain = plain[1:]
    if plain[:1] in (["run"], ["run-script"]):
        return _of_script(plain[1], is_test) if len(plain) > 1 and program in _SCRIPTED else "run"
    first = plain[0] if plain else ""
    if first in _INSTALLS or (not first and program in ("yarn", "bundle") and _ASKS.isdisjoint(words)):
        return "install"
    if first in _WRITES:
        return "test" if "--check" in words else "write"
    if not first or first in _READS:
        return _of_reader(first, plain[1:])
    if first in _TESTS or is_test(first):  # `yarn jest`
        return "test"
    return _of_script(first, is_test) if program in _SCRIPTED else "run"


def _of_reader(first: str, rest: list[str]) -> Effect:
    if first == "audit":
        return "write" if "fix" in rest else "read"
    known = _READS_WITH.get(first)
    shows = known is None or not rest or rest[0] in known or (first == "config" and len(rest) == 1)
    return "read" if shows else "write"


def _of_script(name: str, is_test: Callable[[str], bool]) -> Effect:
    """Return the effect of a script that a project named: `test:unit`, `lint:fix`, `format`."""
    parts = _PARTS.split(name)
    if not {"fix", "write"}.isdisjoint(parts) or (parts[0] in ("format", "fmt") and "check" not in parts):
        return "write"
    return "test" if any(part in _TESTS or is_test(part) for part in parts) else "run"


def _plain(words: tuple[str, ...]) -> list[str]:
    """Return the words that are no options, without the values of those that name a folder or a package."""
    return [
        word for n, word in enumerate(words) if not word.startswith("-") and not (n and words[n - 1] in _WITH_VALUE)
    ]
