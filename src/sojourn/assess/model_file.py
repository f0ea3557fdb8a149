"""A fitted process with its states, kept in one JSON file: written at once, read warily.

The file holds what gives the same figures again, bit for bit: the rule from steps to states, the
parameters of the process, and those of its refits to resampled tasks, which intervals are made of.
It holds no text of any log but names of steps and states. A digest over all of it tells a file that
was cut short or changed by hand; since whoever changes a file can compute a digest as well,
everything is checked again when it is read, and nothing in it is ever run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._files import write_text
from sojourn.assess.state_file import state_model_from_dict, state_model_to_dict
from sojourn.errors import ReaderError
from sojourn.estimates import Estimate, Status
from sojourn.process.base import TraceProcess
from sojourn.process.draws import RefittedDraws
from sojourn.process.unrolled import unroll
from sojourn.states.model import StateModel
from sojourn.tables import clean, n_of

__all__ = ["FORMAT_VERSION", "FittedModel", "ModelFileError", "read_model", "write_model"]

FORMAT_VERSION = 1
_MAX_BYTES = 256 * 2**20
_MAX_HORIZON = 100_000
_MAX_CELLS = 50_000_000
_MAX_DRAWS = 100_000
_CHECKED_STEPS = 1000
_SLACK = 1e-9
_DTYPES = ("float64", "int64", "int32", "int8", "bool", "str")
# Parameters that may be infinite: a coefficient that rules an event out, a penalty that holds at 0.
_MAY_BE_INFINITE = frozenset({"intercept", "penalty", "optima"})
# Kind of process -> where it is, and which of its parameters a refit changes.
_KINDS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "homogeneous": ("homogeneous", "HomogeneousFit", ("table",)),
    "progress": (
        "progress",
        "ProgressFit",
        ("intercept", "spline", "state_spline", "initial"),
    ),
    "order": ("order_k", "OrderFit", ("rows", "start", "contexts", "identified")),
    "semi-markov": ("semi_markov", "SemiMarkovFit", ()),
    "phases": ("phases", "PhaseFit", ()),
    "mixture": ("mixture", "MixtureFit", ("weights", "rows")),
}


class ModelFileError(ReaderError):
    """A model file cannot be used: of another version, cut short, changed, or not consistent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedModel:
    """A fitted process, the rule that gives a step its state, and what it all rests on.

    Attributes
    ----------
    process : TraceProcess
        The fit.
    states : StateModel
        Which state a step is in.
    draws : RefittedDraws
        Refits to resampled tasks.
    horizon : int
        Steps of the longest run: later steps are extrapolation.
    trained_on : mapping
        ``n_runs``, ``n_tasks``, ``n_units``, the ``digest`` of the paths, how ``states`` were
        asked for, and ``notes`` on how it was made.
    group : mapping
        Which runs were fitted: task_set, agent, model.
    policy : mapping
        How limits and faults were counted.
    certificate : list of mappings, or None
        The claims that were decided; None where none was.
    step_names : frozenset of str
        Names of the steps that were seen.
    versions : mapping
        Of the programs that made the fit.
    """

    process: TraceProcess
    states: StateModel
    draws: RefittedDraws = field(repr=False, default_factory=RefittedDraws)
    horizon: int
    trained_on: Mapping[str, Any]
    group: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    certificate: list[Mapping[str, Any]] | None = field(repr=False, default=None)
    step_names: frozenset[str] = field(repr=False, default=frozenset())
    versions: Mapping[str, str] = field(repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        if tuple(self.process.state_names) != tuple(self.states.state_names):
            raise ValueError("the process and the rule of states name different states")
        if not 1 <= self.horizon <= _MAX_HORIZON:
            raise ValueError(f"horizon must lie in 1 .. {_MAX_HORIZON}; got {self.horizon}")

    def __str__(self) -> str:
        trained = self.trained_on
        lines = [
            f"{self.process.name} process, {n_of(self.states.n_states, 'state')}, fitted to "
            f"{n_of(trained['n_runs'], 'run')} of {n_of(trained['n_tasks'], 'task')}, longest "
            f"{n_of(self.horizon, 'step')}",
        ]
        lines += [f"  {line}" for line in self.claim_lines()]
        if self.draws.note is not None:
            lines.append(f"  {self.draws.note}")
        return "\n".join(lines)

    @property
    def n_units(self) -> int:
        """Units that were resampled for the draws."""
        return int(self.trained_on["n_units"])

    def claim_lines(self) -> list[str]:
        """Say in one line a claim what the certificate decided."""
        if self.certificate is None:
            return ["not certified: sojourn assess says what it may be believed for"]
        return [
            f"{clean(claim.get('claim', '-'))}: {clean(claim.get('verdict', '-'))}"
            for claim in self.certificate
        ]

    def caution(self, name: str) -> str | None:
        """Return the caution under figures that rest on a claim; None where it is accepted."""
        verdict = self._verdict(name)
        if verdict == "accepted":
            return None
        return f"caution: these figures rest on the claim {name}, which is {verdict}"

    def resting_on(self, name: str, estimate: Estimate) -> Estimate:
        """Return an estimate that is no more than inconclusive where a claim is not accepted."""
        doubt = self.doubt(name)
        if doubt is None or estimate.value is None:
            return estimate
        reasons = (*estimate.reasons, doubt)
        return replace(estimate, status=Status.INCONCLUSIVE, reasons=reasons)

    def doubt(self, name: str) -> str | None:
        """Return why figures that rest on a claim are not supported; None where it is accepted."""
        verdict = self._verdict(name)
        return None if verdict == "accepted" else f"the claim {name} is {verdict}"

    def _verdict(self, name: str) -> str:
        verdict = "not decided"
        for claim in self.certificate or ():
            if claim.get("claim") == name:
                verdict = clean(claim.get("verdict", "-"), limit=20)
        return verdict


def write_model(model: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write a model, all or nothing.

    Raises
    ------
    ValueError
        If it holds what a file cannot: a number that is not finite, or a state model that rests on
        an encoder of its own.
    """
    document = _document(model)
    document["digest"] = _digest(document)
    lines = [f"{json.dumps(key)}: {_dump(value)}" for key, value in document.items()]
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def read_model(path: str | os.PathLike[str]) -> FittedModel:
    """Read a model and check all of it.

    Raises
    ------
    ModelFileError
        If the file is no model, of another version, cut short, changed by hand, or holds what no
        fit can hold.
    OSError
        If it cannot be read.
    """
    name = clean(Path(path).name)
    document = _parse(Path(path), name)
    try:
        return _model(document)
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None
    except (
        ArithmeticError,
        AttributeError,
        IndexError,
        KeyError,
        MemoryError,
        TypeError,
        ValueError,
    ) as error:
        detail = clean(f"{type(error).__name__}: {error}", limit=200)
        raise ModelFileError(f"{name}: its parts do not fit each other ({detail})") from None


def _document(model: FittedModel) -> dict[str, Any]:
    kind = _kind(model.process.name)
    return {
        "sojourn_model": FORMAT_VERSION,
        "process": model.process.name,
        "states": state_model_to_dict(model.states),
        "parameters": _encode_all(_parameters(model.process)),
        "draws": _encode_draws(model.process, model.draws, _KINDS[kind][2]),
        "horizon": model.horizon,
        "trained_on": dict(model.trained_on),
        "group": dict(model.group),
        "policy": dict(model.policy),
        "certificate": None if model.certificate is None else [dict(c) for c in model.certificate],
        "step_names": sorted(model.step_names),
        "versions": dict(model.versions),
    }


def _parse(path: Path, name: str) -> dict[str, Any]:
    with path.open("rb") as file:
        raw = file.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise ModelFileError(f"{name}: larger than {_MAX_BYTES >> 20} MiB, which no model is")
    try:
        document = json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ModelFileError(
            f"{name}: not a model, or cut short; write it again with sojourn fit"
        ) from None
    if not isinstance(document, dict) or "sojourn_model" not in document:
        raise ModelFileError(f"{name}: not a model that sojourn fit wrote")
    version = document["sojourn_model"]
    if type(version) is not int or version != FORMAT_VERSION:
        raise ModelFileError(
            f"{name}: of format {clean(version, limit=20)}, this version reads {FORMAT_VERSION}; "
            "fit the runs again"
        )
    stated = document.pop("digest", None)
    if stated != _digest(document):
        raise ModelFileError(
            f"{name}: its digest does not fit what it holds, so it was changed or damaged; "
            "fit the runs again"
        )
    return document


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _model(document: Mapping[str, Any]) -> FittedModel:
    states = state_model_from_dict(_mapping(document, "states"))
    trained = _mapping(document, "trained_on")
    for key in ("n_runs", "n_tasks", "n_units"):
        if type(trained[key]) is not int or trained[key] < 0:
            raise ModelFileError(f"trained_on.{key} is no count")
    parameters = _decode_all(_mapping(document, "parameters"))
    restore = _restorer(document["process"], states.state_names)
    process = restore(parameters)
    horizon = document["horizon"]
    if type(horizon) is not int or not 1 <= horizon <= _MAX_HORIZON:
        raise ModelFileError(f"horizon must lie in 1 .. {_MAX_HORIZON}")
    _check_process(process, document["process"], horizon)
    draws = []
    for changed in _decode_draws(_mapping(document, "draws"), parameters):
        draw = restore(parameters | changed)
        _check_draw(draw, document["process"], horizon)
        draws.append(draw)
    n_lost, reason = document["draws"]["n_lost"], document["draws"]["reason"]
    if type(n_lost) is not int or not 0 <= n_lost <= _MAX_DRAWS:
        raise ModelFileError("draws.n_lost is no count")
    certificate = document["certificate"]
    if certificate is not None and not (
        isinstance(certificate, list) and all(isinstance(claim, dict) for claim in certificate)
    ):
        raise ModelFileError("certificate is neither null nor a list of claims")
    names = document["step_names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelFileError("step_names is no list of names")
    return FittedModel(
        process=process,
        states=states,
        draws=RefittedDraws(
            processes=tuple(draws),
            n_lost=n_lost,
            reason=None if reason is None else clean(reason, limit=200),
        ),
        horizon=horizon,
        trained_on=trained,
        group=_mapping(document, "group"),
        policy=_mapping(document, "policy"),
        certificate=certificate,
        step_names=frozenset(names),
        versions=_mapping(document, "versions"),
    )


def _check_process(process: TraceProcess, name: str, horizon: int) -> None:
    """Check that rows sum to one and that tables of the process stay within reason."""
    if process.name != name:
        raise ModelFileError(f"its parameters are of a {clean(process.name)} process, not {name}")
    chain = unroll(process)
    if horizon * chain.n_inner > _MAX_CELLS:
        raise ModelFileError(f"{horizon} steps of {chain.n_inner} states are too many")


def _check_draw(draw: TraceProcess, name: str, horizon: int) -> None:
    """Check the curves of a refit: shares of runs that only grow, together at most all."""
    last = min(horizon, _CHECKED_STEPS)
    curves = np.stack((draw.success_within(last), draw.failure_within(last)))
    total = curves.sum(axis=0)
    if draw.name != name or not (
        np.all(np.isfinite(curves))
        and np.all(np.diff(curves, axis=1, prepend=0.0) >= -_SLACK)
        and np.all(total <= 1.0 + _SLACK)
    ):
        raise ModelFileError("a draw is no law of runs")


def _mapping(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = document[key]
    if not isinstance(value, dict):
        raise ModelFileError(f"{key} is no JSON object")
    return value


def _kind(name: object) -> str:
    kind = str(name)
    if kind not in _KINDS:
        kind = kind.rpartition("-")[0]
    if kind not in _KINDS:
        raise ModelFileError(f"it is of a process that is not known, {clean(name, limit=40)!r}")
    return kind


def _parameters(process: Any) -> dict[str, npt.NDArray[Any]]:
    return {name: np.asarray(value) for name, value in process.parameters().items()}


def _restorer(
    name: object, state_names: tuple[str, ...]
) -> Callable[[dict[str, npt.NDArray[Any]]], TraceProcess]:
    """Return the function from parameters to the process of that name."""
    kind = _kind(name)
    module, class_name, _ = _KINDS[kind]
    made = getattr(import_module(f"sojourn.process.{module}"), class_name)

    def restore(parameters: dict[str, npt.NDArray[Any]]) -> TraceProcess:
        if "state_names" in parameters:
            process: TraceProcess = made.from_parameters(parameters)
        else:
            process = made.from_parameters(parameters, state_names=state_names)
        if tuple(process.state_names) != state_names:
            raise ModelFileError("its process names other states than its rule of states")
        return process

    return restore


def _encode_all(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    return {name: _encode(array, name) for name, array in arrays.items()}


def _encode(array: npt.NDArray[Any], name: str) -> dict[str, Any]:
    dtype = "str" if array.dtype.kind == "U" else array.dtype.name
    if dtype not in _DTYPES:
        dtype = "int64" if array.dtype.kind in "iu" else "float64"
    flat = array.astype(np.str_ if dtype == "str" else dtype).ravel()
    data: list[Any] = flat.tolist()
    if dtype == "float64" and not np.all(np.isfinite(flat)):
        if name not in _MAY_BE_INFINITE or np.any(np.isnan(flat)):
            raise ValueError(f"the parameter {name} is not finite; a file cannot hold it")
        data = [x if math.isfinite(x) else ("inf" if x > 0 else "-inf") for x in data]
    return {"shape": list(array.shape), "dtype": dtype, "data": data}


def _decode_all(arrays: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    return {name: _decode(entry, name) for name, entry in arrays.items()}


def _decode(entry: Any, name: str) -> npt.NDArray[Any]:
    """Make an array of its entry in the file, checked."""
    label = clean(name, limit=40)
    if not isinstance(entry, dict) or set(entry) != {"shape", "dtype", "data"}:
        raise ModelFileError(f"the parameter {label} has no shape, dtype and data")
    shape, dtype, data = entry["shape"], entry["dtype"], entry["data"]
    if dtype not in _DTYPES or not isinstance(data, list) or not isinstance(shape, list):
        raise ModelFileError(f"the parameter {label} is of no known type")
    if not all(type(n) is int and n >= 0 for n in shape) or math.prod(shape) != len(data):
        raise ModelFileError(f"the parameter {label} has {len(data)} numbers, not {shape}")
    if dtype == "float64":
        wanted: tuple[type, ...] = (float, int)
        if name in _MAY_BE_INFINITE:
            data = [float(x) if x in ("inf", "-inf") else x for x in data]
    else:
        wanted = {"bool": (bool,), "str": (str,)}.get(dtype, (int,))
    if not all(type(x) in wanted for x in data):
        raise ModelFileError(f"the parameter {label} holds what is no {dtype}")
    made: npt.NDArray[Any] = np.array(data, dtype=np.str_ if dtype == "str" else dtype)
    if dtype == "float64" and name not in _MAY_BE_INFINITE and not np.all(np.isfinite(made)):
        raise ModelFileError(f"the parameter {label} is not finite")
    return made.reshape(shape)


def _encode_draws(
    process: TraceProcess, draws: RefittedDraws, names: tuple[str, ...]
) -> dict[str, Any]:
    """Keep of each refit what differs from the fit: the named parameters, or all that change."""
    own = _parameters(process)
    drawn = [_parameters(draw) for draw in draws]
    if not names:
        names = tuple(
            name for name in own if any(not np.array_equal(own[name], draw[name]) for draw in drawn)
        )
    return {
        "n": len(draws),
        "n_lost": draws.n_lost,
        "reason": draws.reason,
        "parameters": [_encode_all({name: draw[name] for name in names}) for draw in drawn],
    }


def _decode_draws(
    entry: Mapping[str, Any], own: Mapping[str, npt.NDArray[Any]]
) -> list[dict[str, npt.NDArray[Any]]]:
    n, rows = entry["n"], entry["parameters"]
    if not isinstance(rows, list) or n != len(rows) or len(rows) > _MAX_DRAWS:
        raise ModelFileError("its draws are not as many as it says")
    draws = []
    for row in rows:
        if not isinstance(row, dict) or not set(row) <= set(own):
            raise ModelFileError("a draw has parameters that the fit has not")
        draws.append(_decode_all(row))
    return draws


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
