"""The outcome of a program that shows an error which it stores, or one that its command names."""

from __future__ import annotations

import pytest

from tellback.guidance.observations import stored_values
from tellback.guidance.observations.classify import classify
from tellback.guidance.observations.commands import complaint_beside_value
from tellback.guidance.observations.evidence import Finding, verdict_of
from tellback.guidance.observations.evidence_builder import build_evidence
from tellback.guidance.shell import simple_commands


def judged(command: str, text: str) -> Finding:
    return classify(build_evidence("Bash", {"command": command}, text, None), {})


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("kubectl get deploy cart -o jsonpath='{.status.conditions[0].message}'", 'Error: container "cart" is waiting'),
        ("kubectl -n a get pod b --output=go-template='{{.x}}' | tail -40", "panic: open /a.yaml: permission denied"),
        ("ssh ops@web1 consul kv get cart/last_error", "Error: cart not found"),
        ("vault read -field=note secret/ops", "permission denied"),
        ("terraform output -raw last_error", "Error: quota exceeded for instance cart-1"),
        ("pulumi stack output lastError", "error: update failed"),
        (
            "docker inspect -f '{{.State.Error}}' cart",
            "failed to create task: cart: executable file not found in $PATH",
        ),
        ("xmllint --xpath 'string(//failure/@message)' junit.xml", "AssertionError: expected 3 to be 4"),
        ("aws cloudformation describe-stacks --query 'Stacks[0].Reason' --output text", "The table failed to create."),
        ("psql shop -Atc 'select last_error from job where id = 7'", 'ERROR: relation "carts" does not exist'),
        ("kcat -b localhost:9092 -C -t errors -e -q -c 2", 'Error: cart not found\n{"msg": "permission denied"}'),
        ("tmux capture-pane -pt build", "$ ./deploy\nbash: ./deploy: Permission denied"),
        ("psql shop -Atc 'drop table if exists a; select 1'", 'NOTICE:  table "a" does not exist, skipping\n1'),
        ("psql shop -Atc 'select note from job'", "Note:  see the log"),
        ("redis-cli -h cache -p 6380 lrange jobs:failed 0 -1", "Error: cart not found"),
        ("redis-cli get said", "NOAUTH Authentication required\nsaid the gate"),  # the server says no more than a line
        ("sqlite3 ci.db 'select message from builds'", 'Error: near "form": syntax error\nfatal: no such cart'),
        ("mysql shop -Ne 'select note from jobs'", "Error: cart not found"),
        ("sqlite3 ci.db <<'E'\nselect note from jobs;\nE", "Error: cart not found"),
        ("kubectl get po b -o jsonpath='{.x.message}'", "/bin/sh: can't open '/app/run.sh': Permission denied"),
    ],
)
def test_a_stored_value_may_be_the_text_of_an_error(command: str, value: str) -> None:
    """Requirement G-367."""
    assert verdict_of(judged(command, value).code) == "success"


@pytest.mark.parametrize(
    ("command", "text", "name"),
    [
        ("kubectl get po b -o jsonpath='{.x}'", 'Error from server (NotFound): pods "b" not found', "pods"),
        ("kubectl get po b -o jsonpath='{.x'", "error: error parsing jsonpath {.x, unclosed action", "unclosed"),
        ("consul kv get cart/limit", "Error! No key exists at: cart/limit", "No key exists"),
        ("vault kv get -field=a secret/b", "No value found at secret/data/b", "No value found"),
        (
            "terraform output -raw x",
            '\u2577\n\u2502 Error: Output "x" not found\n\u2502 \n\u2575',
            'Error: Output "x" not found',
        ),
        ("pulumi stack output x", "error: no stack selected", "no stack selected"),
        ("consul kv get a", "bash: line 1: consul: command not found", "command not found"),
        ("consul kv get a | jq .b", "jq: parse error: Invalid numeric literal at line 1, column 5", "parse error"),
        ("aws s3api list-buckets --query a --output text", "Unable to locate credentials.", "credentials"),
        ("psql shop -At -c 'select 1' -c 'select x'", '1\nFEHLER:  Spalte "x" existiert nicht', "FEHLER"),
        ("kcat -b a:9092 -C -t carts", "% ERROR: Topic carts error: Broker: Unknown topic", "Unknown topic"),
        ("tmux capture-pane -pt build", "can't find session: build", "can't find session"),
        ("tmux capture-pane -pt a", "error connecting to /tmp/tmux-0/default (No such file or directory)", "tmux-0"),
        (
            "kubectl get po b -o jsonpath='{.x}'",
            "E1130 10:00:00.000000 1234 memcache.go:265] couldn't get\nThe connection to the server a:80 was refused",
            "The connection",
        ),
        ("kubectl get po b -o jsonpath='{.x}'", "error: stat /a/kubeconfig: no such file or directory", "stat"),
        ("vault write -field=token auth/approle/login", "Error writing data to auth/approle/login: x", "writing data"),
        ("vault login -field=token a", "Error authenticating: error looking up token", "authenticating"),
        ("pulumi stack output x", "error: PULUMI_ACCESS_TOKEN must be set for login", "PULUMI_ACCESS_TOKEN"),
        ("nix eval --raw .#x", "warning: Git tree '/a' is dirty\nerror: flake 'a' does not provide x", "error: flake"),
        ("nix eval --raw .#x", "error: undefined variable 'x'\n\n       at /a.nix:1:1:", "undefined variable"),
        ("gcloud run list --format='value(a)'", "WARNING: a\nERROR: (gcloud.run.list) denied", "ERROR: (gcloud"),
        ("docker inspect -f '{{.X}}' $(docker ps -q)", '"docker inspect" requires at least 1 argument.', "requires"),
        ("docker inspect -f '{{.X}}' a b", "running\nError: No such object: b", "No such object"),
        ("docker inspect -f '{{.X}}' a", "failed to connect to the docker API at unix:///a.sock", "failed to connect"),
        ("aws ec2 a --query b --output text", "Unknown options: --foo", "Unknown options"),
        ("psql shop -At -c 'select 10' -c 'select x'", '10\nERROR:  column "x" does not exist', "ERROR:  column"),
        ("psql shop -Atc 'select 1'", "server closed the connection unexpectedly", "server closed"),
        ("etcdctl get a", "Error: dial tcp 127.0.0.1:2379: connect: connection refused", "dial tcp"),
        ("kcat -b a:9092 -C -t b -e", "% Auto-selecting Consumer mode\n% ERROR: Topic b error", "ERROR: Topic"),
        ("cd /nope && consul kv get a", "bash: cd: /nope: No such file or directory", "/nope"),
        ("consul kv get a > /root/a", "bash: line 1: /root/a: Permission denied", "/root/a"),
        ("ssh web1 consul kv get a", "Permission denied (publickey).", "publickey"),
        ("docker exec c consul kv get a", "Error response from daemon: No such container: c", "No such container"),
        (
            "redis-cli get cart",
            "Could not connect to Redis at 127.0.0.1:6379: Connection refused",
            "Connection refused",
        ),
        ("sqlite3 ci.db 'select x from b'", "Error: in prepare, no such column: x\n  select x\n  ^--- error here", "x"),
        ("sqlite3 ci.db 'select id from a join b'", "Error: ambiguous column name: id", "ambiguous"),
        ("sqlite3 ci.db 'insert into a select * from b'", "Error: UNIQUE constraint failed: a.id", "UNIQUE"),
        ("redis-cli lrange k 0 x", "ERR value is not an integer or out of range", "integer"),
        ("mysql shop -Ne 'select 1; selec 2'", "1\nERROR 1064 (42000) at line 1: You have an error", "ERROR 1064"),
        ("kubectl exec a -- ls", "error: unable to upgrade connection: pod does not exist", "unable to upgrade"),
    ],
)
def test_what_a_program_says_in_place_of_a_value_is_a_failure(command: str, text: str, name: str) -> None:
    """Requirement G-367."""
    found = judged(command, text)
    assert (verdict_of(found.code), name in found.message) == ("failure", True), found


@pytest.mark.parametrize(
    "command", ["psql -Upostgres -c 'select 1'", "psql --host=db -c 'x'", "psql -h db-test -c 'x'"]
)
def test_a_table_of_psql_is_no_stored_value(command: str) -> None:
    """Requirement G-367."""
    assert complaint_beside_value("a", simple_commands(command)) is None


def test_a_long_command_is_searched_for_its_options_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement of 20,000 characters behind `psql -c` took nine seconds."""
    lines: list[str] = []

    class NotingPattern:
        """A pattern that notes what it is asked to search."""

        def search(self, line: str) -> None:
            lines.append(line)

    monkeypatch.setattr(stored_values, "_VALUES", ((frozenset({"psql"}), NotingPattern(), None),))
    assert complaint_beside_value("a", simple_commands("psql " + "a -c " * 3_900)) is None
    assert complaint_beside_value("a", simple_commands(f"psql -Atc '{'a -c ' * 3_900}'")) is None
    assert 0 < max(map(len, lines)) < 4_000


def test_options_that_may_take_the_next_one_are_read_once() -> None:
    """Forty took minutes, each being an option or the value of the one before it."""
    assert complaint_beside_value("a", simple_commands("redis-cli " + "-a " * 40)) is None


@pytest.mark.parametrize(
    ("command", "text", "name"),
    [
        ("pytest -q -k '1 failed'", "F    [100%]\n1 failed in 0.02s", "1 failed"),
        ("echo '1 failed' && pytest -q", "1 failed\n.F   [100%]\n1 failed, 1 passed in 0.02s", "1 passed"),
        ("redis-cli set a 'ERR wrong number'", "(error) ERR wrong number of arguments for 'set' command", "ERR wrong"),
        ("redis-cli set a 'MISCONF Redis'", "MISCONF Redis is configured to save RDB snapshots", "RDB snapshots"),
    ],
)
def test_a_summary_or_refusal_that_repeats_words_of_the_command_is_a_failure(
    command: str, text: str, name: str
) -> None:
    """Requirement G-368."""
    found = judged(command, text)
    assert (verdict_of(found.code), name in found.message) == ("failure", True), found


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("linear issue create '1 failed in 2s'", "1 failed in 2s\nhttps://linear.app/acme/issue/SHOP-12"),
        ("redis-cli set note 'ERR unknown command'", "OK"),
    ],
)
def test_a_line_that_was_given_whole_is_none(command: str, text: str) -> None:
    """Requirement G-368."""
    assert verdict_of(judged(command, text).code) == "success"
