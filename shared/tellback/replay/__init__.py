"""`tellback replay`: chat transcripts played through the client as live agents would, or analysed without Redis.

Reading: `reading` turns lines into conversations, `transcript` their messages into steps. Playing: `player` plays one
conversation, `run` a file; `host` and `hosts` do so with host processes, some of which are killed. Analysing:
`accounts` works out the guidance of one conversation, `analysis` of a file, for `markdown_report` and `html_report`.
"""
