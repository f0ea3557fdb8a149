"""Exceptions and warnings that a caller may want to catch, each with one meaning.

Everything else is an ordinary ``ValueError`` or ``TypeError``. A rejected certificate or a
figure that is withheld is an answer and never an exception.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "EmptySourceError",
    "NothingUsableError",
    "ReaderError",
    "RuleError",
    "SmallSampleWarning",
    "SojournError",
    "SojournWarning",
    "StateTableError",
    "UnknownFormatError",
]


class SojournError(Exception):
    """Base of the exceptions that Sojourn raises on purpose; the message says how to mend it."""


class ReaderError(SojournError):
    """A source cannot be read at all: missing, truncated, or not what it claims to be."""


class EmptySourceError(ReaderError):
    """A source is there but holds nothing: an empty file or folder."""


class UnknownFormatError(ReaderError):
    """No reader claims a source, or more than one does."""


class NothingUsableError(SojournError):
    """Records were read, but none of them can be used (every run skipped or excluded)."""


class StateTableError(SojournError, ValueError):
    """A user's table of states does not cover the steps that stand in the logs."""


class ConfigError(SojournError, ValueError):
    """A file of settings is no TOML, or holds a key that means nothing."""


class RuleError(SojournError, ValueError):
    """A rule of a gate cannot be read, or asks for a figure that these data do not have."""


class SojournWarning(UserWarning):
    """Base of the statistical cautions; each carries a stable code such as ``SJ101``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class SmallSampleWarning(SojournWarning):
    """Too few tasks, attempts or runs for the figure to carry much."""
