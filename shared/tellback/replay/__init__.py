"""`tellback replay`: chat transcripts played through the same way in as live agents.

transcript.py what a transcript says · messages.py chat messages to steps · reading.py lines to conversations ·
player.py one conversation through the client · tally.py what Redis holds of it · run.py the whole file
"""
