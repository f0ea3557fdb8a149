"""Exports say the same when they are read back, and names from logs stay text in all of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.export import EXPORTS, export_process
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.mixture import fit_mixture
from sojourn.process.order_k import fit_order
from sojourn.process.simulate import preset, simulate_tasks
from sojourn.process.unrolled import UnrolledChain

HOSTILE = (
    'quote" ]; evil [label="x',
    "line\nend\rmodule\u2028more",
    "back\\slash\\",
    '"]\nclick n1 "javascript:alert(1)"',
    "%%{init: {'theme':'x'}}%%",
    "<script>alert(1)</script>",
    "`code` ```fence",
    "\x1b[31mred\u202e",
    'endmodule\nlabel "success" = true;',
    "#quot; &amp; ; -->",
)


def timed() -> UnrolledChain:
    rng = np.random.default_rng(2)
    rows = rng.dirichlet(np.ones(5), size=(4, 3))
    rows[:, 0, 1] = 0.0
    rows /= rows.sum(axis=2, keepdims=True)
    return UnrolledChain(
        rows=rows,
        start=np.array([0.5, 0.3, 0.0, 0.15, 0.05]),
        owner=np.arange(3, dtype=np.int32),
        state_names=("a", "b", "c"),
    )


def hostile() -> AbsorbingChain:
    n = len(HOSTILE)
    rng = np.random.default_rng(4)
    rows = rng.dirichlet(np.ones(n + 2), size=n)
    return AbsorbingChain(
        transient=rows[:, :n],
        to_success=rows[:, n],
        to_failure=rows[:, n + 1],
        initial=np.full(n, 1 / n),
        state_names=HOSTILE,
    )


PROCESSES = {
    "preset": preset("autogpt"),
    "timed": timed(),
    "hostile": hostile(),
}
RUNS = simulate_tasks(preset("react"), 30, 3, rng=5, max_steps=30)
PROCESSES["homogeneous"] = fit_homogeneous(RUNS)
PROCESSES["order-2"] = fit_order(RUNS, order=2)
PROCESSES["mixture"] = fit_mixture(RUNS, n_classes=2, rng=0)


class Read:
    """A chain read back: a matrix, the state it starts in, and the states of each label."""

    def __init__(self, matrix: np.ndarray, labels: dict[str, set[int]]) -> None:
        self.matrix, self.labels = matrix, labels
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)

    def within(self, label: str, horizon: int) -> np.ndarray:
        (start,) = self.labels.get("init", {0})
        mass = np.eye(self.matrix.shape[0])[start]
        goal = sorted(self.labels[label])
        curve = []
        for _ in range(horizon + 1):
            mass = mass @ self.matrix
            curve.append(mass[goal].sum())
        return np.array(curve)


def read_prism(text: str) -> Read:
    (last,) = re.findall(r"^  s : \[0\.\.(\d+)\] init 0;$", text, re.MULTILINE)
    matrix = np.zeros((int(last) + 1, int(last) + 1))
    for state, events in re.findall(r"^  \[\] s=(\d+) -> (.*);$", text, re.MULTILINE):
        for term in events.split(" + "):
            p, target = re.fullmatch(r"([-+.e0-9]+):\(s'=(\d+)\)", term).groups()
            matrix[int(state), int(target)] += float(p)
    labels = {
        name: {int(k) for k in re.findall(r"s=(\d+)", where)}
        for name, where in re.findall(r'^label "(\w+)" = (.*);$', text, re.MULTILINE)
    }
    return Read(matrix, labels)


def read_tra(tra: str, lab: str) -> Read:
    head, *rows = tra.strip().split("\n")
    n_states, n_transitions = map(int, head.split())
    assert len(rows) == n_transitions
    matrix = np.zeros((n_states, n_states))
    for row in rows:
        state, target, p = row.split()
        matrix[int(state), int(target)] += float(p)
    names, *states = lab.strip().split("\n")
    label = dict(re.findall(r'(\d+)="(\w+)"', names))
    labels: dict[str, set[int]] = {name: set() for name in label.values()}
    for row in states:
        state, numbers = row.split(": ")
        for number in numbers.split():
            labels[label[number]].add(int(state))
    return Read(matrix, labels)


def read_drn(text: str) -> Read:
    body = [line for line in text.split("\n") if not line.startswith("//")]
    n = int(body[body.index("@nr_states") + 1])
    matrix, labels = np.zeros((n, n)), {}
    state = -1
    for line in body[body.index("@model") + 1 :]:
        if line.startswith("state "):
            number, _, *names = line.split()[1:]
            state = int(number)
            for name in names:
                labels.setdefault(name, set()).add(state)
        elif " : " in line:
            target, p = line.split(" : ")
            matrix[state, int(target)] += float(p)
    return Read(matrix, labels)


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("form", ["prism", "tra", "drn"])
def test_what_is_read_back_has_the_same_curves(name: str, form: str) -> None:
    process = PROCESSES[name]
    text = export_process(process, form)
    if form == "prism":
        read = read_prism(text)
    elif form == "tra":
        read = read_tra(text, export_process(process, "lab"))
    else:
        read = read_drn(text)
    np.testing.assert_allclose(
        read.within("success", 40), process.success_within(40), atol=1e-12, rtol=0
    )
    np.testing.assert_allclose(
        read.within("failure", 40), process.failure_within(40), atol=1e-12, rtol=0
    )
    # A first state of its own, which is no step.
    assert read.labels.get("init", {0}) == {0}
    stepped = set().union(*(s for label, s in read.labels.items() if label.startswith("state_")))
    others = {0} | read.labels["success"] | read.labels["failure"]
    assert stepped == set(range(read.matrix.shape[0])) - others


@pytest.mark.parametrize("form", EXPORTS)
def test_names_from_logs_stay_text(form: str) -> None:
    text = export_process(hostile(), form)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u202e]", text)
    names = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
    plain = AbsorbingChain(
        transient=hostile().transient,
        to_success=hostile().to_success,
        to_failure=hostile().to_failure,
        initial=hostile().initial,
        state_names=names,
    )
    # The same structure whatever the names: as many lines, and the same but for the names.
    ours, theirs = text.split("\n"), export_process(plain, form).split("\n")
    assert len(ours) == len(theirs)
    different = [a for a, b in zip(ours, theirs, strict=True) if a != b]
    marks = {"prism": "// state_", "drn": "// state_", "dot": "  n", "mermaid": "  n"}
    assert len(different) == (0 if form in ("tra", "lab") else len(HOSTILE))
    assert all(line.startswith(marks[form]) for line in different)


def test_dot_labels_close_where_they_should() -> None:
    for line in export_process(hostile(), "dot").split("\n"):
        found = re.fullmatch(r'  n\d+ \[shape=box, label="((?:[^"\\]|\\.)*)"\];', line)
        assert found or "shape=box" not in line


def test_mermaid_labels_hold_no_syntax() -> None:
    text = export_process(hostile(), "mermaid")
    for line in text.split("\n"):
        found = re.fullmatch(r'  n\d+\["([\w .,;#-]*)"\]', line, re.ASCII)
        assert found or '["' not in line or "([" in line
    assert "%%" not in text
    assert "`" not in text
    assert "<" not in text


def drawn(text: str) -> dict[tuple[str, str], float]:
    """Read the arrows of a drawing: of DOT, or of Mermaid."""
    dot = re.findall(r'^  (n\d+) -> (n\d+) \[label="([.0-9]+)"\];$', text, re.MULTILINE)
    mermaid = re.findall(r'^  (n\d+) -->\|"([.0-9]+)"\| (n\d+)$', text, re.MULTILINE)
    return {(a, b): float(p) for a, b, p in dot} | {(a, b): float(p) for a, p, b in mermaid}


@pytest.mark.parametrize("form", ["dot", "mermaid"])
def test_a_process_that_looks_at_the_step_is_drawn_at_steps_that_are_named(form: str) -> None:
    chain = timed()
    arrows = drawn(export_process(chain, form, steps=(3, 3)))
    text = export_process(chain, form, steps=(3, 3))
    assert "step 3" in text
    for i in range(3):
        for j, target in enumerate(("n1", "n2", "n3", "n4", "n5")):
            assert arrows.get((f"n{i + 1}", target), 0.0) == pytest.approx(
                chain.rows[2, i, j], abs=0.0051
            )
    # The start is where the runs are that have a third step.
    mass = chain.start[:3] @ chain.rows[0, :, :3] @ chain.rows[1, :, :3]
    for i in range(3):
        assert arrows["n0", f"n{i + 1}"] == pytest.approx(mass[i] / mass.sum(), abs=0.0051)


@pytest.mark.parametrize("form", ["dot", "mermaid"])
def test_a_band_of_steps_is_the_mean_over_its_runs(form: str) -> None:
    chain = timed()
    text = export_process(chain, form, steps=(2, 6))
    assert "steps 2 to 6" in text
    mass, counts = chain.start[:3] @ chain.rows[0, :, :3], np.zeros((3, 5))
    for t in range(2, 7):
        table = chain.rows[min(t, 4) - 1]
        counts += mass[:, None] * table
        mass = mass @ table[:, :3]
    arrows = drawn(text)
    for i in range(3):
        for j in range(5):
            assert arrows.get((f"n{i + 1}", f"n{j + 1}"), 0.0) == pytest.approx(
                counts[i, j] / counts[i].sum(), abs=0.0051
            )
    whole = export_process(chain, form)
    assert "steps 1 to 4" in whole
    assert drawn(whole)["n0", "n1"] == pytest.approx(0.5)


def test_only_states_that_runs_get_to_are_written() -> None:
    chain = AbsorbingChain(
        transient=[[0.5, 0.0], [0.2, 0.3]],
        to_success=[0.25, 0.25],
        to_failure=[0.25, 0.25],
        initial=[1.0, 0.0],
        state_names=("on", "off"),
    )
    assert export_process(chain, "tra").startswith("4 ")
    assert 'label "state_2" = false;' in export_process(chain, "prism")


def test_what_cannot_be_written_is_said() -> None:
    with pytest.raises(ValueError, match="does not look at the step"):
        export_process(hostile(), "mermaid", steps=(1, 2))
    with pytest.raises(ValueError, match="prism holds the whole process"):
        export_process(timed(), "prism", steps=(1, 2))
    for steps in ((0, 1), (3, 2), (1, 10**9)):
        with pytest.raises(ValueError, match="a first and a last one"):
            export_process(timed(), "dot", steps=steps)
    with pytest.raises(ValueError, match="must be one of"):
        export_process(hostile(), "yaml")
    with pytest.raises(ValueError, match="cannot be written"):
        export_process(object(), "prism")
    long = UnrolledChain(
        rows=np.full((9000, 15, 17), 1 / 17),
        start=np.full(17, 1 / 17),
        owner=np.arange(15, dtype=np.int32),
        state_names=tuple("abcdefghijklmno"),
    )
    with pytest.raises(ValueError, match="transitions"):
        export_process(long, "drn")


@pytest.mark.parametrize("form", ["prism", "tra", "drn"])
def test_storm_reads_the_same(form: str, tmp_path: Path) -> None:
    stormpy = pytest.importorskip("stormpy")
    process = PROCESSES["hostile"]
    path = tmp_path / f"model.{form}"
    path.write_text(export_process(process, form))
    text = 'P=? [ F<=13 "success" ];P=? [ F "success" ]'
    if form != "tra":
        text += ';R{"steps"}=? [ F ("success" | "failure") ]'
    if form == "prism":
        model = stormpy.build_model(stormpy.parse_prism_program(str(path)))
    elif form == "tra":
        labels = tmp_path / "model.lab"
        storm_labels(labels, export_process(process, "lab"))
        path.write_text("dtmc\n" + path.read_text().split("\n", 1)[1])
        model = stormpy.build_model_from_explicit(str(path), str(labels))
    else:
        model = stormpy.build_model_from_drn(str(path))
    start = model.initial_states[0]
    found = []
    for formula in stormpy.parse_properties(text):
        result = stormpy.model_checking(model, formula)
        # The name of this question differs between versions.
        found.append((result.at if hasattr(result, "at") else result.get_value)(start))
    expected = [process.success_within(12)[-1], process.success_ever, process.mean_steps]
    assert found == pytest.approx(expected[: len(found)], abs=1e-5)


def storm_labels(path: Path, lab: str) -> None:
    """Write labels as Storm's own explicit format has them: words, declared in a block."""
    names, *rows = lab.strip().split("\n")
    words = dict(re.findall(r'(\d+)="(\w+)"', names))
    lines = ["#DECLARATION", " ".join(words.values()), "#END"]
    for row in rows:
        state, numbers = row.split(": ")
        lines.append(" ".join([state, *(words[k] for k in numbers.split())]))
    path.write_text("\n".join([*lines, ""]))
