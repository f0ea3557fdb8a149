"""Sessions: reliability over ordered tasks whose outcomes may depend on one another."""

from __future__ import annotations

__all__: list[str] = []
