"""The embedding model of a process, and its copies of banks' clusters and stored facts.

For workers, and for hosts that have the model. Importing loads numpy, but neither torch nor a model: a process that
never embeds a text should not pay for them.
"""
