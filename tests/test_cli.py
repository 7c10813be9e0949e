"""The command line: what it prints where, and its exit status."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kvsched import __version__, sglang, vllm
from kvsched.cli import cli, main
from kvsched.conform import check

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parent / "golden" / "vllm"
SGLANG = Path(__file__).parent / "golden" / "sglang"
MATCHING = GOLDEN / "exact_fit.json.gz"
OTHER = GOLDEN / "one_token_each.json.gz"
COMMAND = [sys.executable, "-m", "kvsched.cli"]


def altered(folder: Path, field: str, value: object, name: str = "altered.json") -> Path:
    """A copy of a matching recording with another value in a top-level field or in a step."""
    document = json.loads(gzip.decompress(MATCHING.read_bytes()))
    target = document if field in document else document["trace"][1]
    target[field] = value
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)


class TestConform:
    """`kvsched conform`: divergences and totals on standard output, refusals on standard error."""

    def test_matching_cases(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["conform", str(MATCHING), str(OTHER)]) == 0
        assert capsys.readouterr() == ("vllm: 2 of 2 cases match\n", "")

    def test_a_mismatch_shows_the_first_divergence(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        wrong = altered(tmp_path, "free_crc", 7)
        assert main(["conform", str(wrong), str(MATCHING)]) == 1
        out, err = capsys.readouterr()
        divergence = check(wrong).divergence
        assert divergence is not None
        assert (divergence.step, divergence.field, divergence.expected) == (1, "free_crc", 7)
        first, *state, total = out.splitlines()
        assert first == f"exact_fit ({wrong}) differs first at"
        assert "\n".join(line.removeprefix("  ") for line in state).strip() == divergence.text()
        assert total == "vllm: 1 of 2 cases match"
        assert err == ""

    def test_an_unusable_file_does_not_hide_the_rest(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["conform", str(tmp_path / "nope.json"), str(MATCHING)]) == 2
        out, err = capsys.readouterr()
        assert out == "vllm: 1 of 1 cases match\n"
        assert err == (
            f"kvsched: {tmp_path}/nope.json: cannot be read (No such file or directory); "
            "check the path\n"
        )

    def test_a_mismatch_outweighs_an_unusable_file(self, tmp_path: Path) -> None:
        assert main(["conform", str(altered(tmp_path, "free", 1)), str(tmp_path / "nope")]) == 1

    def test_config_values_are_judged(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        config = json.loads(gzip.decompress(MATCHING.read_bytes()))["config"]
        for name, value in {"watermark": 1.0, "num_gpu_blocks": 1, "max_num_sequences": 4}.items():
            path = altered(tmp_path, "config", {**config, name: value})
            assert main(["conform", str(path)]) == 2
            out, err = capsys.readouterr()
            assert out == ""
            assert err.startswith(f"kvsched: {path}: config")
            assert name in err
            assert err.count("\n") == 1

    def test_processes_answer_in_the_same_order(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        paths = [
            altered(tmp_path, "free", 1, "a.json"),
            altered(tmp_path, "vllm", "", "b.json"),
            MATCHING,
            altered(tmp_path, "cached", 99, "c.json"),
        ]
        outputs = []
        for jobs in ("1", "2"):
            assert main(["conform", "--jobs", jobs, *map(str, paths)]) == 1
            outputs.append(capsys.readouterr())
        assert outputs[0] == outputs[1]
        assert outputs[0].out.endswith("vllm: 1 of 3 cases match\n")
        assert "b.json: vllm: found" in outputs[0].err

    def test_a_progress_bar_only_on_a_terminal(self) -> None:
        assert run("conform", MATCHING).stderr == ""
        bar = shown_on_a_terminal([*COMMAND, "conform", str(MATCHING)])
        assert "replaying" in bar
        assert "1/1" in bar


class TestExplain:
    """`kvsched explain`: sentences on standard output."""

    def test_a_step_of_a_case_by_path(self, capsys: pytest.CaptureFixture[str]) -> None:
        path = str(GOLDEN / "seed_a_finish6.json.gz")
        assert main(["explain", path, "--step", "1"]) == 0
        everyone = capsys.readouterr().out.splitlines()
        assert len(everyone) > 1
        assert main(["explain", path, "--step", "1", "--request", "D"]) == 0
        only = capsys.readouterr().out.splitlines()
        assert only
        assert set(only) < set(everyone)

    def test_a_case_by_name(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(Path(__file__).parents[1])
        assert main(["explain", "exact_fit", "--step", "0"]) == 0
        assert capsys.readouterr().out

    def test_a_run_of_sglang_by_its_place_in_the_file(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(Path(__file__).parents[1])
        assert main(["explain", "loop_overlap[2]", "--step", "65", "--request", "2"]) == 0
        assert "request 2 is retracted" in capsys.readouterr().out

    @pytest.mark.parametrize("case", ["exact_fit", "loop[0]"])
    def test_away_from_a_clone_a_name_says_what_to_do(
        self,
        case: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert main(["explain", case, "--step", "0"]) == 2
        err = capsys.readouterr().err
        assert "a case of tests/golden, and that folder is not here; run it in the root" in err
        assert err.endswith("or give a recording's path\n")

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            (["no_such_case", "--step", "0"], '"no_such_case"'),
            ([str(MATCHING), "--step", "999"], "999"),
            ([str(MATCHING), "--step", "0", "--request", "nobody"], "nobody"),
            ([f"{SGLANG / 'loop.json'}", "--step", "0"], "give one of loop[0] to loop[64]"),
            ([f"{SGLANG / 'loop.json'}[65]", "--step", "0"], "no run 65"),
            ([f"{SGLANG / 'adder.json'}[3]", "--step", "0"], "have no steps"),
            ([f"{MATCHING}[3]", "--step", "0"], "a recording of vLLM is one case"),
        ],
    )
    def test_what_is_not_there(
        self, arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["explain", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("kvsched: ")
        assert named in err
        assert err.count("\n") == 1


class TestBench:
    """`kvsched bench`: one row a measurement."""

    ROWS = (
        {"name": "decode", "running": 16, "us_per_step": 30.5, "us_per_request_step": 1.9},
        {"name": "preempt", "running": 8, "us_per_step": 99.0, "us_per_request_step": 12.4},
    )

    @pytest.fixture(autouse=True)
    def _measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def rows(quick: bool = False) -> Iterator[dict[str, Any]]:
            yield from self.ROWS[: 1 if quick else None]

        monkeypatch.setattr("kvsched.bench.rows", rows)

    def test_json_is_one_object_a_row(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bench", "--json"]) == 0
        assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [*self.ROWS]

    def test_quick(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bench", "--json", "--quick"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1

    def test_otherwise_a_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bench"]) == 0
        head, *rows = capsys.readouterr().out.splitlines()
        assert head.split() == [*self.ROWS[0]]
        assert [row.split() for row in rows] == [[*map(str, r.values())] for r in self.ROWS]


class TestAround:
    """Help, versions, and every way out."""

    def test_version_names_the_engines_mirrored(self) -> None:
        result = CliRunner().invoke(cli, ["--version"])
        engines = f"vllm {vllm.VERSION} and sglang {sglang.VERSION}"
        assert result.output == f"kvsched {__version__}, decides as {engines}\n"
        assert result.exit_code == 0

    @pytest.mark.parametrize("command", ["bench", "calibrate", "conform", "explain", "replay"])
    def test_each_command_helps_with_an_example(self, command: str) -> None:
        result = CliRunner().invoke(cli, [command, "--help"])
        assert result.exit_code == 0
        lines = [line.strip() for line in result.output.splitlines()]
        (example,) = [line for line in lines if line.startswith("Example:")]
        assert f" kvsched {command} " in example

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["nope"], "no such command 'nope'"),
            (["conform"], "missing argument 'PATHS...'"),
            (["conform", "--bad"], "no such option '--bad'"),
            (["explain", "x"], "give --step N, --perfetto FILE or both"),
            (["explain", "x", "--step", "-1"], "invalid value for '--step': -1 is not in"),
            (["replay", "x", "--policy", "y"], "invalid value for '--policy': 'y' is not one of"),
            (["bench", "--quick=3"], "option '--quick' does not take a value"),
        ],
    )
    def test_wrong_usage_is_one_line_with_a_way_out(
        self, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("kvsched: kvsched")
        assert said in err
        assert err.endswith("--help\n")
        assert err.count("\n") == 1

    def test_no_command_is_a_call_for_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([]) == 2
        assert capsys.readouterr().err.startswith("Usage: kvsched [OPTIONS] COMMAND")

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--max-tokens", "some"], "--max-tokens: unknown law 'some'; "),
            (
                ["--batch-wait", "3"],
                "--batch-wait: there is no batch to wait for; give --batch-size",
            ),
            (["--token-budget", str(2**31)], "--token-budget: 2147483648 is no such count; "),
            (["--policy", "vllm", "--prefix-cache"], "--prefix-cache: the vllm twin has no such"),
            (
                ["--policy", "sglang", "--blocks", str(2**31 - 1)],
                "--policy sglang: --blocks times --block-size: 34359738352 is not between",
            ),
        ],
    )
    def test_an_option_is_called_as_it_was_given(
        self, options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        trace = tmp_path / "trace.jsonl"
        trace.write_text('{"schema": "kvsched-trace-1", "unit": "tick"}\n')
        assert main(["replay", str(trace), *options]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"kvsched: {said}")

    def test_a_file_called_like_a_field_keeps_its_name(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert main(["replay", "blocks"]) == 2
        assert capsys.readouterr().err.startswith("kvsched: blocks: cannot be read")

    def test_help_loads_no_other_room(self) -> None:
        code = "import sys, kvsched.cli; print([m for m in sys.modules if m.startswith('kvsched')])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert done.stdout.split() == b"['kvsched', 'kvsched.errors', 'kvsched.cli']".split()

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("corrupt.json.gz", MATCHING.read_bytes()[:500]),
            ("binary.json", bytes(range(256))),
            ("text.json", b"# not a recording"),
            ("reserve.json", b'{"format": "reserve-1"}'),
        ],
    )
    def test_bad_input_is_one_line_and_status_2(
        self, tmp_path: Path, name: str, content: bytes
    ) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        done = run("explain", path, "--step", "0")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"kvsched: {path}: ")
        assert done.stderr.count("\n") == 1

    @pytest.mark.parametrize("link", [False, True])
    def test_what_is_read_is_not_written_over(self, tmp_path: Path, link: bool) -> None:
        trace = tmp_path / "trace.jsonl"
        text = '{"schema": "kvsched-trace-1", "unit": "tick"}\n'
        trace.write_text(text)
        case = tmp_path / MATCHING.name
        case.write_bytes(MATCHING.read_bytes())
        for command, option, path in (
            (["replay"], "--output", trace),
            (["explain"], "--perfetto", case),
        ):
            output = path
            if link:
                output = tmp_path / f"link-{path.name}"
                output.symlink_to(path)
            before = path.read_bytes()
            done = run(*command, path, option, output)
            assert (done.returncode, done.stdout) == (2, "")
            said = f"kvsched: {option} {output}: this is the input itself; name another file\n"
            assert done.stderr == said
            assert path.read_bytes() == before

    def test_a_trace_given_to_explain_is_told_its_command(self) -> None:
        done = run("explain", "folder/trace.jsonl", "--step", "0")
        assert done.returncode == 2
        fix = "give a recording, or use kvsched replay with --explain"
        assert done.stderr.endswith(f": a trace by its name, no recording; {fix}\n")

    def test_a_comparison_takes_no_other_output(self, tmp_path: Path) -> None:
        for option in ("--explain", f"--output={tmp_path / 'out'}"):
            done = run("replay", tmp_path / "trace.jsonl", "--compare", option)
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr.startswith("kvsched: --compare: prints a table")

    def test_ctrl_c(self) -> None:
        """Pressed as soon as the bar is seen, however long the start takes."""
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            [*COMMAND, "conform", GOLDEN, "--jobs", "2"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(theirs)
        bar = os.read(ours, 1)
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, b"")
        assert "Traceback" not in (bar + rest(ours)).decode()

    def test_a_reader_that_goes_away(self) -> None:
        process = subprocess.Popen(
            [*COMMAND, "conform", MATCHING], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(30) == 1
        assert process.stderr is not None
        with process.stderr as stderr:
            assert stderr.read() == b""


def shown_on_a_terminal(command: list[str]) -> str:
    """What the command writes to a standard error that is a terminal."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment, check=True)
    os.close(theirs)
    return rest(ours).decode()


def rest(terminal: int) -> bytes:
    """What is left to read of a terminal nobody writes to any more; closes it."""
    with os.fdopen(terminal, "rb", buffering=0) as file:
        pieces = []
        try:
            while piece := file.read(65536):
                pieces.append(piece)
        except OSError:  # Linux says so where others say end of file
            pass
    return b"".join(pieces)
