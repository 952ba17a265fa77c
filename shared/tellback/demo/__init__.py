"""`tellback demo`: an end-to-end run of all four loops in an isolated instance, with every effect checked.

`acts` holds the two acts and the summary, `stage` the terminal output and the shared scene, and `system` the instance
and its processes. The agent hosts `agent` and `visitor` run as separate processes, and repair the project in `project`.
"""
