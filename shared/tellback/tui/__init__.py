"""`tellback watch`: the records of commands, live in a terminal.

`sources` reads records, `review` keeps them with their retry chains and applies the filters, `record_text` and `page`
turn a record into styled lines, and `rows`, `screens` and `app` are the Textual widgets and screens.
"""
