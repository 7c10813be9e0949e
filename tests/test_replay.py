"""``kvsched replay``: the command line, its files, and the same trace under every policy."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

from kvsched.cli import main
from kvsched.clock import CostClock
from kvsched.conform import document
from kvsched.profiles import load as profile
from kvsched.replay import POLICIES, replay_reserve
from kvsched.reserve import Config
from kvsched.workload.trace import Trace

GOLDEN = Path(__file__).parent / "golden" / "reserve"
HEAD = {"schema": "kvsched-trace-1", "unit": "tick"}
SMALL = ["--block-size", "4", "--blocks", "3", "--token-budget", "8", "--max-rows", "4"]


def arrive(at: int, name: str, prompt: int, output: int) -> dict[str, Any]:
    return {"type": "arrive", "t": at, "id": name, "prompt": prompt, "output": output}


EVENTS = [
    *(arrive(0, "a", 1, 8), arrive(0, "b", 4, 3), arrive(0, "c", 3, 5)),
    {"type": "cancel", "t": 5, "id": "a"},
]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a trace file of these events."""

    def to_file(events: list[dict[str, Any]], **header: Any) -> str:
        path = tmp_path / "trace.jsonl"
        lines = [{**HEAD, **header}, *events]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(path)

    return to_file


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", ["rotation", "drain_blocks", "rand_006", "too_large"])
def test_a_worked_trace_as_a_file_gives_its_records(write: Any, capsys: Any, name: str) -> None:
    content = document.read(GOLDEN / f"{name}.json")
    config = dict(content["config"])
    config["token-budget"] = config.pop("max_tokens")
    options = [f"--{key.replace('_', '-')}={value}" for key, value in config.items()]
    assert main(["replay", write(content["trace"]), "--sort", *options]) == 0
    header, *records = lines(capsys.readouterr().out)
    assert records == content["records"]
    assert (header["schema"], header["unit"]) == ("kvsched-records-1", "tick")
    assert "synthetic" in header["note"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_trace_runs_under_every_policy(write: Any, capsys: Any, policy: str) -> None:
    path = write(EVENTS)
    outputs = []
    for _ in range(2):
        assert main(["replay", path, "--policy", policy, *SMALL]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    header, *records = lines(outputs[0])
    assert header["policy"] == policy
    assert {r["id"] for r in records if "id" in r} == {"a", "b", "c"}
    assert [r["t"] for r in records] == sorted(r["t"] for r in records)


def test_extensions_are_visible_in_the_header(write: Any, capsys: Any) -> None:
    path = write(EVENTS)
    main(["replay", path, *SMALL, "--reserve", "preempt", "--order", "priority"])
    config = lines(capsys.readouterr().out)[0]["config"]
    assert (config["reserve"], config["order"], config["prefix_cache"]) == (
        "preempt",
        "priority",
        False,
    )


def test_explain_reads_the_failures(write: Any, capsys: Any) -> None:
    assert main(["replay", write(EVENTS), *SMALL, "--release-delay", "2", "--explain"]) == 0
    told = capsys.readouterr().out
    assert "t=0: b must wait, and all behind it: 2 + 2 promised > 3" in told
    assert "3 blocks are free: they are promised. This points to credits." in told
    assert "This points to cleanup" in told
    main(["replay", write([arrive(0, "a", 1, 5), arrive(1, "b", 9, 1)]), *SMALL, "--explain"])
    assert "though 2 blocks are free: they are promised" in capsys.readouterr().out
    main(["replay", write([arrive(0, "a", 9, 1), arrive(0, "b", 1, 1)]), *SMALL, "--explain"])
    assert "though 3 blocks are free" in capsys.readouterr().out
    main(["replay", write([arrive(0, "a", 8, 4), arrive(1, "b", 1, 1)]), *SMALL, "--explain"])
    assert "1 + 3 promised > 3, though 1 block is free: it is promised." in capsys.readouterr().out
    events = [arrive(0, name, 1, 3) for name in "ab"]
    main(["replay", write(events), *SMALL, "--token-budget", "1", "--explain"])
    told = capsys.readouterr().out
    assert "b is admitted and not dispatched: the token budget of 1 is spent." in told
    main(["replay", write(events), *SMALL, "--max-rows", "1", "--explain"])
    assert "not dispatched: all 1 rows are taken." in capsys.readouterr().out


def test_explain_tells_a_worked_trace_tick_by_tick(capsys: Any) -> None:
    path = str(GOLDEN / "promised_not_taken.json")
    assert main(["explain", path, "--step", "0", "--request", "b"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 2
    assert told[1].startswith("b must wait, and all behind it: 1 + 2 promised > 2, though 2 blocks")
    main(["explain", path, "--step", "5"])
    assert capsys.readouterr().out == "Nothing is decided at t=5.\n"


def test_compare_puts_reservation_beside_preemption(
    write: Any, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["replay", write(EVENTS), *SMALL, "--compare"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    table = {row[0]: row for row in rows}
    assert set(POLICIES) < set(table)
    assert all(table[policy][1] == "all_done" for policy in POLICIES), "a column was cut off"
    preempted = {policy: table[policy][4] for policy in POLICIES}
    assert preempted["continuous"] == "0"
    assert int(preempted["vllm"]) > 0


def test_a_run_that_gets_stuck_is_seen_in_the_table_and_in_the_exit_status(
    write: Any, capsys: Any
) -> None:
    """SGLang needs a page and a token to spare, and waits for ever for them."""
    path = write([arrive(0, "a", 8, 1)])
    assert main(["replay", path, *SMALL, "--compare"]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {row[0]: row[1] for row in rows[1:]} == {
        "serial": "all_done",
        "continuous": "all_done",
        "vllm": "all_done",
        "sglang": "deadlock",
    }
    assert main(["replay", path, *SMALL, "--policy", "sglang"]) == 1
    assert "deadlock at t=1000: 1 request waits for ever" in capsys.readouterr().err


def test_pandas_reads_the_records(write: Any, capsys: Any) -> None:
    main(["replay", write(EVENTS), *SMALL])
    frame = pandas.read_json(io.StringIO(capsys.readouterr().out), lines=True)
    snapshots = frame[frame.type == "snapshot"]
    assert (snapshots.credits + snapshots.draining <= 3).all()


BAD = {
    "malformed": b'{"schema"',
    "truncated": json.dumps(HEAD).encode() + b'\n{"type": "arrive", "t": 0, "id"',
    "binary": b"\x80\x81\x82",
    "empty": b"",
    "byte-order mark": b"\xef\xbb\xbf" + json.dumps(HEAD).encode(),
    "no header": json.dumps({"type": "cancel", "t": 0, "id": "a"}).encode(),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_trace_writes_no_output(tmp_path: Path, capsys: Any, name: str) -> None:
    trace, output = tmp_path / "trace.jsonl", tmp_path / "out.jsonl"
    trace.write_bytes(BAD[name])
    assert main(["replay", str(trace), "--output", str(output)]) == 2
    assert not output.exists()
    error = capsys.readouterr().err
    assert error.startswith(f"kvsched: {trace}: ")
    assert error.count("\n") == 1


def test_an_error_on_the_last_line_is_found_before_anything_is_written(
    write: Any, tmp_path: Path, capsys: Any
) -> None:
    path = write([*EVENTS, EVENTS[0]])
    before = sorted(tmp_path.iterdir())
    assert main(["replay", path, *SMALL]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "line 6: t: 0 comes after 5; put the lines in order of t, or give --sort" in shown.err
    assert sorted(tmp_path.iterdir()) == before


def test_an_output_that_was_there_is_kept_when_the_run_breaks_off(
    write: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    output = tmp_path / "out.jsonl"
    output.write_text("kept")

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("kvsched.replaying.replay", fails)
    with pytest.raises(RuntimeError):
        main(["replay", write(EVENTS), *SMALL, "--output", str(output)])
    assert output.read_text() == "kept"
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("name", ["", "a" * 300, "trace.jsonl/out", "folder.part/../no/out", "."])
def test_a_place_that_cannot_be_written_is_said_on_one_line(
    write: Any, tmp_path: Path, monkeypatch: Any, capsys: Any, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = write(EVENTS)
    before = sorted(tmp_path.iterdir())
    assert main(["replay", trace, *SMALL, "--output", name]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert sorted(tmp_path.iterdir()) == before


def test_an_output_takes_no_other_files_place(write: Any, tmp_path: Path) -> None:
    target, link, mine = tmp_path / "target", tmp_path / "link", tmp_path / "link.part"
    target.write_text("old")
    link.symlink_to(target)
    mine.write_text("mine")
    assert main(["replay", write(EVENTS), *SMALL, "--output", str(link)]) == 0
    assert link.is_symlink()
    assert '"header"' in target.read_text()
    assert mine.read_text() == "mine"
    assert not list(tmp_path.glob(".*"))


def test_an_output_that_is_no_file_is_written_into(write: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        assert main(["replay", write(EVENTS), *SMALL, "--output", str(pipe)]) == 0
        assert '"header"' in reader.communicate()[0]
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full: Linux only")
@pytest.mark.parametrize("options", [[], ["--explain"], ["--compare"]])
def test_a_full_disk_is_said_on_one_line(write: Any, options: list[str]) -> None:
    command = [sys.executable, "-m", "kvsched.cli", "replay", write(EVENTS), *SMALL, *options]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "kvsched: standard output: No space left on device; give it room\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "vllm", "--reserve", "preempt"], "the vllm twin has no such option"),
        (["--policy", "sglang", "--explain"], "sglang writes events, not records"),
        (["--max-tokens", "many"], "unknown law 'many'"),
        (["--profile", "h100-sxm"], "--profile: a trace in tick"),
        (["--batch-wait", "3"], "--batch-wait: there is no batch to wait for"),
        (["--output", "/nowhere/out"], "--output /nowhere/out: cannot be written"),
        (["--blocks", "99999999999"], "--blocks: 99999999999 is no such count"),
    ],
)
def test_a_bad_option_is_named(write: Any, capsys: Any, options: list[str], message: str) -> None:
    assert main(["replay", write(EVENTS), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_trace_in_ns_needs_a_profile_and_takes_its_times(write: Any, capsys: Any) -> None:
    path = write([arrive(5, "a", 100, 3)], unit="ns")
    assert main(["replay", path]) == 2
    assert "--profile: a trace in ns, and no profile" in capsys.readouterr().err
    assert main(["replay", path, "--profile", "h100-sxm"]) == 0
    header, *records = lines(capsys.readouterr().out)
    assert header["unit"] == "ns"
    assert "note" not in header
    (done,) = [r for r in records if r["type"] == "completed"]
    clock = CostClock(profile("h100-sxm"))
    assert done["t"] > 5 + 3 * clock.base_fs // 10**6


def test_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    """Beside the ids of all requests, a replay of ten times the length takes as much."""
    peaks = []
    for count in (200, 2000):
        path = tmp_path / f"{count}.jsonl"
        events = [json.dumps(arrive(4 * i, f"r{i}", 4, 3)) for i in range(count)]
        path.write_text("\n".join([json.dumps(HEAD), *events]))
        tracemalloc.start()
        replay_reserve(iter(Trace(path)), Config(blocks=64), write=lambda _: None)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 1800 * 400


PEAK = """
import resource, sys
from kvsched.cli import main
status = main(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(status, peak if sys.platform == "darwin" else 1024 * peak)
"""


@pytest.mark.slow
def test_a_hundred_thousand_lines_in_bounded_memory(tmp_path: Path) -> None:
    """Through the command line, to a file; a tenth of the lines is the measure."""
    peaks, output = [], tmp_path / "records.jsonl"
    for count in (10_000, 100_000):
        path = tmp_path / f"{count}.jsonl"
        with path.open("w") as stream:
            stream.write(json.dumps({**HEAD, "events": count}) + "\n")
            stream.writelines(json.dumps(arrive(2 * i, f"r{i}", 4, 3)) + "\n" for i in range(count))
        command = ["replay", str(path), "--blocks", "64", "--output", str(output)]
        done = subprocess.run(
            [sys.executable, "-c", PEAK, *command],
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        )
        status, peak = map(int, done.stdout.split())
        assert status == 0
        peaks.append(peak)
        with output.open() as stream:
            assert sum('"type":"completed"' in line for line in stream) == count
    assert output.stat().st_size > 50 * 10**6
    assert peaks[1] - peaks[0] < 90_000 * 400, "more than the ids is kept"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_sees_a_progress_bar_and_the_records_stay_clean(write: Any) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kvsched.cli", "replay", write(EVENTS), *SMALL]
    env = {**os.environ, "TERM": "xterm", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=env, check=True)
    os.close(theirs)
    shown = os.read(ours, 10**5).decode()
    os.close(ours)
    assert "reading" in shown
    assert "replaying" in shown
    assert all(json.loads(line)["type"] for line in done.stdout.splitlines())
