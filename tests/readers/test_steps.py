"""Names of steps: telling where the command is plain, harmless and linear where it is hostile."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.readers._steps import action_digest, command_name, respond, tool_step, without_ids
from sojourn.records import Actor, StepKind


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("ls -la", "ls"),
        ("cd /repo && python -m pytest", "python"),
        ("cd /repo; ls", "ls"),
        ("cd /repo\npython a.py", "python"),
        ('cd "$(git rev-parse --show-toplevel)" && ls', "ls"),
        ("cd -- '/a b' && ls", "ls"),
        ("cd a && cd b && pushd c && make", "make"),
        ("cd /repo", "cd"),
        ("cd /repo || exit 1", "cd"),
        ("LANG=C python x", "python"),
        ("A=1 B='x y' C=\"z\" make", "make"),
        ("PYTHONPATH=src:$HOME/lib python x", "python"),
        ("A=1; B=2; ls", "ls"),
        ("export A=b && ls", "ls"),
        ("export A=b", "export"),
        ("set -euo pipefail; ls", "ls"),
        ("set -e\nls", "ls"),
        ("source venv/bin/activate && pip list", "pip"),
        (". venv/bin/activate; pip list", "pip"),
        ("conda activate x && python", "python"),
        ("sudo -E apt install x", "apt"),
        ("env -i A=b python", "python"),
        ("time -p make", "make"),
        ("nice -n 10 make", "make"),
        ("timeout 60 python x", "python"),
        ("timeout -k 5 1.5m python x", "python"),
        ("bash -lc 'cd x && pytest -q'", "pytest"),
        ('/bin/bash -c "ls"', "ls"),
        ("bash script.sh", "bash"),
        ("/usr/bin/python3 x", "python3"),
        ("./run_tests.sh -v", "run_tests.sh"),
        ('"python" x', "python"),
        ("\\ls", "ls"),
        ("(cd x && make)", "make"),
        ("{ ls; }", "ls"),
        ("! grep x y", "grep"),
        ("ls|wc -l", "ls"),
        ("ls;pwd", "ls"),
        ("find . | xargs grep x", "find"),
        ("cat > a.py << 'EOF'\nimport os\nEOF", "cat"),
        ("cat <<EOF > a.py", "cat"),
        ("#!/bin/bash\n\n# look\ncd /x\nls", "ls"),
        ("# only a remark", "shell"),
        ("", "shell"),
        (" \n\t", "shell"),
        ("> empty", "shell"),
        ("$(which python) x", "shell"),
        ("for f in *; do cat $f; done", "for"),
        # Commands of agents that bring their own
        ("open src/a.py 12", "open"),
        ("edit 1:1\nfoo\nend_of_edit", "edit"),
        ("search_dir foo src", "search_dir"),
        ("str_replace_editor view /repo/a.py", "str_replace_editor view"),
        ("str_replace_editor str_replace /a --old_str 'x'", "str_replace_editor str_replace"),
    ],
)
def test_the_first_command_that_matters(command: str, name: str) -> None:
    assert command_name(command) == name


@pytest.mark.parametrize("command", ["API_KEY=sk-123", "export_=1", "A=$(cat key) make"])
def test_an_assigned_value_is_never_a_name(command: str) -> None:
    assert command_name(command) == "shell"


def test_names_are_short_and_printable() -> None:
    assert command_name("\x1b[31mls") == "\N{REPLACEMENT CHARACTER}[31mls"
    assert len(command_name("x" * 5000)) == 64
    assert tool_step([("a\x07b" + "c" * 100, "")]).name == "a\N{REPLACEMENT CHARACTER}b" + "c" * 61


@given(st.text(max_size=200))
def test_any_command_has_a_name(command: str) -> None:
    name = command_name(command)
    assert 0 < len(name) <= 64
    assert name.isprintable()


@pytest.mark.parametrize(
    "unit",
    [
        'A="', 'A="a"', "A='", "A=$a", "cd ", "cd a", "(", "! ", "{ ", "timeout ", "timeout 1 ",
        "timeout -a ", " ", "\t\n", "A=b ", "env ", "env -a ", "# x\n", "#", "/sh ", "/", "a/",
        "bash -c ", "\\", "$A", "'", '"', "export ", "set -e;", "source a;", ".", "\x00",
    ],
)  # fmt: skip
def test_a_hostile_command_still_ends_soon(unit: str) -> None:
    assert command_name(unit * (1_000_000 // len(unit)))


def test_a_shell_is_named_by_its_command_and_an_editor_with_its_sub_command() -> None:
    arguments = '{"command": "cd /x && make"}'
    assert tool_step([("bash", arguments)], command="cd /x && make").name == "make"
    assert tool_step([("bash", arguments)]).name == "bash"
    assert tool_step([("bash", "")], command="").name == "bash"
    assert tool_step([("str_replace_editor", "{}")], command="view").name == (
        "str_replace_editor view"
    )
    assert tool_step([("str_replace_editor", "{}")], command="str_replace_editor view /a").name == (
        "str_replace_editor view"
    )
    assert tool_step([("search", "{}")], command="make").name == "search"
    assert tool_step([("", "{}")]).name == "tool"


def test_a_step_counts_its_calls() -> None:
    step = tool_step([("a", "1"), ("b", "2")], ok=False, actor=Actor.USER)
    assert (step.name, step.kind, step.n_calls, step.ok, step.actor) == (
        "a",
        StepKind.TOOL,
        2,
        False,
        Actor.USER,
    )
    spoken = respond("hello", ok=True)
    assert (spoken.name, spoken.kind, spoken.n_calls, spoken.ok) == (
        "respond",
        StepKind.MODEL,
        0,
        True,
    )


def test_digests_tell_actions_apart() -> None:
    digests = [
        tool_step([("a", "1")]).digest,
        tool_step([("a", "2")]).digest,
        tool_step([("a", "1"), ("a", "1")]).digest,
        tool_step([("a1", "")]).digest,
        respond("a").digest,
        respond("\ud800").digest,
        action_digest(),
        action_digest(""),
        action_digest("", ""),
    ]
    assert len(set(digests)) == len(digests)
    assert all(0 < digest < 2**64 for digest in digests)
    assert tool_step([("a", "1")]).digest == digests[0]


UUID = "0b9f3c1e-6a51-4c7e-9d57-3f1f6d1c2b9a"


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        (f"plan-{UUID}", "plan"),
        (f"{UUID}/plan", "plan"),
        (f"session {UUID.upper()}: plan", "session: plan"),
        (f"run_{UUID.replace('-', '')}_{UUID}", "run"),
        ("a" * 24, "a" * 24),  # a word, not an id
        ("defaced_facade_cafe_decade", "defaced_facade_cafe_decade"),
        ("query_5f3a_by_customer_number", "query_5f3a_by_customer_number"),
        (UUID, ""),
    ],
)
def test_ids_are_no_part_of_a_name(name: str, plain: str) -> None:
    assert without_ids(name) == plain
    assert tool_step([(name, "")]).name == (plain or "tool")


@pytest.mark.parametrize("name", ["-" * 10**6, "a0" * 10**6, "0123-" * 10**5])
def test_no_name_makes_the_search_for_ids_slow(name: str) -> None:
    start = time.perf_counter()
    without_ids(name)
    assert time.perf_counter() - start < 1
