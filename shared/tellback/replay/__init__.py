"""`tellback replay`: chat transcripts played through the same way in as live agents.

transcript.py what a transcript says · messages.py chat messages to steps · reading.py lines to conversations ·
player.py one conversation through the client · tally.py what Redis holds of it · run.py the whole file

Without Redis: toolbox.py which tools there were · accounts.py the guidance of one conversation · digest.py what a
report keeps · analysis.py the whole file · markdown.py, page.py, timeline.py the reports
"""
