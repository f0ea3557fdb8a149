"""Runs and sessions as columns: their builders, their policy, their file."""

from __future__ import annotations

from sojourn.corpus.anonymous import Anonymiser
from sojourn.corpus.builder import CorpusBuilder, TraceBatch
from sojourn.corpus.columns import Categorical, StepTypes
from sojourn.corpus.jsonl import write_jsonl
from sojourn.corpus.parquet import write_corpus
from sojourn.corpus.policy import Policy, ResolvedRuns, resolve
from sojourn.corpus.session_builder import SessionLogBuilder, TaskBatch
from sojourn.corpus.session_files import write_sessions
from sojourn.corpus.sessions import Gaps, SessionCounts, SessionLog, SessionTable
from sojourn.corpus.traces import Group, TaskTable, TraceCorpus

__all__ = [
    "Anonymiser",
    "Categorical",
    "CorpusBuilder",
    "Gaps",
    "Group",
    "Policy",
    "ResolvedRuns",
    "SessionCounts",
    "SessionLog",
    "SessionLogBuilder",
    "SessionTable",
    "StepTypes",
    "TaskBatch",
    "TaskTable",
    "TraceBatch",
    "TraceCorpus",
    "resolve",
    "write_corpus",
    "write_jsonl",
    "write_sessions",
]
