"""Write what a benchmark measured, with the machine and the versions it was measured on."""

from __future__ import annotations

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def pin_threads() -> None:
    """Use one thread everywhere; call it before NumPy is imported."""
    for name in THREADS:
        os.environ[name] = "1"


def versions(*packages: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def write(name: str, measured: dict[str, Any], *packages: str) -> Path:
    """Write ``results/<name>.json`` and return its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {
        "benchmark": name,
        "machine": {"processor": _processor(), "cores": os.cpu_count()},
        "versions": versions("numpy", "numba", "pyarrow", *packages),
        "load_average": os.getloadavg()[0],
        **measured,
    }
    path.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return path


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
