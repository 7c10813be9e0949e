"""Requests, and token content held as runs."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsched.request import Request, Tokens, runs_from_block_ids

# Few distinct ids, so that runs touch, repeat and join.
runs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), max_size=8)


def spelled(pairs: list[tuple[int, int]]) -> list[int]:
    """The tokens, one by one."""
    return [first + k for first, count in pairs for k in range(count)]


class TestTokens:
    """Runs behave as the list of tokens they stand for."""

    @given(runs)
    def test_runs_are_maximal_and_spell_the_same_tokens(self, pairs: list[tuple[int, int]]) -> None:
        tokens = Tokens(pairs)
        assert tokens.length == len(spelled(pairs))
        kept = list(tokens.runs())
        assert spelled(kept) == spelled(pairs)
        for (first, count), (following, _) in pairwise(kept):
            assert first + count != following
            assert count > 0

    @given(runs, st.lists(st.integers(0, 6), max_size=6))
    def test_appending_is_appending(self, pairs: list[tuple[int, int]], more: list[int]) -> None:
        one_by_one, at_once = Tokens(pairs), Tokens(pairs)
        for token in more:
            one_by_one.append(token)
        at_once.append_all(more)
        assert one_by_one.runs() == at_once.runs()
        assert spelled(list(at_once.runs())) == spelled(pairs) + more

    @given(runs, st.integers(0, 20), st.integers(0, 6))
    def test_a_truncated_one_goes_on_as_if_never_longer(
        self, pairs: list[tuple[int, int]], length: int, token: int
    ) -> None:
        tokens = Tokens(pairs)
        tokens.truncate(length)
        tokens.append(token)
        assert spelled(list(tokens.runs())) == [*spelled(pairs)[:length], token]

    @given(runs, runs, st.integers(1, 4), st.data())
    def test_contents_are_equal_exactly_if_the_tokens_are(
        self, one: list[tuple[int, int]], two: list[tuple[int, int]], size: int, data: st.DataObject
    ) -> None:
        left, right = spelled(one), spelled(two)
        if len(left) < size or len(right) < size:
            return
        i = data.draw(st.integers(0, len(left) - size))
        j = data.draw(st.integers(0, len(right) - size))
        same = Tokens(one).content(i, i + size) == Tokens(two).content(j, j + size)
        assert same is (left[i : i + size] == right[j : j + size])

    def test_a_run_of_8192_tokens_is_one_pair(self) -> None:
        tokens = Tokens([(100_000, 8000), (108_000, 192)])
        assert tokens.runs() == ((100_000, 8192),)
        assert tokens.content(16, 32) == 100_016

    def test_nothing_is_an_empty_sequence(self) -> None:
        assert (Tokens().length, Tokens([(5, 0)]).runs()) == (0, ())


class TestBlockIds:
    """A trace's block ids as runs of tokens."""

    def test_equal_ids_share_and_others_do_not(self) -> None:
        assert runs_from_block_ids([7, 9, 10], 16, 40) == ((112, 16), (144, 24))

    def test_the_last_block_may_be_partly_used(self) -> None:
        assert runs_from_block_ids([0, 1], 512, 513) == ((0, 513),)
        assert sum(count for _, count in runs_from_block_ids([3, 5], 512, 600)) == 600


class TestRequest:
    """What a client asks for."""

    def test_the_prompt_is_counted(self) -> None:
        assert Request("a", ((0, 10), (50, 3)), 5).num_prompt_tokens == 13

    def test_it_cannot_be_changed(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            Request("a", ((0, 1),), 5).max_tokens = 6  # type: ignore[misc]
