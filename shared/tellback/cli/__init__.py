"""The command line: one file for each group of commands, and one to three files of helpers beside the large ones."""
