"""Write pages with one widget each into a folder: `python player_page.py FOLDER`.

``index.html`` and ``pair.html`` show a chapter's view and can compute; the others a stored run.
``expected.json`` holds the sentences that a changed parameter must lead to, ``pair.json`` what the
pair says at its defaults and after a key.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

from kvsched import palette, sglang
from kvsched.book import runtime
from kvsched.conform.recording import load
from kvsched.conform.replay import replay
from kvsched.conform.sglang.replay import replay as replay_sglang
from kvsched.engine import run
from kvsched.explain.short import plain
from kvsched.log import Log
from kvsched.request import Request
from kvsched.views import Table, find
from kvsched.views.lanes import draw, table
from kvsched.views.trace import encode
from kvsched.vllm import Config, Scheduler
from kvsched.widgets import assets, shipping
from kvsched.widgets.fallback import html
from kvsched.workload import Arrival

GOLDEN = Path(__file__).parents[1] / "golden"
STORED = {
    "example": "vllm/seed_a_finish6",
    "many": "vllm/cascade_fcfs",
    "priority": "vllm/cascade_priority",
    "shared": "vllm/prefix_shared_preempt",
    "watermark": "vllm/watermark_churn_0.02",
    "deadlock": "vllm2/kv_deadlock_fcfs",
    "session": "vllm2/st_basic_fcfs",
    "draining": "vllm2/kv_send_delay_fcfs",
}
HOUSE = Path(palette.__file__).parent / "book" / "static" / "house.css"
HEAD = """<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8">
<title>Player</title><meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="all.css"><link rel="icon" href="data:,"><script>
const asked = new URLSearchParams(location.search);
document.documentElement.dataset.theme = asked.get("theme") ?? "light";
</script><script defer src="kvsched-widgets.js"></script></head>
<body><main><h1>A player</h1><p><a href="#">before</a></p>
"""
PAGE_STYLE = """
body { margin: 0; background: var(--kv-paper); color: var(--kv-text); }
main { max-width: 1100px; margin: 0 auto; padding: 12px 16px; }
"""


def view_page(name: str) -> str:
    """A page with a view of the package, at its defaults."""
    view = find(name)
    params, selection = view.checked({}), view.selected({})
    data = view()
    controls = [param.control() for param in view.params]
    rest = {"renderer": view.renderer, "controls": controls, "params": params}
    state = {"data": data, "selection": selection, **rest}
    return page(name, state, view.draw(data, selection), view.table(data))


def page(name: str, state: dict[str, Any], figure: str, rows: Table) -> str:
    """A page as the book would hold it."""
    whole = {"name": name, "view": name, "label": name, **state}
    return f"{HEAD}{html(whole, figure, rows)}</main></body></html>"


def stored_page(name: str, log: Log) -> str:
    """A page with a run that is only looked at."""
    data = {"trace": encode(log), "sentence": name, "caption": f"{name}.", "alt": f"{name}."}
    selection = {"step": 0, "request": "", "block": 0, "hide": False}
    rest = {"renderer": "player", "controls": [], "params": {}}
    state = {"data": data, "selection": selection, **rest}
    return page(name, state, draw(data, selection), table(data))


def long_run() -> Log:
    """64 requests and 2,000 steps, with preemptions."""
    draw_from = random.Random(1)
    config = Config(num_gpu_blocks=1201, max_num_seqs=64, max_num_batched_tokens=2048)
    arrivals = [
        Arrival(
            12 * i,
            Request(
                f"r{i:02}",
                ((10_000 * i, draw_from.randint(200, 2500)),),
                draw_from.randint(150, 900),
                i,
            ),
        )
        for i in range(64)
    ]
    log = Log()
    run(Scheduler(config, log), arrivals, log, max_steps=2000)
    return log


def retraction() -> Log:
    """SGLang: four long prompts, 128 pages of 16 tokens; the least advanced is retracted."""
    config = sglang.Config(2048, page_size=16, schedule_conservativeness=0.3)
    arrivals = [
        Arrival(3 * i, sglang.Request(name, ((10_000 * i, 430),), 150))
        for i, name in enumerate("ABCD")
    ]
    log = Log()
    run(sglang.Scheduler(config, log), arrivals, log, lag=1)
    return log


def recorded_loop(name: str, place: int) -> Log:
    """A recorded loop of SGLang's."""
    runs = json.loads((GOLDEN / "sglang" / f"{name}.json").read_text(encoding="utf-8"))["runs"]
    return replay_sglang(runs[place]).log


def sentences(**params: Any) -> list[str]:
    """What the chapter's view says of each step."""
    says = find("preemption")(**params)["trace"]["says"]
    return [" ".join(map(plain, each)) for each in accumulate(says, lambda a, b: b or a)]


def main(folder: Path) -> None:
    """Write everything."""
    folder.mkdir(parents=True, exist_ok=True)
    style = palette.css() + HOUSE.read_text(encoding="utf-8") + assets.style() + PAGE_STYLE
    files = {
        "all.css": style,
        assets.SCRIPT: assets.script(),
        assets.WORKER: assets.worker(),
        "index.html": view_page("preemption"),
        "pair.html": view_page("pair"),
        "pair.json": json.dumps([find("pair")(), find("pair")(workload="differ_tie")]),
        "long.html": stored_page("long", long_run()),
        "retraction.html": stored_page("retraction", retraction()),
        "mixed.html": stored_page("mixed", recorded_loop("loop", 43)),
        "lost.html": stored_page("lost", recorded_loop("loop", 64)),
        "expected.json": json.dumps(sentences(blocks=2050)),
    }
    for name, case in STORED.items():
        files[f"{name}.html"] = stored_page(name, replay(load(GOLDEN / f"{case}.json.gz")).log)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copytree(runtime.found(), folder / "pyodide", dirs_exist_ok=True)
    shipping.archive(folder / "kvsched.zip")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
