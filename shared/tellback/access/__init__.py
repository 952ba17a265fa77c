"""The users of Redis, what each may do, and the files from which a deployment loads them."""
