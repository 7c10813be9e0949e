"""A place in an engine's source becomes a link to exactly those lines at the pinned tag."""

from __future__ import annotations

import pytest

from kvsched.errors import InputError
from kvsched.sources import source

VLLM = "https://github.com/vllm-project/vllm/blob/v0.28.0/"
SGLANG = "https://github.com/sgl-project/sglang/blob/v0.5.18/"


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("vllm/v1/request.py:374", f"{VLLM}vllm/v1/request.py#L374"),
        ("vllm/v1/request.py:351-367", f"{VLLM}vllm/v1/request.py#L351-L367"),
        ("python/sglang/srt/a.py:1-2", f"{SGLANG}python/sglang/srt/a.py#L1-L2"),
    ],
)
def test_link(place: str, url: str) -> None:
    found = source(place)
    assert (found.place, found.url) == (place, url)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("vllm/v1/request.py", "is no place"),
        ("vllm/v1/request.py:0", "is no place"),
        ("vllm/v1/request.py:9-3", "ends before it begins"),
        ("nano/scheduler.py:3", "is in no known engine"),
        ("https://example.org/vllm/a.py:3", "is no place"),
    ],
)
def test_a_bad_place_is_named(place: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        source(place)
