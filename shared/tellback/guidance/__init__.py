"""Decide which feedback a tool call earns, as pure logic: nothing in this package imports Redis or Celery."""
