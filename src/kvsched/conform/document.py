"""One JSON document from a file, gzip'd or plain, read strictly: what is unclear is refused."""

from __future__ import annotations

import gzip
import stat
import zlib
from typing import TYPE_CHECKING, Any

from kvsched.errors import InputError
from kvsched.strict_json import parse

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 256 * 2**20
"""The most text a document may hold, after decompression; the largest recording has 4 MiB."""

_CHUNK = 2**20


def place(path: Path) -> str:
    """The path as error messages show it: always one printable line."""
    text = str(path)
    return text if text.isprintable() else ascii(text)


def read(path: Path) -> Any:
    """The JSON value in ``path``; a name that ends in ``.gz`` means gzip.

    Refused: numbers JSON has no word for, a key given twice in one object, text that is not UTF-8
    or could not be written back as UTF-8, more than MAX_BYTES.
    """
    try:
        return parse(_text(_bytes(path)))
    except InputError as error:
        raise in_file(path, error) from None


def in_file(path: Path, error: InputError) -> InputError:
    """The error as the file's: a place inside it, or the file itself if there is none."""
    inside = error.place.removeprefix(".")
    whole = f"{place(path)}: {inside}" if inside else place(path)
    return InputError(whole, error.problem, error.fix)


def _bytes(path: Path) -> bytes:
    """The file's content, decompressed, never more than MAX_BYTES of it in memory."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError("", "a folder without recordings", "give a .json.gz or .json file")
        if not stat.S_ISREG(mode):
            raise InputError("", "not a regular file", "give a .json.gz or .json file")
        zipped = path.name.endswith(".gz")
        with gzip.open(path) if zipped else path.open("rb") as stream:
            data = bytearray()
            while chunk := stream.read(_CHUNK):
                data += chunk
                if len(data) > MAX_BYTES:
                    limit = f"more than {MAX_BYTES} bytes of text"
                    raise InputError("", limit, "record shorter runs, one case a file")
            return bytes(data)
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError("", f"corrupt gzip data ({error})", "copy or record it again") from None
    except EOFError:
        raise InputError("", "gzip data that stops early", "copy or record it again") from None
    except OSError as error:
        raise InputError("", f"cannot be read ({error.strerror})", "check the path") from None


def _text(data: bytes) -> str:
    if not data:
        raise InputError("", "empty", "copy or record it again")
    if data.startswith(b"\x1f\x8b"):
        raise InputError("", "gzip data in a file not named .gz", "name it .json.gz")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        found = f"not UTF-8 text (0x{data[error.start]:02x})"
        raise InputError(f"byte {error.start}", found, "write JSON as UTF-8") from None
