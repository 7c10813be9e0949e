"""One thing is not restored after a preemption: which tokens does the client get?

The answers are those of ``kvsched.device.tiny``, stored: there is no torch where this runs.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from kvsched.views.params import Choice, Number
from kvsched.views.same_answer_figure import draw, table
from kvsched.views.view import Data, View

PIECES = {
    "nothing": "all restored",
    "pending token": "pending token",
    "positions": "positions",
    "mask": "mask",
    "block table": "block table",
    "adapter": "adapter",
    "generator": "generator",
    "guesses": "guesses",
}
"""What is not restored, as the stored answers call it and as a button does."""
WAYS = (
    "vLLM, cache off",
    "vLLM",
    "vLLM, gate off",
    "vLLM, drafts",
    "copied to the host",
    "SGLang",
    "SGLang, overlap",
)


@cache
def recorded(name: str) -> dict[str, Any]:
    """What ``python -m kvsched.device.tiny.record`` stored: ``answers`` or ``precision``."""
    path = Path(__file__).parent / f"tiny_{name}.json"
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return told


def compute(way: str, pool: int, sampling: str) -> Data:
    """The undisturbed answer, and the one under every fault."""
    stored = recorded("answers")
    whole = stored["whole"][sampling]
    scene = stored["scenes"][f"{way}|{pool}|{sampling}"]
    rows = [_row(piece, scene, whole) for piece in PIECES]
    says = [_says(row, way, sampling) for row in rows]
    changed = [row["name"] for row in rows if row["wrong"] or row["others"]]
    outs = _outs(rows[0]["moments"])
    if changed:
        losses = f"Losing one thing changes an answer if it is the {_list(changed, 'or')}."
    else:
        losses = "Losing something changes nothing."
    thrown = f"Thrown out {outs}" if outs else "Never thrown out"
    title = f"{way}, a pool of {pool} tokens, {sampling}"
    return {
        "title": title,
        "about": stored["ways"][way],
        "whole": whole,
        "picks": list(PIECES.values()),
        "rows": rows,
        "says": says,
        "sentence": f"{title}. {thrown}. All restored, it is the undisturbed answer. {losses}",
        "caption": (
            f"Above: the {len(whole)} tokens of the undisturbed answer, and those the client gets "
            "when the piece picked is not restored; a frame marks a token that differs, a triangle "
            "a preemption. Below: the same for every piece, a square for each token that "
            "differs, and how many tokens of the two other clients differ. A random-weight Llama "
            "of two layers in float64, on a CPU; the tokens mean nothing."
        ),
        "alt": f"{title}. " + " ".join(says),
    }


def _row(piece: str, scene: dict[str, Any], whole: list[int]) -> dict[str, Any]:
    """One fault: the answer, the places where it is wrong, others' wrong tokens, the moments."""
    told = scene.get(piece, {})
    tokens = told.get("ours", whole)
    wrong = [n for n, (got, wanted) in enumerate(zip(tokens, whole, strict=True)) if got != wanted]
    return {
        "name": PIECES[piece],
        "tokens": tokens,
        "wrong": wrong,
        "others": told.get("wrong", 0),
        "moments": told.get("moments", scene["moments"]),
        "wanted": whole[wrong[0]] if wrong else None,
    }


def _says(row: dict[str, Any], way: str, sampling: str) -> str:
    name, wrong = row["name"], row["wrong"]
    if name == PIECES["nothing"]:
        outs = _outs(row["moments"])
        thrown = f"Thrown out {outs}" if outs else "Never thrown out"
        return f"All restored. {thrown}, and every token is that of the undisturbed run."
    if wrong:
        first = wrong[0]
        said = (
            f"Without the {name}: token {first + 1} is {row['tokens'][first]} instead of "
            f"{row['wanted']}; {len(wrong)} of {len(row['tokens'])} differ."
        )
    elif row["others"]:
        said = f"Without the {name}: the answer is right, and it spoils those of the others."
    else:
        return f"Without the {name}: the same answer. {_why(row, way, sampling)}"
    return f"{said} Of the others' tokens {row['others']} differ." if row["others"] else said


def _why(row: dict[str, Any], way: str, sampling: str) -> str:
    """Why a fault does not show: the first reason that holds."""
    name = row["name"]
    backs = [found for kind, _, found in row["moments"] if kind == "back"]
    reasons = (
        (not backs, "Nobody is thrown out."),
        (name == "generator" and sampling == "greedy", "Greedy decoding draws nothing."),
        (name == "guesses" and way != "vLLM, drafts", "There are no drafts."),
        (
            name == "mask" and way == "copied to the host",
            "The pass that comes back has one token, with none after it.",
        ),
        (
            name == "positions" and way.startswith("SGLang") and not any(backs),
            "Nothing was found and all is computed in one pass, which does begin at 0.",
        ),
        (
            name == "block table",
            "Nobody else wrote into its old pages before they were read.",
        ),
        (True, "It reads other numbers, and the tokens come out the same."),
    )
    return next(said for holds, said in reasons if holds)


def _outs(moments: list[list[Any]]) -> str:
    """`after 3 tokens and after 7 tokens (4 times)`."""
    found = []
    for given, each in groupby(outputs for kind, outputs, _ in moments if kind == "out"):
        times = len(list(each))
        after = f"after {given} token{'' if given == 1 else 's'}" if given else "before any token"
        found.append(after + (f" ({times} times)" if times > 1 else ""))
    return _list(found, "and")


def _list(words: list[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


VIEW = View(
    name="same_answer",
    renderer="picks",
    label="What is not restored",
    compute=compute,
    draw=draw,
    table=table,
    params=(
        Choice("way", "thrown out and back", "vLLM", WAYS),
        Number("pool", "pool", 44, 36, 56, 4, unit="tokens"),
        Choice("sampling", "sampling", "seeded", ("greedy", "seeded")),
    ),
    selection={"pick": 5},
)
