"""`tellback watch`: the records of commands, live in a terminal.

`sources` reads records, `review` keeps them with their retry chains and applies the filters, and `record_text` turns a
record into short texts. `filters`, `rows`, `page` and `app` have the Textual widgets and screens.
"""
