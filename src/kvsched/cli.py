"""The command line. Each command imports its room when it runs, so that ``--help`` is quick."""

# ruff: noqa: PLC0415, D301
# A \b in a docstring keeps click from folding the lines below it; a raw string would show it.

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsched import __version__
from kvsched.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kvsched.conform import CaseResult

MISMATCH = 1
UNUSABLE = 2
INTERRUPTED = 130
POLICIES = ("serial", "continuous", "vllm", "sglang")


class Finite(click.FloatRange):
    """A number in a range; neither nan nor inf, which click's own lets through."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return int(cli.main(arguments, prog_name="kvsched", standalone_mode=False) or 0)
    except InputError as error:
        click.echo(f"kvsched: {error}", err=True)
        return UNUSABLE
    except OSError as error:
        if error.filename is not None:
            raise
        return _unheard(error)
    except click.Abort:
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        click.echo(f"kvsched: {_usage(error)}", err=True)
        return error.exit_code


def _unheard(error: OSError) -> int:
    """Nobody takes our output; what is still in its buffer goes nowhere, and without a word."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # who reads it has had enough
        return MISMATCH
    click.echo(f"kvsched: standard output: {error.strerror}; give it room", err=True)
    return UNUSABLE


def _usage(error: click.UsageError) -> InputError:
    """What is wrong with a command, on one line, as every other error is said."""
    command = error.ctx.command_path if error.ctx is not None else "kvsched"
    problem = " ".join(error.format_message().split()).rstrip(".")
    return InputError(command, problem[:1].lower() + problem[1:], f"see {command} --help")


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from kvsched import sglang, vllm

    engines = " and ".join(f"{twin.ENGINE} {twin.VERSION}" for twin in (vllm, sglang))
    click.echo(f"kvsched {__version__}, decides as {engines}")
    context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and the engines mirrored.",
)
def cli() -> None:
    """Schedulers of LLM servers that decide exactly as the recorded engines do."""


@cli.command(short_help="Compare with recordings of the engines, field by field.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes to use.  [default: one per core]"
)
def conform(paths: tuple[Path, ...], jobs: int | None) -> int:
    """Replay recordings of a real engine and compare every field of every step.

    PATHS are recordings (.json.gz or .json) or folders that hold some. Printed are the first
    divergence of each case that has one, and totals.

    \b
    Exit status: 0 all cases match, 1 some do not, 2 a file cannot be used.
    Example:     kvsched conform tests/golden
    """
    from kvsched.conform import find
    from kvsched.conform.batch import check_all
    from kvsched.ui import progress

    files = find(paths)
    results: list[CaseResult] = []
    refused = False
    for verdict in list(progress(check_all(files, jobs), "replaying", len(files))):
        if isinstance(verdict, str):
            click.echo(f"kvsched: {verdict}", err=True)
            refused = True
        else:
            results.extend(verdict)
    _report(results)
    if any(result.divergence for result in results):
        return MISMATCH
    return UNUSABLE if refused else 0


@cli.command(short_help="Say what a step of a recording decided, and why.")
@click.argument("case")
@click.option("--step", type=click.IntRange(min=0), help="The step to explain.")
@click.option("--request", metavar="ID", help="Only what concerns this request.")
@click.option(
    "--perfetto",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the whole run as a trace for Perfetto or chrome://tracing.",
)
def explain(case: str, step: int | None, request: str | None, perfetto: Path | None) -> None:
    """Say in sentences what the scheduler decided in one step, and why.

    CASE is a recording, or the name of one below tests/golden. SGLang's files hold many runs:
    loop[3] and loop_overlap[3] are the runs of that place. Its other files record one part of the
    scheduler alone; they are compared, and have no steps to explain. Of a worked trace of the
    reservation simulator, --step is the tick.

    \b
    Example: kvsched explain seed_a_finish6 --step 2 --request D
             kvsched explain 'loop[0]' --step 70
    """
    from kvsched.conform import reserve, resolve
    from kvsched.conform.case import log_of
    from kvsched.explain import explain_log
    from kvsched.explain.reservation import explain_tick

    if step is None and perfetto is None:
        raise click.UsageError("give --step N, --perfetto FILE or both")
    one_of_many = case.endswith("]")
    worked = None if one_of_many else reserve.recognised(resolve(case))
    if step is not None and worked is not None:
        for sentence in explain_tick(*worked, step, request):
            click.echo(sentence)
        return
    if not one_of_many:
        _keep("--perfetto", perfetto, resolve(case))
    log = log_of(case)
    if perfetto is not None:
        from kvsched.perfetto import write

        write(log, perfetto)
    if step is not None:
        for sentence in explain_log(log, step, request):
            click.echo(sentence)


def _replay_options(command: Callable[..., int]) -> Callable[..., int]:
    """The knobs of a replay; the extensions come last and are off by default."""
    count, perhaps = click.IntRange(min=1), click.IntRange(min=0)
    reserve = click.Choice(("whole", "truncate", "preempt"))
    order = click.Choice(("fifo", "priority", "deadline"))
    options = [
        click.option("--policy", type=click.Choice(POLICIES), default="continuous"),
        click.option("--block-size", type=count, default=16, help="Tokens a block holds."),
        click.option("--blocks", type=count, default=1024, help="Usable blocks."),
        click.option("--token-budget", type=count, default=8192, help="Tokens of a dispatch."),
        click.option("--max-rows", type=count, default=256, help="Rows of a dispatch."),
        click.option("--chunk", type=count, help="Prefill tokens of one row.  [default: no limit]"),
        click.option("--release-delay", type=perhaps, default=0, help="Until pages are free."),
        click.option("--reserve", type=reserve, default="whole", help="What admission promises."),
        click.option("--prefix-cache", is_flag=True, help="Share what active requests computed."),
        click.option("--order", type=order, default="fifo", help="Who is first in the queue."),
        click.option("--batch-size", type=perhaps, default=0, help="Admit in batches of so many."),
        click.option("--batch-wait", type=perhaps, default=0, help="How long a batch may form."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@cli.command(
    context_settings={"show_default": True}, short_help="Run a trace of your own; write records."
)
@click.argument("trace", type=click.Path(path_type=Path))
@_replay_options
@click.option(
    "--max-tokens",
    "law",
    metavar="CAP",
    default="exact",
    help="Outputs a client allows: exact, a number, or factor:2 for twice its output.",
)
@click.option("--profile", help="Costs of a device instead of ticks, for a trace in ns.")
@click.option("--sort", is_flag=True, help="Put the lines in order of time, in memory.")
@click.option(
    "--explain",
    "told",
    is_flag=True,
    help="Sentences instead of records; serial and continuous only.",
)
@click.option("--compare", is_flag=True, help="A table of all policies instead of records.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here.")
def replay(trace: Path, told: bool, compare: bool, output: Path | None, **options: Any) -> int:
    """Replay a trace of arrivals and cancellations; write what happened, a record a line.

    TRACE is JSON lines in order of time, as kvsched.workload.trace describes them. For a first
    try, save these three as trace.jsonl:

    \b
    {"schema": "kvsched-trace-1", "unit": "tick"}
    {"type": "arrive", "t": 0, "id": "a", "prompt": 12, "output": 3}
    {"type": "cancel", "t": 5, "id": "a"}

    The simulator (serial, continuous) promises blocks at admission; --reserve truncate or preempt
    promises the prompt alone. The engines' twins get the same pool and budgets.

    \b
    Exit status: 0 every run ended, 1 one got stuck, 2 the trace or an option cannot be used.
    Example:     kvsched replay trace.jsonl --policy serial --blocks 64 --explain
    """
    from kvsched.replaying import read
    from kvsched.ui import print_table

    if compare and (told or output is not None):
        raise InputError("--compare", "prints a table", "leave out --output and --explain")
    _keep("--output", output, trace)
    job = read(trace, **options)
    if compare:
        rows = job.compare()
        print_table(rows)
        return 0 if all(row["run"] == "all_done" for row in rows) else MISMATCH
    return 0 if job.write(output, told) else MISMATCH


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object a row.")
@click.option("--quick", is_flag=True, help="Fewer steps and repeats, for a first look.")
def bench(as_json: bool, quick: bool) -> None:
    """Measure the scheduler's CPU time per step.

    \b
    Example: kvsched bench --json
    """
    from kvsched.bench import rows
    from kvsched.ui import print_table, progress

    measured = list(progress(rows(quick=quick), "measuring"))
    if as_json:
        for row in measured:
            click.echo(json.dumps(row))
    else:
        print_table(measured)


@cli.command()
@click.option(
    "--device",
    type=click.Choice(("cpu", "cuda")),
    help="What to measure.  [default: cuda if there]",
)
@click.option("--quick", is_flag=True, help="Fewer and smaller sizes.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The profile to write.  [default: profiles/NAME-OF-DEVICE.json]",
)
@click.option(
    "--time",
    "seconds",
    type=Finite(min=0.1),
    help="Seconds it may take.  [default: cuda 1800, quick 300; cpu 600, quick 30]",
)
@click.option("--memory", type=Finite(min=0.01), help="GiB of the device it may use.")
def calibrate(
    device: str | None,
    quick: bool,
    out: Path | None,
    seconds: float | None,
    memory: float | None,
) -> None:
    """Measure a device and write its hardware profile; needs torch.

    Timed are Llama-3-8B layers with random weights (whole prompts, the rest of cached ones, decode
    steps), copies to the host and back in pieces of many sizes, and a large multiply and a large
    copy as ceilings: 10 runs each after 3 that do not count. What does not fit the time or the
    memory is made smaller or left out, and the file says so. A CPU's numbers are marked as such.

    Ctrl-C keeps what was measured in OUT.partial; the same command goes on from there. A profile
    in profiles/ can be chosen by its name in chapters 6 and 7 (or in the folder that
    KVSCHED_PROFILES names).

    \b
    Time:    cuda --quick under 6 minutes, cpu --quick under 1
    Example: kvsched calibrate --device cpu --quick --out profiles/mine.json
    """
    from kvsched import device as room
    from kvsched.ui import print_table, progress

    kind = device or ("cuda" if room.has_cuda() else "cpu")
    backend = room.find(kind)
    place = out if out is not None else room.place_of(backend.device)
    session = room.Session(
        backend, "quick" if quick else "full", place, seconds, room.gibibytes(memory)
    )
    click.echo(f"{backend.device}, torch {backend.torch}, driver {backend.driver}", err=True)
    if session.resumed:
        click.echo(f"{session.resumed} results taken over from {session.partial}", err=True)
    try:
        rows = list(progress(session.run(), "measuring", len(session.todo)))
    except KeyboardInterrupt:
        click.echo(f"stopped; {session.partial} has what was measured so far", err=True)
        raise
    profile = session.finish(room.today())
    print_table(rows)
    assert profile.provenance is not None
    for note in profile.provenance.notes:
        click.echo(f"note: {note}")
    click.echo(f"{profile.origin}\nwritten: {click.format_filename(place)}")


def _keep(option: str, output: Path | None, source: Path) -> None:
    """Refuse to write over what is read."""
    try:
        same = output is not None and output.samefile(source)
    except OSError:  # one of them is not there, or cannot be: who opens it says so
        return
    if same:
        raise InputError(f"{option} {output}", "this is the input itself", "name another file")


def _report(results: Iterable[CaseResult]) -> None:
    """Print the divergences and the totals of each engine."""
    engines: dict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        engines[result.engine].append(result)
        if result.divergence is not None:
            click.echo(f"{result.name} ({click.format_filename(result.path)}) differs first at")
            click.echo("".join(f"  {line}\n" for line in result.divergence.text().splitlines()))
    for engine, cases in sorted(engines.items()):
        matching = sum(case.divergence is None for case in cases)
        click.echo(f"{engine}: {matching} of {len(cases)} cases match")


if __name__ == "__main__":
    sys.exit(main())
