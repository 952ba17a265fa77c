"""The way in for facts: a buffered publisher, and the disk spool for when Redis is away."""
