"""Tellback closes the loop for fleets of AI agents."""
