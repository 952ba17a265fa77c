"""The command line: one file for each group of commands, and one to three files of helpers beside the large ones."""

from typing import Final

INTERRUPTED: Final = 130  # the exit code, as a shell reports SIGINT
