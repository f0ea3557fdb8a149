"""No text of a log, what agents read, wrote and called, reaches any output; labels alone do.

A mark is put at the end of every text of every format's sample: prompts, answers, arguments,
observations, errors, names of files, descriptions. A label is a name (of a task, agent, model,
scorer or tool), a command's first word, or a key; it is left as it is.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hostile.logs import run
from hostile.test_reader_properties import DATA, Sample, changed, members_of, samples
from sojourn.readers.base import READERS

pytestmark = pytest.mark.thorough

MARK = "xcanaryx"
# What stands below a key of such a name is text, all of it but labels.
TEXTS = re.compile(
    r"content|text|prompt|answer|arguments?|observation|outputs?|inputs?|messages?|thought|"
    r"reasoning|response|stdout|stderr|patch|diff|description|explanation|comment|instruction|"
    r"question|query|traceback|exception|error|statement|goal",
    re.IGNORECASE,
)
# Labels by the name of their key, though they may look like texts.
LABELS = re.compile(
    r"(?:.*[._])?(?:\w*ids?|name|eval_output_dir|model|agent|type|kind|role|status|time|date|\w*_at|timestamp|version|"
    r"created|task|scorer|metric|key|outcome|success|end|tool|recipient|source|func|function|"
    r"operation|method|epoch|exit_status|state|reason|termination_reason|category|domain|split)",
    re.IGNORECASE,
)


def mark(value: Any, key: str = "", *, inside: bool = False) -> tuple[Any, int]:
    """Return a document with the mark in all its texts, and how many they are."""
    inside = inside or TEXTS.search(key) is not None
    if isinstance(value, dict):
        pairs = {name: mark(each, name, inside=inside) for name, each in value.items()}
        return {k: new for k, (new, _) in pairs.items()}, sum(n for _, n in pairs.values())
    if isinstance(value, list):
        found = [mark(each, key, inside=inside) for each in value]
        return [new for new, _ in found], sum(n for _, n in found)
    if not isinstance(value, str):
        return value, 0
    if value[:1] in ("{", "["):  # JSON inside a text
        try:
            new, n = mark(json.loads(value), key, inside=inside)
        except ValueError:
            pass
        else:
            return json.dumps(new), n
    if LABELS.fullmatch(key) or not (inside or " " in value.strip()):
        return value, 0
    return f"{value} {MARK} {MARK}", 1


def mark_file(path: Path) -> tuple[bytes, int]:
    """Return a file with the mark in all its texts, and how many they are."""
    data = path.read_bytes()
    if data.startswith(b"PK\x03\x04"):
        out, total = io.BytesIO(), 0
        with zipfile.ZipFile(out, "w") as new:
            for name, text in members_of(path).items():
                marked, n = mark_text(text)
                new.writestr(name, marked)
                total += n
        return out.getvalue(), total
    return mark_text(data)


def mark_text(data: bytes) -> tuple[bytes, int]:
    try:
        document, n = mark(json.loads(data))
        return json.dumps(document).encode(), n
    except ValueError:
        pass
    try:
        lines = [mark(json.loads(line)) for line in data.splitlines() if line.strip()]
    except ValueError:
        return data, 0
    return b"\n".join(json.dumps(new).encode() for new, _ in lines) + b"\n", sum(
        n for _, n in lines
    )


# Tables of our own hold labels and numbers, no text.
OWN = {"session-table", "sojourn-jsonl", "sojourn-parquet", "table"}
CASES = [
    pytest.param(name, sample, file, id=f"{name}-{file.relative_to(DATA)}")
    for name in READERS
    if name not in OWN
    for sample in samples()[name]
    for file in sample.files
]


def outputs_of(path: Path, name: str, out: Path) -> str:
    """Return all that the commands write about a source."""
    kind = "sessions" if name == "agbenchmark" or name == "dynamic-cheatsheet" else "traces"
    source = (path, "--format", name)
    for form in ("jsonl", "parquet"):
        run("convert", *source, "-o", out / f"a.{form}", "--as", kind)
    run("validate", *source, "--as", kind)
    run("assess", "--dry-run", *source)
    if kind == "traces":
        files = ("--html", out / "a.html", "--json", out / "a.json")
        run("assess", *source, *files, "--no-chain", "--resamples", 99)
    texts = [each.read_bytes().decode("utf-8", "replace") for each in sorted(out.iterdir())]
    return "\n".join(texts)


@pytest.mark.parametrize(("name", "sample", "file"), CASES)
def test_no_text_reaches_an_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, sample: Sample, file: Path
) -> None:
    data, n_texts = mark_file(file)
    if not n_texts:
        pytest.skip("no text in this file")
    with changed(sample, file, data) as path:
        written = outputs_of(path, name, tmp_path)
    shown = capsys.readouterr()
    for text in (written, shown.out, shown.err):
        assert MARK not in text, re.findall(rf".{{0,80}}{MARK}", text)[:3]


def test_most_samples_have_texts_to_mark() -> None:
    with_text = {case.values[0] for case in CASES if mark_file(case.values[2])[1]}  # type: ignore[arg-type]
    # A Parquet file is no JSON; the others hold verdicts and labels only.
    without = {"inspect-scout", "agbenchmark", "metr-runs", "swe-bench-report", "every-eval-ever"}
    assert with_text >= set(READERS) - OWN - without


def test_texts_of_errors_and_skips_are_not_echoed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in READERS:
        sample = samples()[name][0]
        for number, text in enumerate(
            (
                f'{{"a": "{MARK}" "b"}}',
                f'[{{"task_id": {{"{MARK}": 1}}}}]',
                f"{MARK}\n{MARK}",
                f'"{MARK}"',
            )
        ):
            with changed(sample, sample.files[0], text.encode()) as path:
                run("assess", path, "--format", name, "--no-chain", "--resamples", 99)
            shown = capsys.readouterr()
            # A name of a column or a key is told, to say how it could be meant; a value is not.
            told = re.sub(
                r"(?:columns? (?:are|is)|keys? (?:are|is)|the key|column) .*", "", shown.err
            )
            assert MARK not in told + shown.out, (name, number, told)
