"""`tellback demo`: one true story on a system of its own, every effect of which is checked.

project.py the project with the failing tests · agent.py, visitor.py the agent hosts, processes of their own ·
system.py the `tellback up` that the story runs on · host.py what a host process tells · stage.py what the terminal
shows · story.py the story · summary.py the counts at its end
"""
