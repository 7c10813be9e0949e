"""One queue under eight orders, and what an order finds while clients keep it filled."""

from __future__ import annotations

from typing import Any

import pytest

from kvsched.sglang import Scheduler
from kvsched.views import find
from kvsched.views.ordering_load import cached_share
from kvsched.views.ordering_queue import LONG, WAITING, sglang_pass


def orders(**params: int) -> dict[str, Any]:
    return {order["name"]: order for order in find("ordering")(**params)["orders"]}


def ids(order: dict[str, Any]) -> str:
    return "".join(row["id"] for row in order["rows"])


def why(order: dict[str, Any]) -> dict[str, str]:
    return {row["id"]: row["reason"] for row in order["rows"]}


def test_no_two_orders_of_the_queue_are_the_same() -> None:
    found = [ids(order) for order in orders().values()]
    assert len(set(found)) == len(found) == 8
    assert {"".join(sorted(each)) for each in found} == {"ABCDEFGH"}


def test_a_victim_is_first_in_one_engine_and_last_in_the_other() -> None:
    found = orders(more=10)
    assert found["vLLM fcfs"]["rows"][0]["id"] == "A"
    last = found["SGLang fcfs"]["rows"][-1]
    assert (last["id"], last["place"]) == ("A", len(WAITING) + 10)


def test_the_id_decides_between_equals() -> None:
    told = why(orders()["vLLM priority"])
    assert told["H"] == "priority 0, arrival 6, its id after G"
    assert told["G"] == "priority 0, arrival 6"


def test_who_shares_an_uncached_prefix_waits_for_the_first_with_it() -> None:
    assert why(orders()["lpm"])["F"] == "shares 200 uncached tokens with B"
    cold = orders(cached=0)["lpm"]
    assert ids(cold).endswith("FH")
    assert why(cold)["H"] == "shares 1,200 uncached tokens with D"


def test_a_prompt_cached_as_a_whole_counts_one_token_less() -> None:
    assert why(orders()["lpm"])["A"] == "all cached, counts as 699 tokens"


def test_dfs_weight_goes_where_most_of_the_queue_is() -> None:
    assert ids(orders()["dfs-weight"]).startswith("ACEDH")


@pytest.mark.parametrize(("more", "looked"), [(120, 128), (121, 0)])
def test_lpm_looks_128_requests_up_and_of_129_none(more: int, looked: int) -> None:
    found = orders(more=more)
    assert found["lpm"]["lookups"] == looked
    assert found["dfs-weight"]["lookups"] == 8 + more
    assert (ids(found["lpm"]) == ids(found["SGLang fcfs"])) is (looked == 0)


def test_above_the_limit_the_last_order_stays() -> None:
    scheduler, _ = sglang_pass("lpm", 120, LONG, 0)
    before = [r.id for r in scheduler.waiting]
    scheduler.waiting.append(sglang_pass("lpm", 121, LONG, 0)[0].waiting[-1])
    scheduler.policy.sort(scheduler.waiting, [])
    assert [r.id for r in scheduler.waiting][:128] == before


def test_at_low_load_lpm_is_measured_and_at_high_load_fcfs() -> None:
    plain = cached_share("fcfs", 132)
    assert cached_share("lpm", 128) > 4 * plain
    assert cached_share("lpm", 132) == plain
    assert cached_share("dfs-weight", 132) > 4 * plain


def test_a_scheduler_of_ones_own_can_be_measured() -> None:
    class Idle(Scheduler):
        """Never sorts."""

        def new_prefill_batch(self) -> Any:
            self.policy.orders["lpm"] = lambda waiting, running: None
            return super().new_prefill_batch()

    assert cached_share("lpm", 16, Idle) == cached_share("fcfs", 16)
