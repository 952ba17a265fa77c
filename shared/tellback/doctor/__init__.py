"""`tellback doctor`: what is there, what is wrong, and what to do about it. It reads and never writes."""
