"""Runs as columns: the corpus, its builder, its policy, its file."""

from __future__ import annotations

from sojourn.corpus.builder import CorpusBuilder, TraceBatch
from sojourn.corpus.columns import Categorical, StepTypes
from sojourn.corpus.parquet import write_corpus
from sojourn.corpus.policy import Policy, ResolvedRuns, resolve
from sojourn.corpus.traces import Group, TaskTable, TraceCorpus

__all__ = [
    "Categorical",
    "CorpusBuilder",
    "Group",
    "Policy",
    "ResolvedRuns",
    "StepTypes",
    "TaskTable",
    "TraceBatch",
    "TraceCorpus",
    "resolve",
    "write_corpus",
]
