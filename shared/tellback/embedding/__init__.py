"""The embedding model in a process, and the contexts of banks beside it. numpy and the model come with the workers.

Workers use it, and hosts that have the model: importing loads numpy, and neither torch nor a model.
"""
