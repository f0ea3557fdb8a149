"""Operational profiles: two forms of file, and every way in which one can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance import DATA

from sojourn.errors import EmptySourceError, ReaderError
from sojourn.readers import read_profile
from sojourn.records import OperationalProfile

DOMAINS = {"coding": 0.15, "reasoning": 0.85}
CODING = {"MBPP": 0.204, "DS-1000": 0.796}


@pytest.mark.parametrize("name", ["profile.toml", "profile.json"])
def test_both_forms_say_the_same(name: str) -> None:
    profile = read_profile(DATA / "own" / name)
    assert (profile.domains, profile.subdomains, profile.source) == (
        DOMAINS, {"coding": CODING}, "file"
    )  # fmt: skip
    assert profile.to_dict() == {
        "domain_weights": DOMAINS,
        "subdomain_weights": {"coding": CODING},
        "source": "file",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[domains]\na = 0.5\nb = 0.4\n", r"domains: the weights sum to 0\.9, not to 1"),
        ("[domains]\na = 0.5\nb = 0.500002\n", r"sum to 1\.000002, not to 1"),
        ("[subdomains.a]\nx = 0.2\ny = 0.7\n", r"subdomains\.a: the weights sum to 0\.9"),
        ("[domains]\na = -0.5\nb = 1.5\n", r"domains\.a is -0\.5; a weight is a number from 0"),
        ("[domains]\na = nan\n", r"domains\.a is nan"),
        ("[domains]\na = true\n", r"domains\.a is True"),
        ("[domains]\na = '1'\n", r"domains\.a is '1'"),
        ('{"domains": {"a": NaN}}', r"domains\.a is nan"),
        ("domains = 1\n", "domains must be a table"),
        ("[subdomains]\na = 1\n", r"subdomains\.a must be a table"),
        ("[domains]\na = 1\n[subdomains.b]\nx = 1\n", r"subdomains\.b: there is no weight for it"),
        ("[subdomains.a]\n", r"subdomains\.a: no weight"),
        ("[domians]\na = 1\n", "unknown key 'domians'; a profile has domains and subdomains"),
        ("[domains]\na = 1\na = 1\n", "not valid TOML"),
        ('{"domains": {"a": 1, "a": 1}}', "'a' stands there twice"),
        ('{"domains": ', "not valid JSON"),
        ("[domains]\n", "no weight is given"),
        ("[1, 2]", "not valid TOML"),
        ('{"a":' * 100_000, "nests too deep"),
    ],
)  # fmt: skip
def test_a_wrong_profile_names_the_fault(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(ReaderError, match=message) as caught:
        read_profile(path)
    assert str(caught.value).startswith(str(path))


def test_a_sum_within_a_millionth_is_one(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_text("﻿[domains]\na = 0.3333333\nb = 0.6666666\n")
    weights = read_profile(path).domain_weights(("a", "b"))
    assert sum(weights) == pytest.approx(1.0, abs=1e-15)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    with pytest.raises(ReaderError, match="No such file"):
        read_profile(path)
    path.write_text(" \n")
    with pytest.raises(EmptySourceError, match="is empty"):
        read_profile(path)
    path.write_bytes(b"[domains]\n\xff = 1\n")
    with pytest.raises(ReaderError, match="not UTF-8"):
        read_profile(path)
    path.write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(ReaderError, match="longer than 1 MB"):
        read_profile(path)


class TestProfile:
    def test_weights_come_in_the_asked_order(self) -> None:
        profile = OperationalProfile(domains=DOMAINS, subdomains={"coding": CODING})
        assert profile.domain_weights(("reasoning", "other", "coding")) == (0.85, 0.0, 0.15)
        assert profile.subdomain_weights("coding", ("DS-1000", "MBPP")) == (0.796, 0.204)

    def test_a_name_that_the_data_lack_is_an_error(self) -> None:
        profile = OperationalProfile(domains=DOMAINS, subdomains={"coding": CODING})
        with pytest.raises(ValueError, match=r"domains\.coding: the data hold no 'coding'; .* rea"):
            profile.domain_weights(("reasoning",))
        with pytest.raises(ValueError, match=r"subdomains\.coding\.DS-1000: the data hold no"):
            profile.subdomain_weights("coding", ("MBPP",))
        with pytest.raises(ValueError, match=r"subdomains\.reasoning: the profile states no"):
            profile.subdomain_weights("reasoning", ("BoolQ",))

    def test_shares_and_equal_weights(self) -> None:
        counts = {"a": {"x": 3, "y": 1}, "b": {"z": 0}}
        profile = OperationalProfile.from_counts(counts)
        assert (profile.domains, profile.source) == ({"a": 1.0, "b": 0.0}, "data")
        assert profile.subdomains == {"a": {"x": 0.75, "y": 0.25}, "b": {"z": 1.0}}
        uniform = OperationalProfile.uniform({"a": ["x", "y"], "b": ["z"]})
        assert (uniform.domains, uniform.source) == ({"a": 0.5, "b": 0.5}, "uniform")
        assert uniform.subdomains == {"a": {"x": 0.5, "y": 0.5}, "b": {"z": 1.0}}

    def test_what_is_not_stated_comes_from_another(self) -> None:
        other = OperationalProfile.uniform({"coding": ["MBPP", "DS-1000"], "reasoning": ["RACE"]})
        only_inner = OperationalProfile(subdomains={"coding": CODING})
        assert only_inner.completed(other).domains == {"coding": 1.0}
        only_outer = OperationalProfile(domains=DOMAINS).completed(other)
        assert (only_outer.domains, only_outer.source) == (DOMAINS, "file")
        assert only_outer.subdomains == other.subdomains
        both = OperationalProfile(subdomains={"coding": CODING, "reasoning": {"RACE": 1}})
        assert both.completed(other).domains == {"coding": 0.5, "reasoning": 0.5}

    def test_it_keeps_no_hand_on_what_it_was_made_of(self) -> None:
        weights = {"a": 1.0}
        profile = OperationalProfile(domains=weights)
        weights["a"] = 0.5
        assert profile.domains == {"a": 1.0}

    def test_an_unknown_source_is_refused(self) -> None:
        with pytest.raises(ValueError, match="source must be one of data, file, uniform"):
            OperationalProfile(domains={"a": 1.0}, source="hearsay")
