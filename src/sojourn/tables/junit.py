"""JUnit XML, the form of test results that build services read; labels are made harmless."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from sojourn.tables.escape import xml_text

__all__ = ["Case", "Mark", "junit_document"]


class Mark(StrEnum):
    """What a test case came to; the words are the elements of the form."""

    PASS = "system-out"
    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


class Case(NamedTuple):
    """One test case: whose it is, what it asks, what it came to and what is told of it."""

    where: str
    name: str
    mark: Mark
    told: str

    def element(self) -> str:
        """Return the case as an element."""
        told = xml_text(self.told)
        inner = f'<{self.mark} message="{told}"/>'
        if self.mark is Mark.PASS:
            inner = f"<{self.mark}>{told}</{self.mark}>"
        return (
            f'<testcase classname="{xml_text(self.where)}" name="{xml_text(self.name)}">'
            f"{inner}</testcase>"
        )


def junit_document(suites: Sequence[tuple[str, Sequence[Case]]]) -> str:
    """Return suites of cases, each with its name, as a document of JUnit XML."""
    every = [case for _, cases in suites for case in cases]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {_counts(every)}>"]
    for name, cases in suites:
        lines.append(f'<testsuite name="{xml_text(name)}" {_counts(cases)}>')
        lines += [case.element() for case in cases]
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _counts(cases: Sequence[Case]) -> str:
    counted = {
        "tests": len(cases),
        "failures": sum(case.mark is Mark.FAILURE for case in cases),
        "errors": sum(case.mark is Mark.ERROR for case in cases),
        "skipped": sum(case.mark is Mark.SKIPPED for case in cases),
    }
    return " ".join(f'{name}="{count}"' for name, count in counted.items())
