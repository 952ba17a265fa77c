"""The effects of commands of gh."""

from __future__ import annotations

from typing import Final

import pytest

from tellback.guidance.progress.effects import Effect
from tellback.guidance.progress.shell_calls import shell_features

# Judged by hand, from the manual of gh, before any was run.
LINES: Final[dict[Effect, str]] = {
    "read": r"""
        gh -R o/r pr view 4
        gh pr -R o/r list
        gh pr --repo o/r checks 4
        gh issue develop --list 12
        gh project item-list 3 --owner o
        gh codespace list
        gh codespace logs
        gh variable get REGION
        gh status
        gh pr
        gh auth status
        gh run view 77 --log-failed
        gh api repos/o/r/pulls
        gh api -X GET search/issues -f q='repo:o/r is:open'
        gh api --method=GET repos/o/r/commits -F per_page=100
        gh api graphql -f query='query { viewer { login } }'
        gh api graphql -F owner=o -f query='{ repository(owner: $owner, name: "r") { id } }'
        gh api graphql --raw-field=query='query($n: Int!) { viewer { issues(first: $n) { totalCount } } }' -F n=5
    """,
    "search": r"""
        gh search issues crash
        gh extension search dash
    """,
    "wait": r"""
        gh run watch 77
        gh -R o/r run watch 77
        gh pr checks 4 --watch
    """,
    "write": r"""
        gh -R o/r pr merge 4
        gh pr -R o/r merge 4
        gh --repo o/r issue close 12
        gh issue develop 12 --checkout
        gh codespace stop -c name
        gh project item-add 3 --owner o --url https://github.com/o/r/issues/1
        gh project field-create 3 --name Size --data-type NUMBER
        gh pr revert 4
        gh run rerun 77
        gh secret set TOKEN
        gh pr create --title watch --body search
        gh api repos/o/r/issues -f title=x
        gh api -X DELETE repos/o/r/branches/b
        gh api --method=PATCH repos/o/r
        gh api graphql -f query='mutation { addStar(input: {starrableId: "x"}) { clientMutationId } }'
        gh api graphql -F query=@change.graphql
        gh api graphql --input change.json
    """,
}


@pytest.mark.parametrize(
    ("line", "effect"),
    [(line.strip(), effect) for effect, lines in LINES.items() for line in lines.strip().split("\n")],
)
def test_the_effect_of_a_command_of_gh(line: str, effect: Effect) -> None:
    """G-411."""
    assert shell_features("bash", line, {}).effect == effect
