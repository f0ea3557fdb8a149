"""Ids taken out of a corpus: each replaced by a keyed hash, so that figures stay what they were.

Names of tasks, runs (jobs, files), sessions, items and clusters may be personal data: a user, a
ticket, a document. One key gives one name to an id wherever it stands, so that tasks still meet in
a comparison; without the key nobody can try out guesses. Task sets, agents, models, domains and
names of steps are what figures are told apart by, and stay.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sojourn.corpus.columns import Categorical
from sojourn.corpus.sessions import SessionLog
from sojourn.corpus.traces import TaskTable, TraceCorpus
from sojourn.records import Skipped

__all__ = ["Anonymiser"]

_DIGITS = 12
_PERSON = b"sojourn-ids"
# What may be an id inside the reason why something was skipped.
_QUOTED = re.compile(r"(?<!\w)'[^']*'|\"[^\"]*\"")
_STANDS = re.compile(r"(stands? (?:at|in) ).+( too\b)")
_PATH = re.compile(r"[^\s'\"();,]*[/\\][^\s'\"();,]*")


class Anonymiser:
    """Gives ids other names, the same one for the same id and key.

    Parameters
    ----------
    key : str, optional
        What the names depend on. Keep it secret: whoever has it can try out guesses of ids. By
        default one is drawn, and the names are others in every process.

    Examples
    --------
    >>> Anonymiser("a key").name("task", "ticket-17")
    'task-01f4df6b866e'
    """

    def __init__(self, key: str | None = None) -> None:
        if key is not None and not key:
            raise ValueError("the key is empty")
        secret = secrets.token_bytes(32) if key is None else key.encode("utf-8", "surrogatepass")
        # A key may be longer than the hash allows.
        self._key = hashlib.blake2b(secret, digest_size=32, person=_PERSON).digest()

    def _hash(self, data: bytes) -> hashlib.blake2b:
        return hashlib.blake2b(data, key=self._key, digest_size=8, person=_PERSON)

    def name(self, kind: str, label: str) -> str:
        """Return the name of an id; `kind` stands before it."""
        return f"{kind}-{self._hash(label.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"

    def runs(self, corpus: TraceCorpus) -> TraceCorpus:
        """Return the runs under other names; digests of actions are hashed anew with the key."""
        known = set(corpus.tasks.task_id)
        for column in (corpus.session_id, corpus.job_id, corpus.cluster, corpus.source_uri):
            known.update(column.values)
        ids = tuple(self.name("task", task) for task in corpus.tasks.task_id)
        return corpus.replace(
            tasks=TaskTable(task_set=corpus.tasks.task_set, task_id=ids),
            session_id=self._column("session", corpus.session_id),
            job_id=self._column("run", corpus.job_id),
            cluster=self._column("cluster", corpus.cluster),
            source_uri=self._column("file", corpus.source_uri),
            digests=None if corpus.digests is None else self._rehashed(corpus.digests),
            skipped=self._skipped(corpus.skipped, known),
        )

    def sessions(self, log: SessionLog) -> SessionLog:
        """Return the sessions under other names."""
        known = {*log.sessions.name, *log.item.values, *log.sessions.source_uri.values}
        table = replace(
            log.sessions,
            name=tuple(self.name("session", name) for name in log.sessions.name),
            source_uri=self._column("file", log.sessions.source_uri),
        )
        return replace(
            log,
            sessions=table,
            item=self._column("task", log.item),
            skipped=self._skipped(log.skipped, known),
        )

    def _column(self, kind: str, column: Categorical) -> Categorical:
        return replace(
            column, values=tuple(self.name(kind, value) if value else "" for value in column.values)
        )

    def _rehashed(self, digests: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Return digests that nobody can compare with those of guessed texts; 0 stays 0."""
        found, place = np.unique(digests, return_inverse=True)
        hashed = [
            (int.from_bytes(self._hash(digest.to_bytes(8, "little")).digest(), "little") or 1)
            if digest
            else 0
            for digest in found.tolist()
        ]
        return np.array(hashed, np.uint64)[place]

    def _skipped(self, items: tuple[Skipped, ...], known: set[str]) -> tuple[Skipped, ...]:
        return tuple(
            replace(
                item,
                source=self.name("file", item.source) if item.source else "",
                reason=self._told(item.reason, known),
            )
            for item in items
        )

    def _told(self, reason: str, known: set[str]) -> str:
        """Return a reason without what is quoted in it, paths, and words that are ids."""
        reason = _QUOTED.sub(lambda m: self.name("name", m.group()[1:-1]), reason)
        reason = _STANDS.sub(lambda m: f"{m[1]}another file{m[2]}", reason)
        reason = _PATH.sub(lambda m: self.name("file", m.group()), reason)
        words = re.split(r"(\s+)", reason)
        return "".join(
            self.name("id", plain) if (plain := word.strip("(),;:.")) in known else word
            for word in words
        )
