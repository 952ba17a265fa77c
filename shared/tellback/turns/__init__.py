"""The turns loop's pure parts: what a user is told when nothing better is at hand."""
