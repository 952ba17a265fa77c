"""`tellback watch`: the records of commands, in a terminal.

sources.py where records come from · review.py what is known of them, filters.py which of them are shown, words.py and
page.py how they are told: none of these knows the terminal · rows.py the list, app.py the screens
"""
