"""Against the ``transformers`` package's Llama with our weights: an independent reference.

``python tests/tiny/test_reference.py`` stores its logits in ``reference.json``, which the quick
tests compare with; the slow ones load the package itself, which takes seconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from kvsched import sglang, vllm
from kvsched.device.tiny import Llama, PagedKV, Part, Prompt, TinyExecutor, alone, answer
from kvsched.device.tiny.model import Piece
from kvsched.device.tiny.scenes import WAYS

STORED = Path(__file__).with_name("reference.json")
TOKENS = [(number * number * 7 + 3 * number + 5) % 128 for number in range(24)]
PLACES = (0, 9, 23)
"""Positions whose logits are stored."""
EXACT = 1e-10
"""Tolerance in float64; what is found is of the order of 1e-14."""
SHIPPED = 2e-5
"""To the package as it is, which computes norms and angles in float32."""


def package_llama(model: Llama, exact: bool) -> Any:
    """The package's model with our weights, in float64.

    The package computes norms and angles in float32 whatever the weights are. ``exact``: not here;
    norms are torch's own, and the angles float64.
    """
    from transformers.models.llama.modeling_llama import (
        LlamaConfig,
        LlamaForCausalLM,
        LlamaRMSNorm,
    )

    s = model.shape
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=s.vocab,
            hidden_size=s.dim,
            intermediate_size=s.ffn,
            num_hidden_layers=s.layers,
            num_attention_heads=s.heads,
            num_key_value_heads=s.kv_heads,
            rms_norm_eps=s.eps,
            rope_parameters={"rope_type": "default", "rope_theta": s.theta},
            tie_word_embeddings=False,
        )
    ).double()
    llama.load_state_dict(_weights(model))
    if exact:
        for module in list(llama.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, LlamaRMSNorm):
                    norm = nn.RMSNorm(s.dim, eps=s.eps, dtype=torch.float64)
                    norm.weight = child.weight
                    setattr(module, name, norm)
        llama.model.rotary_emb.forward = _angles(s.theta, s.head_dim)
    return llama.eval()


def package_logits(llama: Any, tokens: list[int]) -> Tensor:
    """The package's logits, (tokens, vocab)."""
    with torch.no_grad():
        logits: Tensor = llama(torch.tensor([tokens])).logits[0]
    return logits


def _weights(model: Llama) -> dict[str, Tensor]:
    names = {
        "input_layernorm": "attention_norm",
        "self_attn.q_proj": "q",
        "self_attn.k_proj": "k",
        "self_attn.v_proj": "v",
        "self_attn.o_proj": "o",
        "post_attention_layernorm": "mlp_norm",
        "mlp.gate_proj": "gate",
        "mlp.up_proj": "up",
        "mlp.down_proj": "down",
    }
    weights = {
        f"model.layers.{number}.{theirs}.weight": getattr(layer, ours)
        for number, layer in enumerate(model.layers)
        for theirs, ours in names.items()
    }
    return weights | {
        "model.embed_tokens.weight": model.embedding,
        "model.norm.weight": model.norm,
        "lm_head.weight": model.head,
    }


def _angles(theta: float, head_dim: int) -> Any:
    def forward(x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        pairs = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        angles = position_ids[..., None].double() * theta**-pairs
        both = torch.cat((angles, angles), dim=-1)
        return both.cos(), both.sin()

    return forward


@pytest.fixture(scope="module")
def stored() -> dict[str, Tensor]:
    logits = json.loads(STORED.read_text(encoding="utf-8"))["logits"]
    return {kind: torch.tensor(rows, dtype=torch.float64) for kind, rows in logits.items()}


def paged(model: Llama, kv: PagedKV, table: list[int], start: int, stop: int) -> Tensor:
    """Logits of one pass over the reference's tokens ``start`` to ``stop - 1``."""
    slots = kv.slots(table, 0, stop)
    positions = range(start, stop)
    return model.forward(TOKENS[start:stop], positions, [Piece(stop - start, slots, 0)], kv)


class TestAgainstThePackage:
    """Logits in float64, to EXACT of the package in float64, to SHIPPED as it is shipped."""

    def test_prefill(self, model: Llama, stored: dict[str, Tensor]) -> None:
        logits = model.whole(TOKENS)[list(PLACES)]
        assert (logits - stored["exact"]).abs().max() < EXACT
        assert (logits - stored["as shipped"]).abs().max() < SHIPPED

    def test_decode(self, model: Llama, stored: dict[str, Tensor]) -> None:
        kv, table = model.cache(9, 3), [7, 2, 8, 1, 3, 6, 4, 5]
        rows = [paged(model, kv, table, at, at + 1)[0] for at in range(len(TOKENS))]
        logits = torch.stack([rows[place] for place in PLACES])
        assert (logits - stored["exact"]).abs().max() < EXACT

    def test_paged_resume(self, model: Llama, stored: dict[str, Tensor]) -> None:
        """Decoded, thrown out, two pages found again, the rest computed in two chunks elsewhere."""
        kv = model.cache(13, 3)
        for at in range(20):
            paged(model, kv, [7, 2, 8, 1, 3, 6, 4], at, at + 1)
        kv.wipe([8, 1, 3, 6, 4])
        again = [7, 2, 12, 11, 10, 9, 8, 1]
        chunks = [paged(model, kv, again, 6, 15), paged(model, kv, again, 15, 24)]
        logits = torch.stack([chunks[0][9 - 6], chunks[1][23 - 15]])
        assert (logits - stored["exact"][1:]).abs().max() < EXACT

    def test_a_wrong_weight_is_noticed(self, stored: dict[str, Tensor]) -> None:
        other = Llama()
        other.layers[1].up[0, 0] += 1e-3
        logits = other.whole(TOKENS)[list(PLACES)]
        assert (logits - stored["exact"]).abs().max() > SHIPPED

    @pytest.mark.slow
    def test_what_is_stored_is_what_the_package_says(
        self, model: Llama, stored: dict[str, Tensor]
    ) -> None:
        for kind, exact in (("as shipped", False), ("exact", True)):
            logits = package_logits(package_llama(model, exact), TOKENS)[list(PLACES)]
            assert (logits - stored[kind]).abs().max() < EXACT

    @pytest.mark.slow
    @pytest.mark.parametrize("way", ["vLLM, cache off", "vLLM", "copied to the host", "SGLang"])
    def test_every_token_of_a_preempted_run(self, model: Llama, way: str) -> None:
        """Each pass that samples, in a run that throws requests out, agrees with the package."""
        llama, worst = package_llama(model, exact=True), []

        class Compared(TinyExecutor):
            def sample(self, part: Part, logits: Tensor) -> list[int]:
                wanted = package_logits(llama, part.kept.tokens[: part.known])[-1]
                worst.append(float((logits[-1] - wanted).abs().max()))
                return super().sample(part, logits)

        asked = [
            Prompt("a", tuple(TOKENS[:9]), 25),
            Prompt("b", tuple(TOKENS[9:16]), 9),
            Prompt("c", tuple(TOKENS[14:]), 16),
        ]
        config, policy = WAYS[way].config(44), WAYS[way].policy
        run = answer(model, asked, config, kind=Compared, policy=policy)
        assert len(run.outs("c")) == 2
        assert len(worst) == 50
        assert max(worst) < EXACT


class TestWithinThePool:
    """The executor's storage is the scheduler's pool, not a page more."""

    def test_a_page_beyond_the_pool_is_refused(self, model: Llama) -> None:
        kv = model.cache(4, 4)
        with pytest.raises(IndexError, match="page 4 of a pool of 4"):
            kv.slots([1, 4], 0, 8)

    def test_a_token_beyond_the_table_is_refused(self, model: Llama) -> None:
        with pytest.raises(IndexError):
            model.cache(4, 4).slots([1, 2], 0, 9)

    @pytest.mark.parametrize(
        ("config", "pages", "size"),
        [
            (vllm.Config(9, 4, max_model_len=64), 9, 4),
            (sglang.Config(32, page_size=4), 9, 4),
            (sglang.Config(32), 33, 1),
        ],
    )
    def test_it_has_the_pages_of_the_scheduler_and_the_null_page(
        self, model: Llama, config: Any, pages: int, size: int
    ) -> None:
        seen: list[tuple[int, int]] = []

        class Seen(TinyExecutor):
            def table(self, part: Part) -> Any:
                seen.append((self.kv.pages, self.kv.size))
                return super().table(part)

        prompt = Prompt("a", (1, 2, 3), 4)
        assert answer(model, [prompt], config, kind=Seen).tokens["a"] == alone(model, prompt)
        assert set(seen) == {(pages, size)}


def main() -> None:
    """Store the reference."""
    import transformers

    model = Llama()
    kept = {
        kind: package_logits(package_llama(model, exact), TOKENS)[list(PLACES)].tolist()
        for kind, exact in (("as shipped", False), ("exact", True))
    }
    told = {
        "what": "Logits of the transformers package's LlamaForCausalLM with our weights, float64",
        "source": f"python tests/tiny/test_reference.py, transformers {transformers.__version__}",
        "licence": "MIT, as the code",
        "logits": kept,
    }
    STORED.write_text(json.dumps(told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
