"""Coverage-guided fuzzing of every reader: what it makes of a hostile log is records or an error.

    python -m pip install atheris
    python fuzz/readers.py --minutes 30            # every format, one after the other
    python fuzz/readers.py --minutes 2 --only otel
    python fuzz/readers.py --replay findings/otel-....bin

An input is two bytes that choose a file of the sample and how it is read, then that file's bytes.
What counts as a finding: an exception that is no error of ours, a run that fails its own checks or
does not survive being written and read, a reading that takes over two seconds.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "tests" / "data"
SOURCE = HERE.parent / "src" / "sojourn"
SECONDS = 2.0
MAX_BYTES = 1 << 16
sys.path.insert(0, str(HERE))


class Target(NamedTuple):
    """A sample, the files of it that are changed, and what reads it."""

    name: str
    sample: Path
    files: list[Path]
    modules: list[Path]


def targets() -> dict[str, Target]:
    """Return every folder of samples, and each file of our own forms by itself."""
    found: dict[str, Target] = {}
    readers = {path.stem.replace("_", "-"): path for path in (SOURCE / "readers").glob("*.py")}
    shared = [path for path in readers.values() if path.stem in ("_rows", "_steps")]
    for folder in sorted(path for path in DATA.iterdir() if path.is_dir()):
        samples = sorted(folder.iterdir()) if folder.name == "own" else [folder]
        for sample in samples:
            files = sorted(p for p in sample.rglob("*") if p.is_file()) or [sample]
            name = folder.name if sample is folder else f"own-{sample.name}"
            modules = [p for key, p in readers.items() if folder.name.split("-")[0] in key]
            if folder.name == "own":
                modules = [p for p in readers.values() if p.stem in _OWN]
            found[name] = Target(name, sample, files, modules + shared)
    return found


_OWN = {"table", "session_table", "sojourn_jsonl", "_json_rows", "_step_rows", "outcomes"}


class Bench:
    """A sample copied to memory, in which one file at a time is exchanged and read."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.root = folder / target.sample.name
        if target.sample.is_dir():
            shutil.copytree(target.sample, self.root)
        else:
            shutil.copy(target.sample, self.root)
        self.files = [self.root / path.relative_to(target.sample) for path in target.files]
        self.originals = [path.read_bytes() for path in target.files]
        self.folder = folder

    def read(self, data: bytes) -> None:
        """Put one file in place, read it, and put the original back."""
        place = data[0] % len(self.files)
        path, how = self.files[place], data[1]
        path.write_bytes(data[2:])
        try:
            self._read(path, how)
        finally:
            path.write_bytes(self.originals[place])

    def _read(self, path: Path, how: int) -> None:
        from sojourn.errors import SojournError
        from sojourn.readers.base import reader_names

        names = reader_names()
        # Mostly as a user does it; now and then by force, by any reader.
        format = names[how // 8 % len(names)] if how & 4 else None
        options = _options(how)
        place = path if format else self.root
        for job in (self._runs, self._sessions)[: 2 if how & 2 else 1]:
            try:
                job(place, format, options, whole=how & 3 == 3)
            except SojournError as error:
                str(error).encode()
        if self.root.is_file():
            for module, name in _OTHERS:
                try:
                    getattr(import_module(module), name)(path)
                except SojournError as error:
                    str(error).encode()

    def _runs(self, path: Path, format: str | None, options: Any, *, whole: bool) -> None:
        from sojourn.corpus import write_corpus, write_jsonl
        from sojourn.readers import read_traces

        corpus = read_traces(path, format=format, options=options)
        runs = [corpus.trace(run) for run in range(len(corpus))]
        if not whole:
            return
        for suffix, write in ((".parquet", write_corpus), (".jsonl", write_jsonl)):
            copy = self.folder / f"copy{suffix}"
            write(corpus, copy)
            again = read_traces(copy)
            assert len(again) == len(runs), f"{len(runs)} runs became {len(again)} in {suffix}"
            for run, trace in enumerate(runs):
                other = again.trace(run)
                for name in ("task_id", "outcome", "end", "n_steps", "model", "score"):
                    here, there = getattr(trace, name), getattr(other, name)
                    if isinstance(here, str):  # our lines have no white space about a label
                        here, there = here.strip(), there.strip()
                    assert here == there, f"{name} {here!r} became {there!r} in {suffix}"

    def _sessions(self, path: Path, format: str | None, options: Any, *, whole: bool) -> None:
        from sojourn.corpus import write_sessions
        from sojourn.readers import read_sessions

        log = read_sessions(path, format=format, options=options)
        if not whole:
            return
        for suffix in (".parquet", ".csv", ".jsonl"):
            copy = self.folder / f"log{suffix}"
            write_sessions(log, copy)
            again = read_sessions(copy)
            assert len(again) == len(log), f"{len(log)} tasks became {len(again)} in {suffix}"


_OTHERS = (
    ("sojourn.readers.outcomes", "read_outcomes"),
    ("sojourn.readers.profile", "read_profile"),
    ("sojourn.readers.state_table", "read_state_table"),
)


def _options(how: int) -> Any:
    from sojourn.readers import ReadOptions

    kind = how // 16 % 5
    if kind == 1:
        return ReadOptions(scorer="match")
    if kind == 2:
        return ReadOptions(columns={"task_id": "id", "outcome": "score"})
    if kind == 3:
        return ReadOptions(verdicts_elsewhere=True)
    return ReadOptions()


class Findings:
    """What was found, one file for each place in the code at which a reading failed."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        folder.mkdir(parents=True, exist_ok=True)

    def note(self, data: bytes, error: BaseException | None, seconds: float) -> None:
        """Keep an input and its traceback, unless the place is known already."""
        if error is None:
            signature, text = "slow", f"took {seconds:.2f} s of CPU\n"
        else:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "sojourn" in frame.filename] or frames
            last = f"{Path(ours[-1].filename).stem}-{ours[-1].lineno}"
            if isinstance(error, AssertionError):  # ours, of the bench
                last = re.sub(r"\W+", "-", re.sub(r"'.*?'|\d+", "", str(error)))[:60]
            signature = f"{type(error).__name__}-{last}"
            text = "".join(traceback.format_exception(error))
        path = self.folder / f"{self.name}-{signature}.bin"
        if not path.exists():
            path.write_bytes(data)
            path.with_suffix(".txt").write_text(text, encoding="utf-8", errors="replace")
            print(f"FINDING {path}\n{text[-600:]}", flush=True)


def fuzz(target: Target, seconds: int, corpus: Path, found: Path) -> None:
    """Fuzz one target in this process, for so many seconds; does not return."""
    import atheris

    with atheris.instrument_imports(
        include=["sojourn.readers", "sojourn.records", "sojourn.corpus"]
    ):
        from sojourn.readers.base import load_reader, reader_names

        for name in reader_names():
            load_reader(name)
        for module, _ in _OTHERS:
            import_module(module)
        from sojourn.readers import base
    # Which plug-ins are installed is looked up for every path; here it does not change.
    base.entry_points = cache(base.entry_points)
    from mutate import mutate, words_of

    words = words_of(target.modules, target.files)
    bench = Bench(target, Path(tempfile.mkdtemp()))
    findings = Findings(target.name, found)
    for place, original in enumerate(bench.originals):
        for how in (0, 3):
            (corpus / f"seed-{place}-{how}").write_bytes(bytes((place, how)) + original)

    def one(data: bytes) -> None:
        if len(data) > 2:
            _try(bench, findings, data)

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if len(data) < 3:
            data = bytes((rng.randrange(len(bench.files)), 0)) + bench.originals[0]
        head, body = data[:2], data[2:]
        if rng.random() < 0.1:
            head = bytes((head[0], rng.randrange(256)))
        if rng.random() < 0.02:
            head = bytes((rng.randrange(len(bench.files)), head[1]))
            body = bench.originals[head[0] % len(bench.files)]
        body = (
            atheris.Mutate(body, max_size - 2) if rng.random() < 0.2 else mutate(body, words, rng)
        )
        return (head + body)[:max_size]

    atheris.Setup(
        [
            sys.argv[0],
            str(corpus),
            f"-max_total_time={seconds}",
            f"-max_len={MAX_BYTES}",
            "-timeout=30",
            "-rss_limit_mb=3000",
            f"-artifact_prefix={found}/{target.name}-native-",
        ],
        one,
        custom_mutator=change,
    )
    atheris.Fuzz()


def _try(bench: Bench, findings: Findings, data: bytes) -> None:
    start = time.process_time()
    try:
        bench.read(data)
    except Exception as error:  # whatever it is, it is what is looked for
        findings.note(data, error, 0.0)
        return
    if (seconds := time.process_time() - start) > SECONDS:
        findings.note(data, None, seconds)


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def drive(names: list[str], minutes: float, place: Path) -> int:
    """Fuzz targets one after the other, each in a process of its own; return how many findings."""
    share = max(2, round(60 * minutes / len(names)))
    for name in names:
        corpus = place / "corpus" / name
        corpus.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_memory()) as folder:  # the child ends without warning
            done = subprocess.run(
                [sys.executable, __file__, "--child", name, str(share), str(place)],
                capture_output=True,
                text=True,
                errors="replace",
                env=os.environ | {"TMPDIR": folder},
            )
        print("".join(re.findall(r"^FINDING .*\n(?:.*\n)*?(?=#|$)", done.stdout)), end="")
        counts = re.findall(r"#(\d+)\s.*?cov: (\d+).*?corp: (\d+)", done.stderr)
        tries, coverage, kept = counts[-1] if counts else ("0", "0", "0")
        if ended := re.search(r"Done (\d+) runs", done.stderr):
            tries = ended.group(1)
        end = "" if done.returncode == 0 else f"  exit {done.returncode}: {done.stderr[-800:]}"
        print(f"{name:28} {tries:>8} tries  {coverage:>5} edges  {kept:>5} kept{end}", flush=True)
    found = sorted((place / "findings").glob("*"))
    bad = [path for path in found if path.suffix != ".txt"]
    print(f"{len(bad)} findings" + "".join(f"\n  {path}" for path in bad))
    return len(bad)


def replay(path: Path) -> None:
    """Read one kept input again, errors and all."""
    known = targets()
    name = max((name for name in known if path.name.startswith(name)), key=len)
    with tempfile.TemporaryDirectory() as folder:
        Bench(known[name], Path(folder)).read(path.read_bytes())
    print("read without a finding")


def main() -> int:
    """Fuzz, or read a kept input again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--only", action="append", help="a target; may be repeated")
    parser.add_argument("--place", type=Path, help="where the corpus and the findings are kept")
    parser.add_argument("--replay", type=Path, metavar="FILE")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        replay(options.replay)
        return 0
    if options.child:
        name, seconds, place = options.child
        corpus = Path(place) / "corpus" / name
        fuzz(targets()[name], int(seconds), corpus, Path(place) / "findings")
        return 0
    place = options.place or Path(tempfile.mkdtemp(prefix="sojourn-fuzz-"))
    print(f"corpus and findings in {place}")
    return 1 if drive(options.only or list(targets()), options.minutes, place) else 0


if __name__ == "__main__":
    sys.exit(main())
