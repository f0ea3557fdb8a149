"""Texts as vectors: a built-in embedding by character n-grams, sentence encoders, and their cache.

An embedder turns texts into an array, a row a text, and says by its name which embedding it is:
equal names give equal vectors, so that what was computed once can be kept in a folder. Names of
tools that resemble each other come close, and clusters of vectors are states (see `fit_states`).

Nothing is ever downloaded. The n-gram embedding needs no weights; a sentence encoder is given a
folder that holds its weights, or an installed package that does.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sojourn._files import replacing
from sojourn._validation import check_positive_int

__all__ = ["Embedder", "KnownVectors", "NgramEmbedder", "SentenceEncoder", "embed_texts"]

Vectors = npt.NDArray[np.float32]
_KEY_BYTES = 16
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
# A folder of weights is known by one of these; the first is the encoder's own list of its parts.
_MARKS = ("modules.json", "config_sentence_transformers.json", "config.json")
# What a file that is cut, overwritten or of another sort makes of reading it.
_UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


@runtime_checkable
class Embedder(Protocol):
    """What turns texts into vectors."""

    @property
    def name(self) -> str:
        """Which embedding it is: equal names give equal vectors for equal texts."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Give a vector a text, shape (n_texts, n_dims), float32 and finite."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramEmbedder:
    """Counts of character n-grams, hashed with signs and scaled to length one.

    Attributes
    ----------
    n_dims : int
        Number of hash buckets.
    shortest, longest : int
        Lengths of the n-grams.
    n_projected : int or None
        Dimensions after a random projection; None leaves the buckets as they are.
    seed : int
        Seed of the projection.

    Notes
    -----
    A text is brought to lower case, runs of blanks become one, and one blank is put at each end.
    Each n-gram adds +1 or -1 to one bucket; bucket and sign are bits of its BLAKE2b digest, hence
    the same on every machine. With random signs the inner product of two vectors of counts is
    right on average whatever the collisions (Weinberger et al. 2009). The projection is Gaussian,
    which keeps distances on average (Johnson and Lindenstrauss 1984). A text without letters is
    the zero vector.

    Examples
    --------
    >>> vectors = NgramEmbedder().embed(["search flights", "search hotels", "refund"])
    >>> near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    >>> bool(near > far)
    True
    """

    n_dims: int = 256
    shortest: int = 2
    longest: int = 4
    n_projected: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive_int(self.n_dims, name="n_dims")
        check_positive_int(self.shortest, name="shortest")
        if self.longest < self.shortest:
            raise ValueError(f"longest must be at least shortest, {self.shortest}")
        if self.n_projected is not None:
            check_positive_int(self.n_projected, name="n_projected")

    @property
    def name(self) -> str:
        """Which embedding it is."""
        projected = "" if self.n_projected is None else f"-p{self.n_projected}s{self.seed}"
        return f"ngrams-{self.shortest}-{self.longest}-d{self.n_dims}{projected}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Give a vector of length one (or zero) a text, shape (n_texts, n_dims or n_projected)."""
        vectors = np.zeros((len(texts), self.n_dims))
        places: dict[str, tuple[int, float]] = {}
        for row, text in enumerate(texts):
            for gram, count in self._grams(text).items():
                place = places.get(gram)
                if place is None:
                    place = places[gram] = self._place(gram)
                vectors[row, place[0]] += count * place[1]
        if self.n_projected is not None:
            normal = np.random.default_rng(self.seed).standard_normal
            vectors = vectors @ normal((self.n_dims, self.n_projected))
        length = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
        scaled = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0.0)
        return np.asarray(scaled, dtype=np.float32)

    def _grams(self, text: str) -> Counter[str]:
        words = text.lower().split()
        padded = f" {' '.join(words)} " if words else ""
        lengths = range(self.shortest, self.longest + 1)
        return Counter(padded[i : i + n] for n in lengths for i in range(len(padded) - n + 1))

    def _place(self, gram: str) -> tuple[int, float]:
        data = gram.encode("utf-8", "surrogatepass")
        code = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
        return (code >> 1) % self.n_dims, 1.0 if code & 1 else -1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownVectors:
    """Vectors of texts that were embedded before, for use where their encoder is not at hand.

    Attributes
    ----------
    name : str
        The embedding that they are of.
    vectors : mapping of str to ndarray of shape (n_dims,)
        The vector of each text, one or more, all of the same length.
    """

    name: str
    vectors: Mapping[str, Vectors]

    def __post_init__(self) -> None:
        shapes = {np.shape(vector) for vector in self.vectors.values()}
        if len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise ValueError("vectors must be one or more, all of the same length")

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Give the vector of each text, zeros for one that was never embedded."""
        none = np.zeros_like(next(iter(self.vectors.values())))
        return np.array([self.vectors.get(text, none) for text in texts], dtype=np.float32)


class SentenceEncoder:
    """A sentence-transformers model whose weights are on this machine; nothing is downloaded.

    Parameters
    ----------
    path : path-like, optional
        The folder of the weights.
    package : str, optional
        An installed Python package that holds such a folder. Exactly one of the two is given.
    device : str
        Where to compute.
    batch_size : int
        Texts a pass.

    Raises
    ------
    FileNotFoundError
        If there is no folder of weights.
    ValueError
        If not exactly one of `path` and `package` is given.

    Notes
    -----
    The model is loaded at the first use, with the libraries' switches for working offline set, and
    from the folder only. Vectors are scaled to length one. `name` is a digest of the folder's
    files, so a changed model never finds the vectors of another in a cache.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        package: str | None = None,
        device: str = "cpu",
        batch_size: int = 64,
    ) -> None:
        if (path is None) == (package is None):
            raise ValueError("give either the path of the weights or the package that holds them")
        self.folder = _weights_at(Path(path)) if path is not None else _weights_in(str(package))
        self.device = device
        self.batch_size = check_positive_int(batch_size, name="batch_size")
        self._model: Any = None
        self._name = ""

    def __repr__(self) -> str:
        return f"SentenceEncoder({os.fspath(self.folder)!r})"

    @property
    def name(self) -> str:
        """Which embedding it is, by the content of its files."""
        if not self._name:
            state = hashlib.blake2b(digest_size=_KEY_BYTES)
            for file in sorted(p for p in self.folder.rglob("*") if p.is_file()):
                state.update(file.relative_to(self.folder).as_posix().encode() + b"\0")
                with file.open("rb") as handle:
                    state.update(hashlib.file_digest(handle, "blake2b").digest())
            self._name = f"sentences-{state.hexdigest()}"
        return self._name

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Give a vector of length one a text, shape (n_texts, n_dims).

        Raises
        ------
        ModuleNotFoundError
            If the optional dependency is missing.
        """
        if self._model is None:
            self._model = _load(self.folder, self.device)
        with _offline():
            vectors = self._model.encode(
                list(texts),
                batch_size=self.batch_size,
                convert_to_numpy=True,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return np.asarray(vectors, dtype=np.float32)


def _load(folder: Path, device: str) -> Any:
    with _offline():
        try:
            library = import_module("sentence_transformers")
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "sentence encoders need the package sentence-transformers: "
                "pip install 'sojourn[embed]'. NgramEmbedder needs nothing.",
                name=error.name,
            ) from error
        return library.SentenceTransformer(os.fspath(folder), device=device, local_files_only=True)


@contextmanager
def _offline() -> Iterator[None]:
    """Forbid the model libraries the network while inside, and restore the user's settings."""
    before = {name: os.environ.get(name) for name in _OFFLINE}
    os.environ.update(_OFFLINE)
    # The hub's library reads its switch once, when it is imported; it may be there already.
    constants = sys.modules.get("huggingface_hub.constants")
    switch = getattr(constants, "HF_HUB_OFFLINE", None)
    if switch is not None:
        vars(constants)["HF_HUB_OFFLINE"] = True
    try:
        yield
    finally:
        if switch is not None:
            vars(constants)["HF_HUB_OFFLINE"] = switch
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _weights_at(folder: Path) -> Path:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: there is no such folder. Give the folder that holds the encoder's weights; "
            "names of models are not looked up, since nothing is downloaded."
        )
    if not any((folder / mark).is_file() for mark in _MARKS):
        raise FileNotFoundError(
            f"{folder}: holds no sentence encoder (none of {', '.join(_MARKS)} is in it)"
        )
    return folder.resolve()


def _weights_in(package: str) -> Path:
    # The package is looked at, not imported: it may run anything when it is.
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"no package {package!r} with files of its own is installed")
    for mark in _MARKS:
        for root in spec.submodule_search_locations:
            found = sorted(Path(root).rglob(mark), key=lambda p: (len(p.parts), p))
            if found:
                return found[0].parent.resolve()
    raise FileNotFoundError(
        f"the package {package!r} holds no sentence encoder (none of {', '.join(_MARKS)} is in it)"
    )


def embed_texts(
    texts: Sequence[str], embedder: Embedder, *, cache: str | os.PathLike[str] | None = None
) -> Vectors:
    """Embed texts, each distinct one once, and keep what was computed in a folder.

    Parameters
    ----------
    texts : sequence of str
        The texts, repetition allowed.
    embedder : Embedder
        What embeds them.
    cache : path-like, optional
        A folder for computed vectors, made when it is not there. It holds digests of the texts,
        not the texts, and plain arrays that are read without pickle.

    Returns
    -------
    ndarray of shape (n_texts, n_dims), float32

    Raises
    ------
    ValueError
        If there is no text, or the embedder returns an array of another shape or not finite.

    Warns
    -----
    RuntimeWarning
        If a file of the cache cannot be read; it is written anew.
    """
    if not texts:
        raise ValueError("there is no text to embed")
    distinct = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    wanted = list(distinct)
    if cache is None:
        vectors = _checked(embedder.embed(wanted), len(wanted), embedder.name)
    else:
        vectors = _Cache(Path(cache), embedder).vectors(wanted)
    return vectors[[distinct[text] for text in texts]]


def _checked(vectors: npt.ArrayLike, n_texts: int, name: str) -> Vectors:
    array = np.ascontiguousarray(vectors, dtype=np.float32)
    if array.ndim != 2 or array.shape[0] != n_texts or array.shape[1] == 0:
        raise ValueError(
            f"embedder {name!r} gave an array of shape {array.shape} for {n_texts} texts, "
            "not a row a text"
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"embedder {name!r} gave values that are not finite")
    return array


class _Cache:
    """Vectors of one embedder in a folder: sixteen files, by the first digit of a text's digest."""

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        digest = hashlib.blake2b(embedder.name.encode(), digest_size=_KEY_BYTES).hexdigest()
        self.folder = folder / digest
        self.embedder = embedder

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Give the vectors of distinct texts, the missing ones computed and kept."""
        keys = [_text_key(text) for text in texts]
        shards = sorted({key[:1] for key in keys})
        known = {shard: self._read(self._file(shard)) for shard in shards}
        widths = Counter(v.size for vectors in known.values() for v in vectors.values())
        missing = [i for i, key in enumerate(keys) if key not in known[key[:1]]]
        fresh: dict[str, Vectors] = {}
        if missing:
            made = self._compute([texts[i] for i in missing])
            if set(widths) - {made.shape[1]}:
                self._warn(self.folder, f"its vectors do not have {made.shape[1]} dimensions")
                known = {shard: {} for shard in shards}
                missing, made = list(range(len(texts))), self._compute(texts)
            fresh = {keys[i]: made[row] for row, i in enumerate(missing)}
            self._keep(known, fresh)
        elif len(widths) > 1:
            self._warn(self.folder, "its vectors differ in their dimensions")
            made = self._compute(texts)
            fresh = dict(zip(keys, made, strict=True))
            self._keep({shard: {} for shard in shards}, fresh)
        return np.stack([fresh[k] if k in fresh else known[k[:1]][k] for k in keys])

    def _compute(self, texts: Sequence[str]) -> Vectors:
        return _checked(self.embedder.embed(texts), len(texts), self.embedder.name)

    def _file(self, shard: str) -> Path:
        return self.folder / f"{shard}.npz"

    def _keep(self, known: dict[str, dict[str, Vectors]], fresh: dict[str, Vectors]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for shard in sorted({key[:1] for key in fresh}):
            entries = known[shard] | {k: v for k, v in fresh.items() if k[:1] == shard}
            keys = np.array([list(bytes.fromhex(key)) for key in entries], dtype=np.uint8)
            with replacing(self._file(shard)) as temporary, temporary.open("wb") as file:
                np.savez(file, keys=keys, vectors=np.stack(list(entries.values())))

    def _read(self, file: Path) -> dict[str, Vectors]:
        if not file.exists():
            return {}
        try:
            # Opened here, since a file that is no archive would else be left open.
            with file.open("rb") as handle, np.load(handle, allow_pickle=False) as arrays:
                keys, vectors = arrays["keys"], arrays["vectors"]
        except _UNREADABLE as error:
            self._warn(file, f"it cannot be read ({type(error).__name__})")
            return {}
        fits = (
            keys.dtype == np.uint8
            and vectors.dtype == np.float32
            and keys.ndim == vectors.ndim == 2
            and keys.shape == (vectors.shape[0], _KEY_BYTES)
            and bool(np.all(np.isfinite(vectors)))
        )
        if not fits:
            self._warn(file, "it does not hold keys and vectors")
            return {}
        return {key.tobytes().hex(): row for key, row in zip(keys, vectors, strict=True)}

    def _warn(self, file: Path, reason: str) -> None:
        message = f"cache of embeddings: {file} is not used, {reason}; it is written anew"
        warnings.warn(message, RuntimeWarning, stacklevel=4)


def _text_key(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=_KEY_BYTES).hexdigest()
