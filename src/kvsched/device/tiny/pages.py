"""The KV cache on the device: as many pages as the scheduler has blocks, not one more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


class PagedKV:
    """K and V of every layer, in ``pages`` pages of ``size`` tokens.

    ``k`` and ``v``: (layers, pages · size, KV heads, head size). A page's number is the number the
    scheduler gave its block. All is zero at first, as in the engines; what is wiped is NaN.
    """

    def __init__(
        self, pages: int, size: int, shape: tuple[int, int, int], dtype: torch.dtype, device: str
    ) -> None:
        layers, kv_heads, head_dim = shape
        self.pages, self.size = pages, size
        slots = (layers, pages * size, kv_heads, head_dim)
        self.k = torch.zeros(slots, dtype=dtype, device=device)
        self.v = torch.zeros(slots, dtype=dtype, device=device)

    def slots(self, table: Sequence[int], start: int, stop: int) -> Tensor:
        """Where the tokens ``start`` to ``stop - 1`` of a request with this table lie.

        Raises IndexError for a token beyond the table, or a page beyond the pool.
        """
        pages = torch.tensor([table[p // self.size] for p in range(start, stop)])
        if pages.numel() and not 0 <= int(pages.min()) <= int(pages.max()) < self.pages:
            raise IndexError(f"page {int(pages.max())} of a pool of {self.pages}")
        slots = pages * self.size + torch.arange(start, stop) % self.size
        return slots.to(self.k.device)

    def write(self, layer: int, slots: Tensor, k: Tensor, v: Tensor) -> None:
        """Store one layer's K and V, (tokens, KV heads, head size) each."""
        self.k[layer, slots] = k
        self.v[layer, slots] = v

    def read(self, layer: int, slots: Tensor) -> tuple[Tensor, Tensor]:
        """One layer's K and V of these slots."""
        return self.k[layer, slots], self.v[layer, slots]

    def wipe(self, pages: Iterable[int]) -> None:
        """Make these pages unwritten: who reads them gets NaN."""
        for page in pages:
            self.k[:, page * self.size : (page + 1) * self.size] = torch.nan
            self.v[:, page * self.size : (page + 1) * self.size] = torch.nan

    def copy_out(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Copies of these slots, in every layer."""
        return self.k[:, slots].clone(), self.v[:, slots].clone()

    def copy_back(self, slots: Tensor, copy: tuple[Tensor, Tensor]) -> None:
        """Put copies into these slots."""
        self.k[:, slots], self.v[:, slots] = copy
