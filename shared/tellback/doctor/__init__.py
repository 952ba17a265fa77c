"""`tellback doctor`: checks of Redis, processes, backlogs and this host, each with advice. It only reads."""
