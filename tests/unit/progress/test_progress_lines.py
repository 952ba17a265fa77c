"""The lines that results have shown: what is known, what is the call's own, and how many are remembered."""

from __future__ import annotations

from tellback.guidance.progress.substance import LINES_MAX, SEEN_MAX, add_lines, line_marks


def test_lines_are_known_whatever_their_numbers_and_indent() -> None:
    _, seen = add_lines(b"", line_marks("  12\tdef total(self):\n  13\t    return self.sum", ""))
    assert add_lines(seen, line_marks("99:def total(self):\nreturn self.sum\n}", ""))[0] == 1.0
    assert add_lines(seen, line_marks("def total(self):\nreturn self.product", ""))[0] == 0.5


def test_the_calls_own_words_and_empty_results_are_not_known() -> None:
    assert line_marks("all tests passed", "print('all tests passed')") == ()
    assert add_lines(b"", ())[0] == 0.0


def test_the_newest_lines_are_remembered_within_a_bound() -> None:
    seen = b""
    for start in range(0, 4_000, 200):
        _, seen = add_lines(seen, line_marks("\n".join(f"line number {start + n}" for n in range(200)), ""))
    assert len(seen) == 2 * SEEN_MAX
    newest = line_marks("\n".join(f"line number {3_800 + n}" for n in range(LINES_MAX)), "")
    assert add_lines(seen, newest)[0] == 1.0
    assert add_lines(seen, line_marks("line number 3\nline number 4", ""))[0] == 0.0
