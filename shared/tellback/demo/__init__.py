"""`tellback demo`: an end-to-end run of all four loops in an isolated instance, with every effect checked.

`acts` holds the two acts and the summary, `screen` the output, `run` what the acts share, and `system` the instance and
its processes. The agent hosts `agent` and `visitor` are processes of their own; `agent` repairs a small project.
"""
