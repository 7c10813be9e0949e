"""`python -m kvsched.views`: every view's replies, to compare one Python's with another's."""

import sys

from kvsched.views import parity

if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for line in parity():
        sys.stdout.write(f"{line}\n")
