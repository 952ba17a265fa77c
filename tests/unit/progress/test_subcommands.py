"""The effects of programs that are told by their subcommand, their options or their input what to do."""

from __future__ import annotations

from typing import Final

import pytest

from tellback.guidance.progress.effects import Effect
from tellback.guidance.progress.shell_calls import shell_features

# Judged by hand before any was run.
LINES: Final[dict[Effect, str]] = {
    "read": r"""
        eval "cat f"
        curl -s https://x.io/f
        curl -s -o /dev/null -w '%{http_code}' https://x.io/f
        curl -so /dev/null https://x.io/f
        curl -o - https://x.io/f
        wget -O- https://x.io/f
        wget -qO- https://x.io/f
        wget -q -O - https://x.io/f
        wget -qO /dev/null https://x.io/f
        wget --spider https://x.io/f
        psql -c 'select 1'
        sqlite3 app.db .schema
        sqlite3 app.db 'select count(*) from t'
        git notes show
        alembic current
        flask db current
        terraform state list
        helm list
        helm template ./chart
        kubectl get pods
        docker compose ps
        docker compose logs
        gh pr checks 3
        gh pr view 3
        git submodule
        git notes
        git archive HEAD
        git commit --dry-run
        git push --dry-run
        git push -n origin main
        git fetch --dry-run
        git bundle verify x.bundle
        git lfs ls-files
        git sparse-checkout list
        git symbolic-ref HEAD
        git hash-object f
        git rm -n x
        git remote -v
        git rerere status
        dotnet list package
        dotnet --version
        dotnet ef migrations list
        python manage.py showmigrations
        python manage.py sqlmigrate app 0001
        rails db:migrate:status
        rails routes
        rake -T
        alembic history
        alembic heads
        flask db history
        flask routes
        prisma migrate status
        terraform show
        terraform output -json
        terraform state show a.b
        terraform workspace list
        terraform version
        helm status web
        helm history web
        helm get values web
        helm search repo x
        kubectl describe pod web
        kubectl top pods
        kubectl explain pods
        kubectl diff -f a.yaml
        docker compose images
        docker image ls
        docker volume ls
        docker inspect web
        gh pr diff 3
        gh issue list
        gh run view 3 --log-failed
        gh auth status
        go list ./...
        go env
        cargo metadata
        make -n
        make --dry-run all
        make help
        ./gradlew tasks
        mvn dependency:tree
        redis-cli get a
        redis-cli info
        pg_dump app
        aws s3 ls
        aws ec2 describe-instances
        gcloud compute instances list
        rsync -an a b
        rsync --dry-run -a a b
        pip show x
        poetry show
        php artisan route:list
        crontab -l
        systemctl status web
    """,
    "search": r"""
        psql -c "select a from t where b = 1"
    """,
    "wait": r"""
        kubectl rollout status deploy/web
        kubectl wait --for=condition=ready pod/web
        gh run watch 3
        gh pr checks 3 --watch
    """,
    "write": r"""
        eval "rm -rf build"
        make clean
        curl -o f.json https://x.io/f.json
        curl -O https://x.io/f.json
        curl -sSLo f.json https://x.io/f.json
        curl -fsSLO https://x.io/f.json
        curl --output f.json https://x.io/f
        curl --remote-name https://x.io/f
        wget https://x.io/f.tgz
        wget -q https://x.io/f.tgz
        wget -O f.tgz https://x.io/f.tgz
        psql -f schema.sql
        psql -d app --file=schema.sql
        psql app < schema.sql
        mysql -u root app < dump.sql
        sqlite3 app.db < schema.sql
        psql -c 'drop table t'
        mysql -e 'insert into t values (1)'
        sqlite3 app.db 'create table t (a)'
        git submodule update --init
        git notes add -m x
        git archive -o x.zip HEAD
        python manage.py migrate
        rails db:migrate
        kubectl apply -f a.yaml
        docker compose up -d
        gh pr create --fill
        ruff check --fix .
        prettier --write .
        git submodule add https://x.io/r
        git archive --output=x.zip HEAD
        git archive --format=zip -ox.zip HEAD
        git push origin main
        git fetch origin
        git bundle create x.bundle HEAD
        git lfs pull
        git sparse-checkout set src
        git worktree add ../x
        git rm --cached x
        git remote add x y
        git stash pop
        git bisect start
        git gc
        git merge --abort
        dotnet clean
        dotnet ef database update
        dotnet format
        dotnet sln add x.csproj
        python3 manage.py makemigrations app
        ./manage.py migrate
        python manage.py collectstatic --noinput
        python manage.py loaddata x.json
        django-admin startproject x
        rails db:seed
        rails generate model X
        bundle exec rails db:rollback
        rake db:migrate
        alembic revision --autogenerate -m x
        alembic stamp head
        flask db migrate -m x
        prisma generate
        npx prisma db push
        prisma format
        terraform fmt
        terraform workspace select x
        kubectl delete pod web
        kubectl scale deploy/web --replicas=2
        kubectl set image deploy/web a=b
        kubectl patch deploy web -p '{}'
        docker compose down -v
        docker compose restart web
        docker pull x
        docker rm -f web
        docker volume rm x
        docker system prune -f
        gh pr merge 3
        gh issue comment 3 -b x
        gh release create v1
        gh pr checkout 3
        ruff format .
        black .
        npx prettier -w src
        gofmt -w a.go
        go mod download
        go mod init x
        go clean -testcache
        make distclean
        make fmt
        make format
        make migrate
        mvn clean
        ./gradlew clean
        ninja clean
        redis-cli flushall
        psql -c "update t set a=1"
        psql <<< 'drop table t'
        createdb app
        dropdb app
        pg_restore -d app x.dump
        pg_dump app > x.sql
        pg_dump -f x.sql app
        mysqldump app > x.sql
        scp a host:b
        rsync -a a b
        pip download x
        npx knex migrate:latest
        npx typeorm migration:run
        php artisan migrate
        mix format
        mix ecto.migrate
        swift package update
        dart format .
        crontab x
        systemctl restart web
        touch a
    """,
    "install": r"""
        make install
        dotnet restore
        dotnet add package X
        terraform init
        go get x
        go install x
        cargo add x
        cargo install x
        cmake --install build
        ninja install
        pip install -e .
        uv sync
        poetry install
        mix deps.get
        flutter pub get
    """,
    "run": r"""
        python manage.py shell
        npx prisma studio
        dotnet watch
        python manage.py runserver
        rails console
        rails server
        flask run
        flask shell
        kubectl exec web -- ls
        kubectl port-forward web 80:80
        docker compose exec web ls
        docker compose run --rm web pytest
        make run
        ssh host ls
    """,
    "test": r"""
        eval "cd /srv && pytest -q"
        make
        make test
        make -C sub all
        dotnet build
        dotnet test
        python manage.py test
        terraform plan
        prettier --check .
        go vet ./...
        dotnet format --verify-no-changes
        python manage.py check
        ./manage.py test app
        rails test
        bin/rails test test/models
        rake spec
        bundle exec rake test
        alembic check
        prisma validate
        terraform validate
        terraform fmt -check
        helm lint ./chart
        npm run lint
        npx eslint .
        ruff check .
        black --check .
        go build ./...
        cargo check
        cargo test
        make lint
        make -j4
        make check
        just test
        task lint
        mvn test
        mvn clean install
        ./gradlew build
        tox -e py312
        cmake --build build
        pulumi preview
        cdk diff
        php artisan test
        mix test
        mix compile
        swift build
        swift test
        flutter test
        flutter analyze
        dart analyze
        zig build
        xcodebuild test
    """,
}
FIXES: Final = """
    npm run lint -- --fix
    cargo clippy --fix
    npx eslint . --fix
    yarn lint --fix
    pnpm run lint --fix
    npx biome check --write .
"""
CHANGES_A_SERVICE: Final = """
    alembic upgrade head
    flask db upgrade
    npx prisma migrate dev
    terraform apply -auto-approve
    helm upgrade web ./chart
    alembic downgrade -1
    terraform plan -out=x -destroy; terraform apply x
    terraform import a.b c
    terraform state rm a.b
    terraform destroy
    helm install web ./chart
    helm uninstall web
    helm rollback web 1
    helm repo add x y
    helm repo update
    redis-cli set a b
    aws s3 cp a s3://b
    aws ec2 stop-instances --instance-ids i
    gcloud run deploy x
    ansible-playbook site.yml
    pulumi up
    sam deploy
    cdk deploy
"""


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize(("line", "effect"), [(line, effect) for effect in LINES for line in lines_of(LINES[effect])])
def test_what_a_command_line_does_is_read_from_its_words_and_its_input(line: str, effect: Effect) -> None:
    """G-347."""
    features = shell_features("bash", line, {})
    assert features.effect == effect
    assert bool(features.writes) == (effect in ("write", "install"))


@pytest.mark.parametrize("line", lines_of(FIXES))
def test_a_linter_that_corrects_what_it_finds_changes_files(line: str) -> None:
    """G-347."""
    features = shell_features("bash", line, {})
    assert (features.effect, features.writes) == ("test", ("",))


@pytest.mark.parametrize("line", lines_of(CHANGES_A_SERVICE))
def test_a_deployment_or_a_migration_changes_what_others_find(line: str) -> None:
    """G-347."""
    assert shell_features("bash", line, {}).sends


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("curl -sSLo data/f.json https://x.io/f", ("data/f.json",)),
        ("curl -of.json https://x.io/f", ("f.json",)),
        ("curl -XPOST https://x.io/f", ()),
        ("wget -qO f.json https://x.io/f", ("f.json",)),
        ("wget --output-document=f.json https://x.io/f", ("f.json",)),
        ("wget https://x.io/f.json", ("",)),
    ],
)
def test_a_download_changes_the_file_that_it_names_or_any(line: str, written: tuple[str, ...]) -> None:
    """G-347: without a name the server may choose it."""
    assert shell_features("bash", line, {}).writes == written
