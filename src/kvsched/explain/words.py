"""Numbers, nouns and lists as the sentences write them."""

from __future__ import annotations

from collections.abc import Iterable


def n(value: int) -> str:
    """A count: digits alone below 10,000, with separators from there on."""
    return str(value) if -10_000 < value < 10_000 else f"{value:,}"


def tokens(count: int) -> str:
    """A token count with its noun."""
    return "1 token" if count == 1 else f"{n(count)} tokens"


def chunk(count: int) -> str:
    """``a 33-token chunk``, with the article the number wants."""
    number = n(count)
    article = "an" if number[0] == "8" or number.split(",")[0] in ("11", "18") else "a"
    return f"{article} {number}-token chunk"


def are(count: int) -> str:
    """The verb a count wants."""
    return "is" if count == 1 else "are"


def blocks(count: int) -> str:
    """A block count with its noun."""
    return "1 block" if count == 1 else f"{n(count)} blocks"


def share(part: int, whole: int) -> str:
    """A part of a whole in per cent."""
    return f"{100 * part / whole:.1f} %"


def listed(ids: Iterable[str], most: int = 8) -> str:
    """Ids as a list in words, the middle left out when it is long."""
    names = list(ids)
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {n(len(names) - most + 1)} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
