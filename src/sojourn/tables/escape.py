"""One escaper for each language that a label of a log is written in.

Labels come from strangers. Whatever writes one goes through the function that is named after the
place: a terminal, Markdown, XML, a line for a build service, a drawing, a spreadsheet. Pages have
their own, the template engine's, on top of `clean`; there is no script on them that data could
stand in.
"""

from __future__ import annotations

import re
import unicodedata
from html import escape

from sojourn._limits import SHOWN_LETTERS

__all__ = [
    "annotation_data",
    "annotation_property",
    "clean",
    "csv_cell",
    "csv_text",
    "dot_string",
    "markdown",
    "mermaid_string",
    "xml_text",
]

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_MESSAGE_LETTERS = 1000
_CELL_LETTERS = 500
# What XML 1.0 does not allow in a text.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS = re.compile(r"[\\`*_{}\[\]#|<>~&@^$]|:(?=//)|(?<=www)\.|\A[-+=]|(?<=\A\d)[.)]")
# A cell that a spreadsheet would compute, behind as many apostrophes as there may be.
_FORMULA = re.compile("\\A'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_ESCAPED = re.compile("\\A'+[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def clean(label: object, *, limit: int = SHOWN_LETTERS) -> str:
    """Return a label from a log as one short line without control characters, for a terminal.

    Control characters, escape sequences' first byte, line ends and the marks that turn the
    direction of text are replaced by ``?``: a log must not be able to write to a terminal.
    """
    text = str(label)[: limit + 1]
    if not (text.isascii() and text.isprintable()):
        text = "".join("?" if unicodedata.category(c) in _UNPRINTABLE else c for c in text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def markdown(label: object) -> str:
    """Return a label as Markdown that shows it and does nothing else: no link, image or table."""
    return _MARKS.sub(lambda match: f"\\{match.group()}", clean(label, limit=_CELL_LETTERS))


def xml_text(label: object) -> str:
    """Return a label for an XML text or a quoted attribute."""
    return escape(_NOT_XML.sub("?", clean(label, limit=_MESSAGE_LETTERS)), quote=True)


def annotation_data(label: object) -> str:
    """Return a label for the message of a workflow command, where %0A would begin another."""
    return clean(label, limit=_MESSAGE_LETTERS).replace("%", "%25")


def annotation_property(label: object) -> str:
    """Return a label for a property of a workflow command, such as its title."""
    return annotation_data(label).replace(":", "%3A").replace(",", "%2C")


def dot_string(label: object) -> str:
    """Return a label as a quoted string of the DOT language."""
    return '"' + clean(label).replace("\\", "\\\\").replace('"', '\\"') + '"'


def mermaid_string(label: object) -> str:
    """Return a label as a quoted string of Mermaid.

    Whatever is no plain letter is a numeric entity: neither Mermaid's markup nor its directives
    can be spelt with them.
    """
    plain = (c if c.isascii() and (c.isalnum() or c in " _.,-") else f"#{ord(c)};"
             for c in clean(label))  # fmt: skip
    return f'"{"".join(plain)}"'


def csv_cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula; `csv_text` takes it back.

    An apostrophe is put before what begins like one (``=``, ``+``, ``-``, ``@``, a tab, a line end
    and the wide forms of the signs, behind any number of apostrophes). Numbers are left alone.

    Examples
    --------
    >>> [csv_cell(text) for text in ("=1+1", "-5", "@x", "it's", "'=1")]
    ["'=1+1", '-5', "'@x", "it's", "''=1"]
    """
    if _FORMULA.match(text) is None or _NUMBER.fullmatch(text):
        return text
    return f"'{text}"


def csv_text(cell: str) -> str:
    """Return the text that `csv_cell` made a cell of.

    Examples
    --------
    >>> [csv_text(cell) for cell in ("'=1+1", "-5", "'@x", "it's", "''=1")]
    ['=1+1', '-5', '@x', "it's", "'=1"]
    """
    return cell[1:] if _ESCAPED.match(cell) else cell
