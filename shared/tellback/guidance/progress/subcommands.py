"""The effect of programs that are told by their first words what to do: frameworks, migrations, deployments, builds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tellback.guidance.progress.effects import EFFECTS, Effect, named, words_in

# A subcommand of two words stands here with a colon between them, as those of Rails do: `db:current` for Flask. One
# that is not here has the effect of its first part, so that `db` stands for `db:seed` and `ecto` for `ecto.migrate`.
_DJANGO: Final[Mapping[str, Effect]] = {
    **named("test", "test check"),
    **named("read", "showmigrations sqlmigrate diffsettings dumpdata inspectdb findstatic"),
    **named(
        "write",
        "migrate makemigrations collectstatic loaddata flush createsuperuser startapp startproject squashmigrations",
        "makemessages compilemessages createcachetable clearsessions",
    ),
}
_RAILS: Final[Mapping[str, Effect]] = {
    **named("test", "test spec rubocop lint zeitwerk"),
    **named("read", "db:migrate:status db:version routes about stats notes initializers middleware -T -P"),
    **named("write", "db generate g destroy d new assets tmp log clean clobber app credentials"),
}
_MAVEN: Final[Mapping[str, Effect]] = {
    **named("write", "clean wrapper spotlessApply spotless:apply"),
    **named("read", "tasks dependencies projects properties help dependency dependencyInsight javaToolchains"),
    **named("install", "dependency:resolve dependency:go-offline"),
    **named("run", "run bootRun spring-boot:run exec"),
}
_TERRAFORM: Final[Mapping[str, Effect]] = {
    **named("test", "plan validate test"),
    **named("read", "output version graph providers"),
    **named("write", "fmt workspace:select workspace:new workspace:delete"),
    **named("install", "init get"),
}
_TARGETS: Final[Mapping[str, Effect]] = {
    **named("write", "clean distclean mrproper realclean clobber fmt format generate gen migrate tidy reset"),
    **named("install", "install uninstall deps dependencies setup bootstrap venv requirements"),
    **named("read", "help list version"),
    **named("run", "run serve start dev up down shell"),
}
_RECIPES: Final[Mapping[str, Effect]] = {**_TARGETS, **named("test", "test check lint build")}
_BY_SUBCOMMAND: Final[Mapping[str, Mapping[str, Effect]]] = {
    "manage.py": _DJANGO,
    "django-admin": _DJANGO,
    "rails": _RAILS,
    "rake": _RAILS,
    "just": _RECIPES,
    "task": _RECIPES,
    "alembic": {
        **named("read", "current history heads branches show"),
        **named("test", "check"),
        **named("write", "revision stamp merge init edit"),
    },
    "flask": {
        **named("read", "db:current db:history db:heads db:branches db:show routes"),
        **named("test", "db:check"),
        **named("write", "db:migrate db:revision db:stamp db:merge db:init"),
    },
    "prisma": {
        **named("read", "migrate:status migrate:diff version"),
        **named("test", "validate"),
        **named("write", "generate db format init"),
        **named("run", "db:execute"),
    },
    "knex": {**named("write", "migrate seed"), **named("read", "migrate:list migrate:status migrate:currentVersion")},
    "typeorm": {**named("write", "migration schema"), **named("read", "migration:show schema:log")},
    "sequelize": {**named("write", "db migration model seed"), **named("read", "db:migrate:status")},
    "artisan": {
        **named("test", "test"),
        **named("read", "route:list migrate:status about list config:show db:show"),
        **named("write", "migrate db make key cache config:cache config:clear optimize storage vendor"),
    },
    "dotnet": {
        **named("install", "restore tool:restore tool:install workload"),
        **named("read", "ef:migrations:list sln:list nuget:list --info --list-sdks --list-runtimes"),
        **named("write", "sln ef format"),
    },
    "terraform": _TERRAFORM,
    "tofu": _TERRAFORM,
    "helm": {**named("read", "template search version env"), **named("test", "lint"), **named("write", "package")},
    "pulumi": named("test", "preview"),
    "cdk": named("test", "diff synth"),
    "mvn": _MAVEN,
    "mvnw": _MAVEN,
    "gradle": _MAVEN,
    "gradlew": _MAVEN,
    "mix": {
        **named("test", "test compile credo dialyzer"),
        **named("read", "help deps ecto.migrations phx.routes xref hex.info"),
        **named("write", "format ecto phx clean new"),
        **named("install", "deps.get deps.update local archive"),
        **named("run", "phx.server"),
    },
    "swift": {
        **named("test", "build test"),
        **named("write", "package:update package:resolve package:clean package:init package:reset"),
        **named("read", "package"),
    },
    "flutter": {
        **named("test", "test analyze build"),
        **named("install", "pub"),
        **named("read", "devices doctor --version pub:deps pub:outdated"),
        **named("write", "create clean gen-l10n"),
    },
    "dart": {**named("test", "test analyze compile"), **named("install", "pub"), **named("write", "format fix create")},
    "zig": {**named("test", "build test build-exe build-lib ast-check"), **named("write", "fmt init fetch")},
    "xcodebuild": {**named("test", "test build analyze archive"), **named("write", "clean"), **named("read", "-list")},
    "redis-cli": {
        **named("read", "get info keys ping ttl type exists scan llen lrange hgetall hget smembers zrange dbsize"),
        **named("write", "flushall flushdb expire rename incr decr lpush rpush hset sadd zadd xadd lpop rpop hdel"),
    },
    "crontab": named("read", "-l"),
}
_MAKERS: Final = words_in("make gmake ninja")
# Options by which a maker only shows what it would do.
_SHOWS: Final = words_in("-n --dry-run --just-print --recon -q --question -p --print-data-base")
# Options by which another program only says whether it would change something.
_CHECKS: Final = words_in("--check -check --verify-no-changes --dry-run --diff --plan --pretend")
_WITH_VALUE: Final = words_in("-C -f -j -I --directory --file --makefile --settings --project -p -P -c --config")
_PARTS: Final = re.compile(r"[:._-]")
_BUILDS: Final[Effect] = "test"  # targets and goals of any other name
_DEPTH: Final = 3  # words of a subcommand: `dotnet ef migrations list`


def subcommand_effect(program: str, words: tuple[str, ...]) -> Effect | None:
    """Return the effect that a program's first words name, None if the program or the words are not known."""
    known = _BY_SUBCOMMAND.get(program)
    if known is None and program not in _MAKERS:
        return None
    plain = [
        word for n, word in enumerate(words) if not word.startswith("-") and not (n and words[n - 1] in _WITH_VALUE)
    ]
    if known is None:
        if not _SHOWS.isdisjoint(words):
            return "read"
        targets: list[Effect] = [_of_target(word) for word in plain if "=" not in word]
        return max(targets, key=EFFECTS.index) if targets else _BUILDS
    if known is _MAVEN:  # as many goals as one likes, each perhaps of a plugin or a module: `:app:clean`
        names = ((word, word.partition(":")[0], word.rpartition(":")[2]) for word in plain)
        goals: list[Effect] = [_first_known(known, *each) or _BUILDS for each in names]
        return max(goals, key=EFFECTS.index) if goals else None
    plain = plain or [*words[:1]]
    joined = [":".join(plain[:n]) for n in range(min(_DEPTH, len(plain)), 0, -1)]
    found = _first_known(known, *joined, *(_PARTS.split(name)[0] for name in joined[-1:]))
    return "test" if found == "write" and not _CHECKS.isdisjoint(words) else found


def _first_known(known: Mapping[str, Effect], *names: str) -> Effect | None:
    for name in names:
        if name in known:
            return known[name]
    return None


def _of_target(name: str) -> Effect:
    """Return the effect of a target of a makefile by its name or a part of it: `lint-format`, `clean-docs`."""
    parts = _PARTS.split(name)
    if "." in name or {"test", "check", "lint"} & {*parts}:  # a file is built
        return _BUILDS
    return _first_known(_TARGETS, name, parts[0]) or _BUILDS
