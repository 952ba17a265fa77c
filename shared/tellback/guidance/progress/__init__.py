"""The measure of progress: from the calls of one evaluation to what an agent repeats without making progress.

A call's event becomes `features` (`reading`, `shell_calls`), which `judge` compares with the bounded `trail` of the
evaluation; `detectors` and `undone` have one function for each kind of finding. Requirements G-86 to G-89.
"""
