"""JupyterLite: the third home of the widgets, a notebook server inside the reader's browser.

It is built into the book after the pages. Everything it loads is a file of the book: the page's own
Pyodide, the wheels that `lock/browser.txt` pins, this package, the notebooks and the recordings.
"""
