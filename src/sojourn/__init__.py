"""Sojourn: how reliable an LLM agent is over time, and how far each figure may be believed."""

from __future__ import annotations

__version__ = "0.1.0"
