"""`python -m tellback`: the console script, for environments whose `bin` is not on PATH."""

from tellback.cli.entry import main

main()
