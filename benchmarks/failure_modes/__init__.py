"""Named ways in which agents fail at tools, run by a scripted agent with guidance off and on.

tasks.py questions and their documents · tools.py simulated tools and their faults · modes.py the named modes ·
coding.py those of coding agents ·
agent.py the policy · runs.py one run, and fleets of them · report.py figures, spread, table, plot
"""
