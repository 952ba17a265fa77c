"""`tellback demo`: one true story on a system of its own, every effect of which is checked.

project.py the project with the failing tests · agent.py, visitor.py the agent hosts, processes of their own ·
system.py the `tellback up` that the story runs on · host.py a host as the demo sees it · stage.py what the terminal
shows · scene.py what every act has at hand · repair.py, abandon.py the two acts · summary.py the counts at the end
"""
