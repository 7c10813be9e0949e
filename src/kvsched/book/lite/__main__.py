"""`python -m kvsched.book.lite fetch`, once, then `… build HTML` in the project's folder."""

import sys
from pathlib import Path

from kvsched.book.lite.build import build
from kvsched.book.lite.fetch import fetch
from kvsched.errors import InputError

if __name__ == "__main__":
    try:
        match sys.argv[1:]:
            case ["fetch"]:
                fetch()
            case ["build", html]:
                build(Path.cwd(), Path(html))
            case _:
                sys.exit(__doc__)
    except InputError as error:
        sys.exit(f"error: {error}")
