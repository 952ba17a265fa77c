"""The measure of progress: from the calls of one evaluation to what an agent repeats without making progress.

    event ── reading ──▶ features ── judge ──▶ detectors ── reports ──▶ finding
               │                       │
     shell_calls, output, failures   trail

- `reading` reads a call's features: `effects` knows tools by name, `shell_calls` and `programs` command lines, `output`
  takes off what an agent's program adds, `failures` reads errors, and `substance` says what is new in a result.
- `judge` compares them with the bounded `trail` of the evaluation, and asks the detectors: those in `detectors`,
  `fruitless` (nothing found), `undone` (edits taken back) and `endings` (after an end). `faults` has what they share.
- `reports` chooses which finding is told now.

Requirements G-86 to G-89.
"""
