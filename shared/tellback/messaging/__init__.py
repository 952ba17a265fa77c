"""Publishing of events: a buffered publisher, and the disk spool in which events wait while Redis is unavailable."""
