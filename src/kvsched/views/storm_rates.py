"""The storm at three rates: the square of ``storm.py`` as load rises, for the printed figure."""

from __future__ import annotations

from kvsched.views.storm import BLOCKS, BUDGET, OUTPUT, PROMPT, REQUESTS, SLOTS, square, width
from kvsched.views.view import Data, Table

RATES = (0.7, 1.4, 2.0)
"""Poisson arrivals a second."""


def storm(seed: int = 0) -> Data:
    """All twelve runs: a square by rate, the highest rate last."""
    data: Data = {
        "seed": seed,
        "requests": REQUESTS,
        "output_tokens": OUTPUT,
        "squares": [square(rate, seed) for rate in RATES],
    }
    return data | _words(data)


def table(data: Data) -> Table:
    """Every run in numbers."""
    rows: list[tuple[str | tuple[str, str], ...]] = [
        (
            cell["name"],
            f"{square['rate']}",
            f"{cell['tokens_s']:,}",
            f"{cell['preemptions']:,}",
            f"{cell['recompute']:.1%}",
            f"{cell['ttft_p50']:.2f} s",
            f"{cell['ttft_p99']['total']:.2f} s",
            f"{cell['ttft_p99']['recompute']:.2f} s",
        )
        for square in data["squares"]
        for cell in square["cells"]
    ]
    head = (
        "gate and cache", "requests/s", "output tokens/s", "preemptions", "time recomputing",
        "TTFT p50", "TTFT p99", "of it recompute",
    )  # fmt: skip
    return Table("The twelve runs", head, rows)


def _words(data: Data) -> dict[str, str]:
    """What the figure shows, as text: drawn from the same numbers."""
    top = data["squares"][-1]
    both_on, *others, both_off = top["cells"]
    low = data["squares"][0]["cells"][0]
    rate, requests = RATES[-1], data["requests"]
    loss = 1 - both_off["tokens_s"] / both_on["tokens_s"]
    least = max(1 - other["tokens_s"] / both_on["tokens_s"] for other in others)
    wait = both_on["ttft_p99"]
    return {
        "sentence": (
            f"At {rate} requests a second the default serves {both_on['tokens_s']:,} output "
            f"tokens a second. With gate and cache both off it is {both_off['tokens_s']:,}, "
            f"{loss:.0%} less: {both_off['preemptions']:,} preemptions, and "
            f"{both_off['recompute']:.0%} of the engine's time goes into computing again what "
            f"they threw away. With either of the two on, the loss is at most {least:.1%}. TTFT "
            f"p99 rises with load in all four; in the default it is {wait['total']:.1f} s, of "
            f"which recomputing is {wait['recompute']:.1f} s: that wait is load, and no "
            "preemption knob shortens it."
        ),
        "caption": (
            f"{requests} requests of {PROMPT:,} unshared prompt and {OUTPUT:,} output tokens in "
            f"{BLOCKS:,} blocks, {SLOTS} slots, {BUDGET:,} tokens a step; Llama-3-8B on an H100 "
            f"(published kernel times), Poisson arrivals, seed {data['seed']}. Above: what the "
            f"engine's time went into at {rate} requests a second, in bins of "
            f"{width(top['bin'])}, until all are done. Below: time to first token at the 99th "
            "percentile, and output tokens a second, by rate. Recompute is the time by which the "
            "steps are longer for tokens that had been computed before; queueing is the rest of "
            "the wait."
        ),
        "alt": (
            f"Four timelines of engine time at {rate} requests a second. With gate and cache on, "
            f"or either of them, prefill and decode fill {both_on['seconds']:.0f} s. With both "
            f"off, red recompute fills {both_off['recompute']:.0%} of {both_off['seconds']:.0f} s. "
            f"Bars below: TTFT p99 is {low['ttft_p99']['total']:.1f} s at {RATES[0]} requests a "
            f"second in all four, and at {rate} it is {wait['total']:.0f} s of queueing in the "
            f"default, {both_off['ttft_p99']['total']:.0f} s with both off, "
            f"{both_off['ttft_p99']['recompute']:.0f} s of it recompute."
        ),
    }
