"""The statistical cautions that a result may carry, each with a stable code.

A code is never reused for another meaning. The list stands in ``docs/cautions.md`` too, and a test
holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

from sojourn._validation import check_choice
from sojourn.tables import n_of

__all__ = ["CAUTIONS", "Caution", "skipped_words"]

CAUTIONS: dict[str, str] = {
    "SJ101": "One attempt per task: pass^k and pass@k are bounded, not identified.",
    "SJ102": "Fewer than 20 tasks: intervals are wide and nothing can be certified.",
    "SJ103": "Tasks differ in their number of attempts.",
    "SJ104": "Attempts at one task are identical: cached repeats or a temperature of 0.",
    "SJ105": "Something was skipped, or kept otherwise than it stood, while reading.",
    "SJ106": "Runs are excluded by the policy for faults.",
    "SJ107": "Runs were cut by a limit before they succeeded.",
    "SJ108": "Runs of different step limits are assessed together.",
    "SJ109": "The number of steps is unknown for some runs: they are not in the curves.",
    "SJ110": "No run has its number of steps: there are no curves.",
    "SJ111": "No run succeeded, or none failed: some figures rest on their bounds alone.",
    "SJ112": "All runs belong to one task or cluster: nothing can be said about other tasks.",
    "SJ113": "Attempts at one task come from different agents, models or limits: no repeats.",
    "SJ201": "Outcomes within a session are not exchangeable: order matters.",
    "SJ202": "Order matters, but a drift over the session may explain it.",
    "SJ203": "Sessions differ as wholes: intervals that ignore it are too narrow.",
    "SJ204": "Whole sessions failed: a session effect, not memory of earlier tasks.",
    "SJ205": "Sessions share their tasks: hidden states may stand for hard stretches of the list.",
    "SJ206": "Subdomains come in blocks: states of one can hardly be matched with another's.",
    "SJ207": "A domain has fewer than 20 known outcomes.",
    "SJ208": "A domain has one session: nothing is known of how others begin or differ.",
    "SJ209": "All known outcomes of a domain are the same.",
    "SJ210": "The chains of a posterior did not reach their targets.",
    "SJ211": "Tasks have no verdict that counts: they keep their places.",
    "SJ212": "Positions leave gaps.",
    "SJ213": "Domains without a known outcome are left out.",
    "SJ214": "Scores of hidden states rest on few draws.",
}


@dataclass(frozen=True, slots=True)
class Caution:
    """One caution of a result.

    Attributes
    ----------
    code : str
        A key of `CAUTIONS`.
    message : str
        What it means here, with the numbers.
    """

    code: str
    message: str

    def __post_init__(self) -> None:
        check_choice(self.code, CAUTIONS, name="code")

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def to_dict(self) -> dict[str, str]:
        """Return code and message."""
        return {"code": self.code, "message": self.message}


def skipped_words(n_skipped: int, n_noted: int = 0) -> str:
    """Say how much was skipped while reading, and how often what was kept is not as it stood."""
    parts = []
    if n_skipped:
        were = "was" if n_skipped == 1 else "were"
        parts.append(
            f"{n_of(n_skipped, 'run, task, line or file', 'runs, tasks, lines or files')} "
            f"{were} skipped while reading"
        )
    if n_noted:
        parts.append(f"{n_of(n_noted, 'note')} on what was kept otherwise than it stood")
    return "; ".join(parts)
