"""What an agent host calls: one frame, and a file for each loop."""
