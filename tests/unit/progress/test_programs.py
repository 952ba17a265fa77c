"""The effects of well-known programs whose name alone does not tell them."""

from __future__ import annotations

from typing import Final

import pytest

from tellback.guidance.progress.effects import Effect
from tellback.guidance.progress.programs import surely_reads
from tellback.guidance.progress.shell_calls import shell_features
from tellback.guidance.shell import simple_commands

LINES: Final[dict[Effect, str]] = {
    "read": r"""
        gsed -n 3p f.py
        xargs -a list.txt cat
        mongosh shop --quiet --eval 'db.orders.countDocuments()'
        mongosh --eval 'show dbs'
        sort -k2 f.txt
        awk '$1 > 3' f
        awk '{print ($1 > 3)}' f
        yq .a f
        git branch --list 'feat*'
        git branch --contains abc
        git branch -r --merged main
        git tag -l 'v*'
        git remote get-url origin
        git remote show origin
        git config --get user.name
        git config user.name
        git config get user.name
        git worktree list
        git notes list
        git bisect log
        git submodule status
        git stash show -p
        git stash list
        git reflog show
        git ls-remote origin
        git count-objects -v
        git show-ref
        git fsck
        git --version
        git apply --check x.diff
        git apply --stat x.diff
        git clean -nd
        git add --dry-run .
        git format-patch --stdout HEAD~1
        kubectl config view
        kubectl config current-context
        kubectl api-resources
        kubectl cluster-info
        kubectl auth can-i get pods
        docker compose config
        docker port web
        docker system df
        docker context ls
        docker buildx ls
        gh run list
        gh api repos/x/y
        npm ls
        yarn --version
        npm view x
        npm config get registry
        npm audit
        pip list
        uv pip list
        go mod graph
        go version
        cargo tree
        apt list --installed
        apt-cache search x
        brew info x
        conda list
        conda env list
        tar tf x.tar
        tar -tzf x.tgz
        unzip -l x.zip
        gunzip -c x.gz
        prettier a.js
        gofmt a.go
        autopep8 a.py
        Get-ChildItem -Recurse | Where-Object Name
        pwsh -Command "Get-Content a.txt"
        cmd /c type a.txt
    """,
    "search": """
        find . -exec sed -n 1p {} ;
        find . -name x -exec grep -l total {} +
        git log --grep total
    """,
    "wait": """
        docker logs -f web
        docker compose logs --follow web
        kubectl logs -f web
        journalctl -f
        journalctl --follow -u web
        journalctl -fu web
        tail -fn 20 app.log
    """,
    "write": r"""
        xargs -a list.txt rm
        mongosh --eval 'db.users.deleteMany({})'
        mongosh --eval 'db.a.aggregate([{$out: "b"}])'
        bash -c 'cat a.txt' > b.txt
        eval "cat a.txt" > b.txt
        gsed -i s/a/b/ f.py
        sort -o f.txt f.txt
        sort --output=f.txt f.txt
        awk -i inplace '{print}' f
        gawk -i inplace '{print}' f
        awk '{print > "out.txt"}' f
        yq -i .a=1 f
        find . -name x -exec chmod 644 {} +
        find . -exec cp {} /tmp ;
        find . -execdir rm {} ;
        find . -fprint out.txt
        fd -e pyc -x rm
        echo x | tee f
        cat f | sudo tee -a g
        git ls-files | xargs -0 sed -i s/a/b/
        while read f; do rm $f; done
        git diff --output=x.diff
        git stash push -m list
        git stash push -- show
        git reflog expire --all
        git branch --set-upstream-to=origin/main
        git config --unset user.name
        git config user.name x
        git clean -fd
        journalctl --vacuum-size=1M
        kubectl config use-context x
        docker context use x
        gh api -X POST repos/x/y
        gh api repos/x/y -f title=a
        gh run rerun 3
        gh workflow run x
        gh repo fork x
        npm audit fix
        npm version patch
        npm pkg set x=y
        npm config set x y
        npm publish
        npm init -y
        npm run lint:fix
        npm run format
        go mod tidy
        go fmt ./...
        go generate ./...
        cargo fmt
        cargo fix
        cargo new x
        cargo clean
        uv lock
        poetry new x
        dotnet new console
        prettier --write a.js
        tar xf x.tar
        unzip x.zip
        powershell -Command "Remove-Item x"
        cmd.exe /c del a.txt
    """,
    "install": """
        apt install x
        conda install x
        uv pip install x
        npm prune
        yarn
        yarn --frozen-lockfile
        bundle
        pip wheel x
    """,
    "run": """
        docker run --rm image ls
        npm run dev
        pnpm e2e
        yarn workspace app start
        cargo run
        go run . 1
        dotnet run
        bun app.ts
        find . -name 'a.py' -exec python {} ;
    """,
    "test": """
        npm --prefix app test
        npm -w app test
        npm run test:unit
        npm run format:check
        pnpm --filter app test
        yarn workspace app test
        cargo fmt --check
        isort --check-only .
        ruff format --diff .
        goimports -l .
        autopep8 --diff .
        time -p pytest
        /usr/bin/time -v pytest
        time -f %e pytest
        doas pytest
        setsid pytest
        taskset -c 0 pytest
        ionice -c 3 pytest
        xvfb-run -a pytest
        pytest | tee out.log
        powershell.exe -Command pytest -q
    """,
}


@pytest.mark.parametrize(
    ("line", "effect"),
    [(line.strip(), effect) for effect, lines in LINES.items() for line in lines.strip().splitlines()],
)
def test_subcommands_and_options_decide_what_a_program_does(line: str, effect: Effect) -> None:
    """G-342: a read that is taken for a write hides a loop, and a write taken for a read makes one up."""
    assert shell_features("bash", line, {}).effect == effect


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("sed -i s/a/b/ a.py b.py", ("a.py", "b.py")),
        ("sed -i -e s/a/b/ -e s/b/c/ a.py", ("a.py",)),
        (f"sed -i 's/a/{200 * 'b'}/' a.py", ("a.py",)),
        ("perl -pi -e s/a/b/ a.pl b.pl", ("a.pl", "b.pl")),
        ("rm a.py b.py", ("a.py", "b.py")),
        ("echo x | tee a.txt b.txt", ("a.txt", "b.txt")),
        ("black a.py b.py", ("a.py", "b.py")),
        ("black .", ("",)),
        ("isort src", ("",)),
        ("sed -i s/a/b/ src/*.py", ("",)),
        ("for f in *.py; do sed -i s/a/b/ $f; done", ("",)),
        ("grep -rl a src | xargs sed -i s/a/b/", ("",)),
        ("bash -c 'sort a.txt' > b.txt", ("b.txt",)),
        ("eval 'sort a.txt > b.txt' > c.txt", ("b.txt", "c.txt")),
        ("cat > $OUT <<'EOF'\nx\nEOF", ("",)),
        ("eslint --fix .", ("",)),
        ("biome check --write .", ("",)),
        ("rubocop -A", ("",)),
        ("rubocop", ()),
        ("pre-commit run -a", ()),
    ],
)
def test_all_files_that_a_line_changes_are_known_or_any_may_be(line: str, written: tuple[str, ...]) -> None:
    """G-343."""
    assert shell_features("bash", line, {}).writes == written


@pytest.mark.parametrize(
    "line", ["echo $(./migrate)", "cat <<EOF\n$(./migrate)\nEOF", "cat `./make_list`", 'ls "$(git clean -fd)"']
)
def test_what_a_shell_puts_in_may_change_anything(line: str) -> None:
    """G-344: a failure before it is not certain to come again."""
    assert not all(map(surely_reads, simple_commands(line)))


@pytest.mark.parametrize("line", ["sed -n 1,5p -i a.py", "sed -n 1,5p -e 's/a/b/w out' a.py"])
def test_a_script_of_sed_that_shows_lines_may_write_by_another_option(line: str) -> None:
    assert not all(map(surely_reads, simple_commands(line)))
    assert all(map(surely_reads, simple_commands("sed -n 1,5p a.py b.py")))
