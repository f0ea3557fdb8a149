"""What looks like a secret reaches no output, and what does not is left as it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile.logs import run, write_rows
from sojourn._limits import LABEL_LETTERS, REASON_LETTERS, SKIP_REASONS
from sojourn._redaction import REDACTED, redacted, screened
from sojourn.corpus import CorpusBuilder, SessionLogBuilder
from sojourn.readers import read_traces
from sojourn.records import Outcome, Skipped, Step, TaskResult, Trace

# Put together here, so that no scanner of sources takes them for real ones.
LETTERS = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA"
SECRETS = {
    "openai": f"sk-proj-{LETTERS}",
    "anthropic": f"sk-ant-api03-{LETTERS}",
    "stripe": f"sk_live_{LETTERS[:24]}",
    "github": f"ghp_{LETTERS}abcd",
    "github, fine": f"github_pat_{LETTERS}_{LETTERS}",
    "gitlab": f"glpat-{LETTERS[:20]}",
    "slack": f"xoxb-123456789012-{LETTERS[:24]}",
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "google": f"AIza{LETTERS}abc",
    "hugging face": f"hf_{LETTERS}",
    "tavily": f"tvly-dev-{LETTERS}",
    "json web token": f"eyJhbGciOiJI.eyJzdWIiOiIx{LETTERS}.{LETTERS}",
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{LETTERS}\n-----END RSA PRIVATE KEY-----",
    "unknown vendor": f"zz {LETTERS}",
}
NAMED = {
    "api_key=hunter2hunter2": "hunter2hunter2",
    "--api-key hunter2 password: correcthorse": "correcthorse",
    "Authorization: Bearer abcdefgh12345678": "abcdefgh12345678",
    "curl https://user:pa55word@host.example/x": "pa55word",
    '{"client_secret": "s3cr3t-value"}': "s3cr3t-value",
    "X-Auth-Token=deadbeefdeadbeef": "deadbeefdeadbeef",
    "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI": "wJalrXUtnFEMI",
}
HARMLESS = (
    *(
        "django__django-11099",
        "search_direct_flight",
        "str_replace_editor view",
        "gpt-4o-2024-08-06",
    ),
    *("claude-3-5-sonnet-20241022", "anthropic/claude-sonnet-4", "tokens", "max_tokens=100"),
    *("3fa85f64-5717-4562-b3fc-2c963f66afa6", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    *("get_user_by_authentication_token", "key", "turkey: bird", "https://host.example:8080/path"),
    *(
        "GetUserOrderDetailsFromWarehouse2024",
        "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        "monkey=3",
    ),
    *(
        "astropy__astropy-12907/attempt-3",
        "token_count: 123456",
        "s" * 200,
        "HELLO_WORLD_EXAMPLE_12",
    ),
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_known_by_its_shape(name: str) -> None:
    text = redacted(f"call {SECRETS[name]}")
    assert LETTERS[:12] not in text
    assert "IOSFODNN7EXAMPLE" not in text
    assert REDACTED in text
    assert text.startswith("call ")


@pytest.mark.parametrize("text", NAMED)
def test_a_secret_is_known_by_its_name(text: str) -> None:
    for is_id in (True, False):
        assert NAMED[text] not in redacted(text, is_id=is_id)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text
    assert redacted(text, is_id=True) == text
    assert screened(text) == text


def test_random_ids_stay_and_two_secrets_stay_two_ids() -> None:
    assert redacted(LETTERS, is_id=True) == LETTERS
    assert redacted(LETTERS) == REDACTED
    first, second = (redacted(f"sk-proj-{LETTERS}{n}", is_id=True) for n in (1, 2))
    assert first != second
    assert LETTERS[:6] not in first + second
    # What could be guessed is not hashed.
    assert redacted("password=hunter2", is_id=True) == f"password={REDACTED}"


@given(st.text(max_size=2000))
def test_any_text_is_screened_to_a_short_one_that_can_be_written(text: str) -> None:
    label = screened(text)
    label.encode("utf-8")
    assert len(label) <= max(LABEL_LETTERS, len(text.encode("utf-8", "backslashreplace")))
    assert len(screened(text * 20)) <= 7 * LABEL_LETTERS


def test_half_pairs_become_escapes_and_stay_apart() -> None:
    assert screened("a\ud800") == "a\\ud800"
    assert screened("a\ud801") != screened("a\ud800")


def test_an_endless_label_keeps_its_beginning_and_stays_apart() -> None:
    first, second = (screened("x" * 1_000_000 + end) for end in "ab")
    assert len(first) == len(second) == LABEL_LETTERS
    assert first != second
    assert first.startswith("x" * 400)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "key=" * 250_000,
        "://" * 300_000,
        "-" * 1_000_000,
        "sk-" * 300_000,
        "eyJ." * 9999,
    ],
    ids=lambda text: text[:4],
)
def test_no_text_makes_it_slow(text: str) -> None:
    import time

    start = time.process_time()
    redacted(text[:20_000])
    screened(text)
    assert time.process_time() - start < 0.5


def test_builders_hide_secrets_in_every_label_and_tell() -> None:
    secret = SECRETS["openai"]
    names = ("task_id", "task_set", "agent", "model", "cluster", "session_id", "job_id")
    builder = CorpusBuilder()
    builder.open_source("file")
    builder.add(
        Trace(outcome=Outcome.SUCCESS, steps=(Step(name=secret),), **dict.fromkeys(names, secret))
    )
    builder.skip(Skipped(source="file", reason=f"bad {secret}"))
    corpus = builder.build()
    trace = corpus.trace(0)
    shown = repr(trace) + repr(corpus.skipped)
    assert LETTERS[:12] not in shown
    assert shown.count("[redacted") == len(names) + 2
    told = [item for item in corpus.skipped if "secret" in item.reason]
    assert [(item.count, item.what, item.source) for item in told] == [
        (len(names) + 1, "key", "file")
    ]
    log = SessionLogBuilder()
    labels = dict.fromkeys(("session_id", "domain", "subdomain", "item", "agent", "model"), secret)
    log.add(TaskResult(position=0, outcome=Outcome.SUCCESS, **labels))
    built = log.build()
    assert LETTERS[:12] not in repr(built.task(0))
    assert any("secret" in item.reason for item in built.skipped)


def test_a_secret_in_a_log_reaches_no_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = SECRETS["tavily"]
    rows = [
        {
            "task_id": f"t{k % 5} {secret}",
            "outcome": k % 3 > 0,
            "agent": f"agent api_key={LETTERS}",
            "steps": [f"search {secret}", "edit"],
            secret: 1,
        }
        for k in range(20)
    ]
    logs = write_rows(tmp_path / "runs.jsonl", [*rows, {"task_id": "odd", "outcome": secret}])
    out = tmp_path / "out"
    out.mkdir()
    words = ("--html", out / "a.html", "--json", out / "a.json", "--resamples", 99, "--no-chain")
    assert run("assess", logs, *words) == 0
    assert run("convert", logs, "-o", out / "a.jsonl") == 0
    assert run("convert", logs, "-o", out / "a.parquet") == 0
    assert run("validate", logs) == 0
    assert run("assess", logs, "--map", f"task_id={secret[:10]}") == 3
    shown = capsys.readouterr()
    texts = [path.read_bytes() for path in out.iterdir()]
    assert len(texts) == 4
    for text in (*texts, shown.out.encode(), shown.err.encode()):
        assert LETTERS[:10].encode() not in text
    assert b"redacted" in texts[0]
    assert len(read_traces(out / "a.parquet")) == 21


def test_endless_reasons_are_added_up() -> None:
    for builder in (CorpusBuilder(), SessionLogBuilder()):
        for number in range(SKIP_REASONS + 500):
            builder.skip(Skipped(source=f"line {number}", reason="bad " * 1000))
        builder.add(  # type: ignore[call-overload]
            Trace(task_id="a", outcome=Outcome.SUCCESS)
            if isinstance(builder, CorpusBuilder)
            else TaskResult(session_id="a", position=0, outcome=Outcome.SUCCESS)
        )
        skipped = builder.build().skipped
        assert len(skipped) == SKIP_REASONS + 1
        assert sum(item.count for item in skipped) == SKIP_REASONS + 500
        assert skipped[-1].count == 500
        assert max(len(item.reason) for item in skipped) == REASON_LETTERS
    assert re.search("more of other", json.dumps(skipped[-1].reason))
