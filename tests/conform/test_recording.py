"""Reading recordings: what is in them, where they are found, and how bad ones are refused."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvsched.conform import document
from kvsched.conform.recording import find, load, resolve
from kvsched.errors import InputError

GOLDEN = Path(__file__).parents[1] / "golden" / "vllm"
SMALL = GOLDEN / "abort_same_step_as_arrival.json.gz"
BYTES = SMALL.read_bytes()
FIRST: dict[str, Any] = json.loads(gzip.decompress(BYTES))

# Written by hand: a step of each kind, and every field the second format adds.
SECOND: dict[str, Any] = json.loads((Path(__file__).parent / "second_format.json").read_text())


def write(folder: Path, document: object, name: str = "case.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def step_into(path: str) -> list[str | int]:
    """``requests[0].id`` as the keys that lead there."""
    return [
        int(index) if index else name for name, index in re.findall(r"\.?(\w+)|\[(\d+)\]", path)
    ]


def changed(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with another value at the path."""
    document = json.loads(json.dumps(document))
    *above, last = step_into(path)
    target: Any = document
    for key in above:
        target = target[key]
    target[last] = value
    return document


def without(document: dict[str, Any], path: str) -> dict[str, Any]:
    """A copy that lacks the field at the path."""
    document = json.loads(json.dumps(document))
    *above, last = step_into(path)
    target: Any = document
    for key in above:
        target = target[key]
    del target[last]
    return document


def refusal(path: Path) -> InputError:
    """The error ``load`` raises, which must be one printable line that names the file."""
    with pytest.raises(InputError) as caught:
        load(path)
    error = caught.value
    assert str(error).isprintable()
    assert error.place.startswith(str(path))
    assert error.problem
    assert error.fix
    return error


class TestWhatIsRead:
    """A recording says what its file says."""

    def test_a_recording_keeps_the_words_of_its_file(self) -> None:
        recording = load(SMALL)
        assert recording.path == SMALL
        assert (recording.engine, recording.version) == ("vllm", "0.28.0")
        for field in ("format", "name", "category", "note", "config", "requests", "max_idle"):
            assert getattr(recording, field) == FIRST[field]
        assert (recording.summary, recording.trace) == (FIRST["summary"], FIRST["trace"])
        assert recording.facts == {}

    def test_first_format_aborts_become_events(self) -> None:
        assert load(SMALL).events == [{"step": 1, "op": "abort", "id": "B", "when": "pre"}]

    def test_second_format_events_say_when(self, tmp_path: Path) -> None:
        recording = load(write(tmp_path, SECOND))
        assert [event["when"] for event in recording.events] == ["pre", "mid", "pre", "pre", "pre"]
        assert recording.facts == {"scheduler": "AsyncScheduler"}

    def test_plain_json_is_read_like_gzip(self, tmp_path: Path) -> None:
        assert load(write(tmp_path, FIRST)).trace == load(SMALL).trace


class TestFieldsOutOfTheFormat:
    """Each is refused with the path of the field and the value found there."""

    @pytest.mark.parametrize(
        ("field", "value", "found"),
        [
            ("requests[2].prompt[0][1]", 0, "found 0"),
            ("requests[2].prompt[0][1]", True, "found true"),
            ("requests[2].prompt[0][1]", 10**18, "found 1000000000000000000"),
            ("requests[2].prompt[0][0]", -1, "found -1"),
            ("requests[2].prompt[0]", [1], "found a list of 1"),
            ("requests[0].prompt", [], "found a list of 0"),
            ("requests[0].max_tokens", 0, "found 0"),
            ("requests[0].max_tokens", 2.0, "found 2.0"),
            ("requests[0].arrival_step", -1, "found -1"),
            ("requests[0].arrival_time", "0", 'found "0"'),
            ("requests[0].priority", None, "found null"),
            ("requests[0].id", "", 'found ""'),
            ("requests[0].id", "two\nlines", 'found "two\\nlines"'),
            ("requests[0].id", 7, "found 7"),
            ("requests[1].id", FIRST["requests"][0]["id"], "the id of requests[0]"),
            ("requests[1]", None, "found null"),
            ("aborts[0].step", -1, "found -1"),
            ("aborts", {}, "found an object of 0"),
            ("config", [], "found a list of 0"),
            ("max_idle", 0, "found 0"),
            ("max_steps", 10**12, "found 1000000000000"),
            ("summary.stop", "tired", 'found "tired"'),
            ("summary.steps", True, "found true"),
            ("note", "\x1b[31m", "found"),
            ("vllm", 0.28, "found 0.28"),
            ("trace", [], "found a list of 0"),
            ("trace[3].step", 4, "found 4"),
            ("trace[1].free", False, "found false"),
            ("trace[1].sched[0][1]", True, "found true"),
            ("trace[1].running[0]", 3, "found 3"),
            ("trace[1].live.A", ["RUNNING", 1, 2], "found a list of 3"),
            ("trace[1].blocks", [], "found a list of 0"),
            ("trace[1].ev[0]", "add", 'found "add"'),
        ],
    )
    def test_of_the_first(self, tmp_path: Path, field: str, value: object, found: str) -> None:
        path = write(tmp_path, changed(FIRST, field, value))
        error = refusal(path)
        assert error.place == f"{path}: {field}"
        assert found in error.problem

    @pytest.mark.parametrize(
        ("field", "value", "found"),
        [
            ("requests[0].grammar.ready", "soon", 'found "soon"'),
            ("requests[0].grammar.error", 0, "found 0"),
            ("requests[0].remote.tokens", -1, "found -1"),
            ("requests[0].remote.fail[0]", 1.5, "found 1.5"),
            ("requests[0].stop.repetition", [1, 2], "found a list of 2"),
            ("requests[0].drafts", [], "found a list of 0"),
            ("events[0].op", "restart", 'found "restart"'),
            ("events[0].when", "post", 'found "post"'),
            ("events[1].state", "some", 'found "some"'),
            ("events[2].id", "nobody", 'found "nobody"'),
            ("events[3].id", "nobody", 'found "nobody"'),
            ("events[2].prompt[0][1]", 0, "found 0"),
            ("facts", None, "found null"),
            ("trace[0].scheduled", 1, "found 1"),
            ("trace[0].kv_ask[0][2]", "4", 'found "4"'),
            ("trace[0].kv_load[0][3]", 1, "found 1"),
            ("trace[0].kv_done.invalid[0]", "1", 'found "1"'),
            ("trace[0].finished[0][2]", 1.0, "found 1.0"),
            ("trace[1].live_end.a[8]", None, "found null"),
            ("summary.finished.stop", "1", 'found "1"'),
        ],
    )
    def test_of_the_second(self, tmp_path: Path, field: str, value: object, found: str) -> None:
        path = write(tmp_path, changed(SECOND, field, value))
        error = refusal(path)
        assert error.place == f"{path}: {field}"
        assert found in error.problem

    @pytest.mark.parametrize(
        ("document", "field"),
        [
            (FIRST, "requests[0].prompt"),
            (FIRST, "requests[0].max_tokens"),
            (FIRST, "trace[0].sched"),
            (FIRST, "aborts"),
            (FIRST, "summary.phantom"),
            (SECOND, "facts"),
            (SECOND, "events[0].op"),
            (SECOND, "events[0].step"),
            (SECOND, "requests[0].remote.tokens"),
            (SECOND, "trace[0].live"),
            (SECOND, "trace[0].emitted"),
            (SECOND, "trace[0].scheduled"),
        ],
    )
    def test_a_missing_one(self, tmp_path: Path, document: dict[str, Any], field: str) -> None:
        path = write(tmp_path, without(document, field))
        above, _, name = field.rpartition(".")
        error = refusal(path)
        assert error.place == (f"{path}: {above}" if above else str(path))
        assert error.problem == f'no field "{name}"'

    @pytest.mark.parametrize(
        ("document", "field"),
        [
            (FIRST, "requests[0].grammar"),
            (FIRST, "events"),
            (SECOND, "trace[0].xyz"),
            (SECOND, "trace[1].sched"),
            (SECOND, "trace[1].emitted"),
            (SECOND, "events[0].id"),
        ],
    )
    def test_an_unknown_one(self, tmp_path: Path, document: dict[str, Any], field: str) -> None:
        error = refusal(write(tmp_path, changed(document, field, [])))
        assert error.problem == f'unknown field "{field.rpartition(".")[2]}"'
        assert error.fix == "remove it"

    def test_a_misspelt_one(self, tmp_path: Path) -> None:
        document = changed(without(FIRST, "requests[0].max_tokens"), "requests[0].max_token", 1)
        error = refusal(write(tmp_path, document))
        assert error.problem == 'unknown field "max_token"'
        assert error.fix == 'write "max_tokens"'

    def test_a_prompt_of_absurd_length(self, tmp_path: Path) -> None:
        runs = [[0, 6_000_000], [0, 6_000_000]]
        error = refusal(write(tmp_path, changed(FIRST, "requests[0].prompt", runs)))
        assert error.place.endswith("requests[0].prompt")
        assert error.problem == "12000000 tokens"

    def test_a_step_left_out(self, tmp_path: Path) -> None:
        error = refusal(write(tmp_path, without(FIRST, "trace[2]")))
        assert error.place.endswith("trace[2].step")
        assert error.fix == "write 2: steps run 0, 1, 2, ... without gaps"

    @pytest.mark.parametrize("format_", ["vllm-golden-3", "reserve-1", None, ["vllm-golden-1"]])
    def test_another_format(self, tmp_path: Path, format_: object) -> None:
        error = refusal(write(tmp_path, changed(FIRST, "format", format_)))
        assert error.place.endswith(": format")
        assert error.fix == 'give a recording in "vllm-golden-1" or "vllm-golden-2"'

    def test_no_format(self, tmp_path: Path) -> None:
        assert refusal(write(tmp_path, {"trace": []})).problem == "no such field"

    def test_values_of_config_are_left_to_the_engine(self, tmp_path: Path) -> None:
        path = write(tmp_path, changed(FIRST, "config", {"watermark": 7}))
        assert load(path).config == {"watermark": 7}


class TestFilesThatAreNoRecording:
    """Each is refused in one line that says why."""

    @pytest.mark.parametrize(
        ("name", "content", "problem"),
        [
            ("a.json", b"", "empty"),
            ("a.json.gz", b"", "empty"),
            ("a.json.gz", BYTES[:-300], "gzip data that stops early"),
            ("a.json.gz", BYTES[:-8] + b"\0" + BYTES[-7:], "corrupt gzip data (CRC check failed"),
            ("a.json.gz", BYTES[:40] + b"\xff" * 40 + BYTES[80:], "corrupt gzip data"),
            ("a.json.gz", b"{}", "corrupt gzip data (Not a gzipped file"),
            ("a.json", BYTES, "gzip data in a file not named .gz"),
            ("a.json", b"\x89PNG\r\n", "not UTF-8 text (0x89)"),
            ("a.json", b"\xef\xbb\xbf{}", "not JSON (Unexpected UTF-8 BOM"),
            ("a.json", b'{"format":', "not JSON (Expecting value)"),
            ("a.json", b"[]", "found a list of 0"),
            ("a.json", b'"vllm-golden-1"', 'found "vllm-golden-1"'),
            ("a.json", b'{"max_idle": NaN}', "NaN is not a JSON number"),
            ("a.json", b'{"max_idle": -Infinity}', "-Infinity is not a JSON number"),
            ("a.json", b'{"max_idle": 1e999}', "number 1e999"),
            ("a.json", b'{"a": {"id": 1, "id": 2}}', 'key "id" twice in one object'),
            ("a.json", b'{"name": "\\ud800"}', "half a surrogate pair ('\\ud800')"),
            ("a.json", b"[" * 200_000, "nested too deeply"),
            ("a.json", b"9" * 5000, "an integer of thousands of digits"),
        ],
    )
    def test_are_refused(self, tmp_path: Path, name: str, content: bytes, problem: str) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        assert refusal(path).problem.startswith(problem)

    def test_a_syntax_error_has_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text('{\n  "format": ,\n}')
        assert refusal(path).place == f"{path}: line 2 column 13"

    def test_a_missing_file(self, tmp_path: Path) -> None:
        assert "No such file" in refusal(tmp_path / "nope.json.gz").problem

    def test_a_folder(self, tmp_path: Path) -> None:
        assert refusal(tmp_path).problem == "a folder without recordings"

    def test_a_device(self) -> None:
        assert refusal(Path("/dev/zero")).problem == "not a regular file"

    @pytest.mark.parametrize("name", ["bomb.json", "bomb.json.gz"])
    def test_more_text_than_the_limit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setattr(document, "MAX_BYTES", 1000)
        path = tmp_path / name
        path.write_bytes(gzip.compress(b" " * 10**7) if name.endswith("gz") else b" " * 1001)
        assert refusal(path).problem == "more than 1000 bytes of text"

    def test_a_name_that_does_not_print(self, tmp_path: Path) -> None:
        with pytest.raises(InputError) as caught:
            load(tmp_path / "two\nlines.json")
        assert str(caught.value).isprintable()


class TestFinding:
    """Files and folders become a list of files."""

    def test_folders_give_their_recordings_sorted(self, tmp_path: Path) -> None:
        (tmp_path / "b").mkdir()
        for name in ("c.json.gz", "b/d.json", "a.json", "index.json", "FORMAT.md", "b/index.json"):
            (tmp_path / name).touch()
        expected = [tmp_path / name for name in ("a.json", "b/d.json", "c.json.gz")]
        assert find([tmp_path]) == expected
        assert find([str(tmp_path / "c.json.gz"), tmp_path]) == [expected[2], *expected[:2]]

    def test_what_cannot_be_expanded_is_kept(self, tmp_path: Path) -> None:
        paths = [tmp_path / "nope.json", tmp_path]
        assert find(paths) == paths

    def test_the_committed_set(self) -> None:
        index = json.loads((GOLDEN / "index.json").read_text())
        names = [path.name.removesuffix(".json.gz") for path in find([GOLDEN])]
        assert sorted(names) == sorted(entry["name"] for entry in index)


class TestResolvingACase:
    """A path is taken as it is, a name is looked up."""

    @pytest.fixture(autouse=True)
    def _golden(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("one/chunked.json.gz", "one/twice.json.gz", "two/twice.json"):
            path = tmp_path / "tests" / "golden" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        monkeypatch.chdir(tmp_path)

    def test_by_name(self) -> None:
        assert resolve("chunked") == Path("tests/golden/one/chunked.json.gz")

    @pytest.mark.parametrize("path", ["other.json", "a/b", "other.json.gz"])
    def test_by_path(self, path: str) -> None:
        assert resolve(path) == Path(path)

    def test_a_near_miss_is_named(self) -> None:
        with pytest.raises(InputError, match="near it: chunked"):
            resolve("chunkd")

    def test_an_unknown_name(self) -> None:
        with pytest.raises(InputError, match="no case of this name in tests/golden"):
            resolve("zzz")

    def test_a_name_two_cases_bear(self) -> None:
        with pytest.raises(InputError, match=r"one/twice\.json\.gz, .*two/twice\.json"):
            resolve("twice")

    def test_without_recordings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "empty").mkdir()
        monkeypatch.chdir(tmp_path / "empty")
        with pytest.raises(InputError, match="that folder is not here; run it in the root"):
            resolve("chunked")
