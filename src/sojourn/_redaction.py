"""Labels from strangers, made fit to keep: no secret, no broken letter, no endless length.

Of a log's text only labels are kept: ids, names of agents, models and steps. A tool's name or an
id may still hold a key that an agent saw. It is found by its name (``api_key=...``), by its shape
(a vendor's prefix, a JSON web token, a private key, a password in an address) and, in labels that
are no ids, by its randomness: ids are random by design, and hexadecimal digits are what commits and
digests look like, so that neither is taken for a secret.

Every pattern is linear, and no more than twice the length of a label is looked at.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from itertools import pairwise

from sojourn._limits import LABEL_LETTERS

__all__ = ["REDACTED", "redacted", "screened", "writable"]

REDACTED = "[redacted]"
_MIN_RANDOM = 20  # letters of a word that may be random
_MIN_BITS = 3.4  # entropy a letter of such a word, in bits
_MIN_TURNS = 0.4  # share of places where the class of letters changes: words change it seldom
_MIN_HASHED = 16  # letters of a secret that cannot be guessed from its hash
_HASH_DIGITS = 8
_CUT_DIGITS = 12

# What holds none of these goes by at once: the beginnings of shapes, and names of secrets.
_SUSPECT = re.compile(
    r"://|-----BEGIN|eyJ|A(?:KIA|SIA|ROA|IDA|Iza)|ya29|gh[opsru]_|github_pat|xox[abeoprs]-"
    r"|[spr]k[-_]|(?:hf|npm|glpat|gsk|tvly|pplx|xai|r8|whsec|dop_v1|shpat|SG|nvapi|lsv2|ls_)[-_.]"
    r"|[kK](?:ey|EY)|[tT](?:oken|OKEN)|[sS](?:ecret|ECRET)|[pP](?:assw|ASSW|wd|WD)"
    r"|[aA](?:uthor|UTHOR)|[bB](?:earer|EARER)|[cC](?:redential|REDENTIAL)"
)
_LONG_WORD = re.compile(rf"[A-Za-z0-9+/]{{{_MIN_RANDOM}}}")
_SHAPES = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^\0]*"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"  # JSON web tokens
    r"|\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\bya29\.[A-Za-z0-9_-]{20,}"
    r"|\bgh[opsru]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|\b(?:sk|pk|rk)[-_](?:[a-z]{2,10}\d{0,2}[-_])?[A-Za-z0-9_-]{16,}"
    r"|\b(?:hf|npm|glpat|gsk|tvly|pplx|xai|r8|whsec|dop_v1|shpat|SG|nvapi|lsv2_[a-z]{2}|ls__)"
    r"[-_.][A-Za-z0-9_.-]{16,}"
)
_IN_ADDRESS = re.compile(r"(?<=://)[^\s/:@]{1,100}:[^\s/@]{1,200}(?=@)")
_NAMED = re.compile(
    r"(?i)((?:\b|[_-])(?:(?:api|access|private|secret|client|auth)[ _-]?)?"
    r"(?:key|token|secret|password|passwd|pwd|authorization|credentials?)"
    r"[\"']?\s{0,3}(?:[:=]|%3D)\s{0,3}[\"']?(?:bearer\s{1,3}|basic\s{1,3})?"
    r"|\bbearer\s{1,3})"
    r"([^\s\"',;&)}\]]{6,})"
)
_WORD = re.compile(rf"[A-Za-z0-9+/]{{{_MIN_RANDOM},}}")
_HARMLESS_VALUE = re.compile(r"(?i)[\d.,_]+|true|false|none|null|\[redacted.*")


def redacted(text: str, *, is_id: bool = False) -> str:
    """Return a text without what looks like a secret.

    Parameters
    ----------
    text : str
        A label, or a message.
    is_id : bool
        Whether it names a task, a session or a run: randomness is then no sign of a secret, and
        two different secrets stay two different ids, by a hash where they cannot be guessed.

    Examples
    --------
    >>> redacted("call --api_key=hunter2hunter2")
    'call --api_key=[redacted]'
    >>> redacted("search sk-proj-Ab12Cd34Ef56Gh78Ij90")
    'search [redacted]'
    """
    if _SUSPECT.search(text) is None and (is_id or _LONG_WORD.search(text) is None):
        return text

    def hidden(secret: str) -> str:
        if not is_id or len(secret) < _MIN_HASHED:
            return REDACTED
        return f"{REDACTED[:-1]} {_digest(secret, _HASH_DIGITS)}]"

    def named(match: re.Match[str]) -> str:
        value = match.group(2)
        if _HARMLESS_VALUE.fullmatch(value):
            return match.group()
        return match.group(1) + hidden(value)

    text = _SHAPES.sub(lambda match: hidden(match.group()), text)
    text = _IN_ADDRESS.sub(REDACTED, text)
    text = _NAMED.sub(named, text)
    if is_id:
        return text
    return _WORD.sub(lambda m: REDACTED if _is_random(m.group()) else m.group(), text)


def screened(label: str, *, is_id: bool = False) -> str:
    """Return a label that may be kept and written anywhere.

    Parameters
    ----------
    label : str
        As the log has it.
    is_id : bool
        Whether it names a task, a session or a run; see `redacted`.

    Notes
    -----
    A letter that no file can hold (half of a surrogate pair) is written as an escape, so that two
    labels stay two. A label longer than `LABEL_LETTERS` keeps its beginning and a hash of all of
    it.
    """
    label = writable(label)
    plain = redacted(label[: 2 * LABEL_LETTERS], is_id=is_id)
    if len(label) <= LABEL_LETTERS:
        return plain
    mark = f"~{_digest(label, _CUT_DIGITS)}"
    return plain[: LABEL_LETTERS - len(mark)] + mark


def writable(label: str) -> str:
    """Return a label in which half surrogate pairs, as in odd names of files, are escapes."""
    if label.isascii():
        return label
    return label.encode("utf-8", "backslashreplace").decode("utf-8")


def _digest(text: str, n_digits: int) -> str:
    return hashlib.blake2b(text.encode("utf-8"), digest_size=8).hexdigest()[:n_digits]


def _is_random(word: str) -> bool:
    """Return whether a word has capitals, small letters and digits in no order that words have."""
    classes = [0 if c.isdigit() else 1 if c.isupper() else 2 if c.islower() else 3 for c in word]
    if not {0, 1, 2} <= set(classes):
        return False
    turns = sum(a != b for a, b in pairwise(classes))
    n = len(word)
    bits = -sum(k / n * math.log2(k / n) for k in Counter(word).values())
    return turns >= _MIN_TURNS * (n - 1) and bits >= _MIN_BITS
