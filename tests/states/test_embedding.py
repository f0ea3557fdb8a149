"""N-gram vectors by hand and against scikit-learn's counts, the cache, and the offline adapter."""

from __future__ import annotations

import json
import os
import pickle
import sys
import types
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from sojourn.corpus import CorpusBuilder, TraceCorpus
from sojourn.errors import NothingUsableError
from sojourn.records import Outcome, Step, Trace
from sojourn.states import fit_states
from sojourn.states.embedding import Embedder, NgramEmbedder, SentenceEncoder, embed_texts

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=1, max_size=8)


class Counting:
    """Embeds a text by its length and first letter, and keeps count of what it was asked."""

    def __init__(self, name: str = "counting", n_dims: int = 2) -> None:
        self.name = name
        self.n_dims = n_dims
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        rows = [[len(t), ord(t[0]) if t else 0, *[1] * self.n_dims] for t in texts]
        return np.array(rows, dtype=np.float32)[:, : self.n_dims]


def test_ngrams_without_collisions_have_the_cosines_of_scikit_learns_counts() -> None:
    texts = ["search flights", "Search  hotels", "book flight", "refund", "a"]
    vectors = NgramEmbedder(n_dims=1 << 16, shortest=2, longest=3).embed(texts)
    padded = [f" {' '.join(t.lower().split())} " for t in texts]
    counts = CountVectorizer(analyzer="char", ngram_range=(2, 3), lowercase=False)
    known = counts.fit_transform(padded).toarray().astype(float)
    known /= np.linalg.norm(known, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors @ vectors.T, known @ known.T, atol=1e-6)


def test_hashing_is_the_same_in_every_process() -> None:
    # b2sum -l 64 of " a " begins with the byte 91, of " c " with f0: the lowest bit is the sign,
    # the next four are the bucket.
    embedder = NgramEmbedder(n_dims=16, shortest=3, longest=3)
    vectors = embedder.embed(["a", "c"])
    assert np.argwhere(vectors).tolist() == [[0, 8], [1, 8]]
    assert vectors[:, 8].tolist() == [1.0, -1.0]


@given(texts=TEXTS, projected=st.sampled_from([None, 5]))
def test_vectors_have_length_one_and_texts_stand_alone(
    texts: list[str], projected: int | None
) -> None:
    embedder = NgramEmbedder(n_dims=32, n_projected=projected)
    vectors = embedder.embed(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(texts), 5 if projected else 32)
    length = np.linalg.norm(vectors, axis=1)
    # Signs may cancel in one bucket; else the length is one.
    assert np.all(np.isclose(length, 1.0, atol=1e-5) | (length == 0.0))
    for text, vector in zip(texts, vectors, strict=True):
        # The product with the projection may round otherwise for one row than for many.
        np.testing.assert_allclose(embedder.embed([text])[0], vector, atol=1e-6)
        if not text.split():
            assert not vector.any()


def test_signed_inner_products_are_right_on_average() -> None:
    # Over embeddings with other buckets (other n_dims) the mean is the exact product.
    texts = ["open the file", "open that pile"]
    exact = NgramEmbedder(n_dims=1 << 20).embed(texts)
    truth = float(exact[0] @ exact[1])
    products = []
    for n_dims in range(101, 501):
        raw = NgramEmbedder(n_dims=n_dims).embed(texts)
        products.append(float(raw[0] @ raw[1]))
    error = np.std(products) / np.sqrt(len(products))
    assert abs(np.mean(products) - truth) < 4 * error + 0.01


def test_a_projection_keeps_distances_about() -> None:
    rng = np.random.default_rng(2)
    texts = ["".join(rng.choice(list("abcdefgh"), size=30)) for _ in range(20)]
    full = NgramEmbedder(n_dims=1024).embed(texts)
    small = NgramEmbedder(n_dims=1024, n_projected=256).embed(texts)
    # The standard deviation of a projected cosine is about sqrt((1 + c^2) / 256) <= 0.09.
    assert np.abs(full @ full.T - small @ small.T).max() < 5 * 0.09
    again = NgramEmbedder(n_dims=1024, n_projected=256).embed(texts)
    np.testing.assert_array_equal(small, again)
    other = NgramEmbedder(n_dims=1024, n_projected=256, seed=1)
    assert not np.array_equal(other.embed(texts), small)


def test_names_tell_settings_apart() -> None:
    embedders = [
        NgramEmbedder(),
        NgramEmbedder(n_dims=64),
        NgramEmbedder(longest=5),
        NgramEmbedder(n_projected=16),
        NgramEmbedder(n_projected=16, seed=1),
    ]
    assert len({e.name for e in embedders}) == len(embedders)
    assert all(isinstance(e, Embedder) for e in embedders)
    for setting in ({"n_dims": 0}, {"shortest": 0}, {"longest": 1}, {"n_projected": 0}):
        with pytest.raises(ValueError, match="must be"):
            NgramEmbedder(**setting)


def test_each_distinct_text_is_embedded_once(tmp_path: Path) -> None:
    embedder = Counting()
    texts = ["b", "aa", "b", "", "aa"]
    vectors = embed_texts(texts, embedder)
    assert embedder.asked == ["b", "aa", ""]
    assert vectors.tolist() == [[1, 98], [2, 97], [1, 98], [0, 0], [2, 97]]
    with pytest.raises(ValueError, match="no text"):
        embed_texts([], embedder)


def test_the_cache_is_asked_before_the_embedder(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "cache"
    texts = [f"text {k}" for k in range(60)]
    one, two = Counting(), Counting()
    first = embed_texts(texts[:40], one, cache=folder)
    again = embed_texts([*texts, "text 0"], two, cache=folder)
    assert one.asked == texts[:40]
    assert two.asked == texts[40:]
    np.testing.assert_array_equal(again[:40], first)
    np.testing.assert_array_equal(again, Counting().embed([*texts, "text 0"]))
    # Another embedder finds nothing of the first one's.
    other = Counting("other", 3)
    assert embed_texts(texts, other, cache=folder).shape == (60, 3)
    assert len(other.asked) == 60
    files = sorted(folder.rglob("*"))
    assert all(f.is_dir() or f.suffix == ".npz" for f in files)
    assert not any(b"text 1" in f.read_bytes() for f in files if f.is_file())


@pytest.mark.parametrize(
    "fault", ["cut", "noise", "pickle", "object", "npy", "shape", "nan", "empty"]
)
def test_a_broken_file_is_told_and_written_anew(tmp_path: Path, fault: str) -> None:
    embed_texts(["one"], Counting(), cache=tmp_path)
    (file,) = tmp_path.rglob("*.npz")
    whole = file.read_bytes()
    if fault == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif fault == "noise":
        file.write_bytes(whole[:60] + bytes(b ^ 255 for b in whole[60:90]) + whole[90:])
    elif fault == "pickle":
        file.write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    elif fault == "object":
        bombs = np.array([[Bomb(tmp_path / "exploded")]], dtype=object)
        with file.open("wb") as handle:
            np.savez(handle, keys=np.zeros((1, 16), np.uint8), vectors=bombs)
    elif fault == "npy":
        with file.open("wb") as handle:
            np.save(handle, np.zeros(3))
    elif fault == "empty":
        file.write_bytes(b"")
    else:
        keys, vectors = np.zeros((1, 16), np.uint8), np.full((1, 2), np.nan, np.float32)
        with file.open("wb") as handle:
            np.savez(handle, keys=keys if fault == "nan" else keys[:, :3], vectors=vectors)
    embedder = Counting()
    with pytest.warns(RuntimeWarning, match="written anew"):
        vectors = embed_texts(["one"], embedder, cache=tmp_path)
    assert vectors.tolist() == [[3, 111]]
    assert embedder.asked == ["one"]
    third = Counting()
    assert embed_texts(["one"], third, cache=tmp_path).tolist() == [[3, 111]]
    assert third.asked == []
    assert not (tmp_path / "exploded").exists()


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.folder,)


def test_vectors_of_other_dimensions_are_not_mixed(tmp_path: Path) -> None:
    texts = [f"t{k}" for k in range(30)]
    embed_texts(texts[:20], Counting(n_dims=2), cache=tmp_path)
    changed = Counting(n_dims=3)
    with pytest.warns(RuntimeWarning, match="dimensions"):
        vectors = embed_texts(texts, changed, cache=tmp_path)
    np.testing.assert_array_equal(vectors, Counting(n_dims=3).embed(texts))
    last = Counting(n_dims=3)
    np.testing.assert_array_equal(embed_texts(texts, last, cache=tmp_path), vectors)
    assert last.asked == []


def test_what_an_embedder_returns_is_checked() -> None:
    class Bad(Counting):
        answer: np.ndarray = np.zeros((3, 2))

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            return self.answer

    bad = Bad()
    for answer in (np.zeros((3, 2)), np.zeros(2), np.zeros((2, 0))):
        bad.answer = answer
        with pytest.raises(ValueError, match="shape"):
            embed_texts(["a", "b"], bad)
    bad.answer = np.array([[np.inf], [0.0]])
    with pytest.raises(ValueError, match="finite"):
        embed_texts(["a", "b"], bad)


# --- the adapter ----------------------------------------------------------------------------


def weights(folder: Path, word: str = "one") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "modules.json").write_text(json.dumps([word]))
    (folder / "model.safetensors").write_bytes(word.encode())
    return folder


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Stand in for the sentence encoder's library and write down how it is called."""
    calls: list[dict[str, object]] = []

    class SentenceTransformer:
        def __init__(self, folder: str, **settings: object) -> None:
            calls.append({"folder": folder, "offline": os.environ.get("HF_HUB_OFFLINE")} | settings)

        def encode(self, texts: list[str], **settings: object) -> np.ndarray:
            calls.append({"n": len(texts), "offline": os.environ.get("TRANSFORMERS_OFFLINE")})
            assert settings["normalize_embeddings"] is True
            return np.eye(len(texts), 3, dtype=np.float64)

    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    return calls


def test_the_adapter_loads_a_folder_offline_and_only_once(
    tmp_path: Path, library: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "0")
    constants = types.ModuleType("huggingface_hub.constants")
    constants.HF_HUB_OFFLINE = False  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub.constants", constants)
    encoder = SentenceEncoder(weights(tmp_path / "model"))
    assert isinstance(encoder, Embedder)
    assert library == []
    vectors = embed_texts(["a", "b", "a"], encoder)
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    encoder.embed(["c"])
    loaded, *encoded = library
    assert loaded["folder"] == str((tmp_path / "model").resolve())
    assert loaded["local_files_only"] is True
    assert loaded["offline"] == "1"
    assert [call["offline"] for call in encoded] == ["1", "1"]
    assert "HF_HUB_OFFLINE" not in os.environ
    assert os.environ["TRANSFORMERS_OFFLINE"] == "0"
    assert constants.HF_HUB_OFFLINE is False  # type: ignore[attr-defined]


def test_the_adapters_name_is_that_of_its_weights(tmp_path: Path) -> None:
    one, two = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert SentenceEncoder(one).name == SentenceEncoder(two).name
    other = weights(tmp_path / "c", "two")
    assert SentenceEncoder(other).name != SentenceEncoder(one).name


def test_weights_are_found_in_an_installed_package_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_encoder"
    folder = weights(package / "data" / "model")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "empty_encoder").mkdir()
    (tmp_path / "empty_encoder" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert SentenceEncoder(package="some_encoder").folder == folder.resolve()
    with pytest.raises(FileNotFoundError, match="holds no sentence encoder"):
        SentenceEncoder(package="empty_encoder")
    for name in ("not_there_at_all", "os.path", "sentence-transformers/all"):
        with pytest.raises(FileNotFoundError, match="no package"):
            SentenceEncoder(package=name)


def test_missing_weights_and_a_missing_library_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError, match="nothing is downloaded"):
        SentenceEncoder("all-MiniLM-L6-v2")
    with pytest.raises(FileNotFoundError, match="holds no sentence encoder"):
        SentenceEncoder(tmp_path)
    for arguments in ({}, {"path": tmp_path, "package": "x"}):
        with pytest.raises(ValueError, match="either"):
            SentenceEncoder(**arguments)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    encoder = SentenceEncoder(weights(tmp_path / "model"))
    with pytest.raises(ModuleNotFoundError, match=r"sojourn\[embed\]"):
        encoder.embed(["a"])


# --- states ---------------------------------------------------------------------------------


def corpus_of(*paths: list[str]) -> TraceCorpus:
    builder = CorpusBuilder()
    for k, path in enumerate(paths):
        steps = tuple(Step(name=name) for name in path)
        builder.add(Trace(task_id=f"t{k}", outcome=Outcome.SUCCESS, steps=steps))
    return builder.build()


SEARCH = [f"search_{what}" for what in ("flights", "hotels", "cars", "trains")]
REFUND = [f"refund_{what}" for what in ("order", "ticket", "payment", "deposit")]


def test_names_that_resemble_each_other_share_a_state(tmp_path: Path) -> None:
    corpus = corpus_of(*([*SEARCH, *REFUND] for _ in range(5)))
    embedder = NgramEmbedder()
    model = fit_states(corpus, embedder=embedder, n_states=2, cache=tmp_path)
    assert model.mode == "clusters"
    assert model.order_free
    states = model.transform(corpus).states[:8]
    assert len(set(states[:4].tolist())) == len(set(states[4:].tolist())) == 1
    assert states[0] != states[4]
    assert list(tmp_path.rglob("*.npz"))
    # A name never seen joins those that it resembles; indicators could not say.
    new = corpus_of(["search_restaurants", "refund_voucher"])
    assert model.transform(new).states.tolist() == [states[0], states[4]]


def test_embedding_needs_names_and_clusters() -> None:
    embedder = NgramEmbedder()
    with pytest.raises(NothingUsableError, match="nothing to embed"):
        fit_states(corpus_of(["", " "]), embedder=embedder)
    with pytest.raises(ValueError, match="must hold 'name'"):
        fit_states(corpus_of(["a"]), embedder=embedder, fields=("kind",))
    with pytest.raises(ValueError, match="need mode 'clusters'"):
        fit_states(corpus_of(["a"]), embedder=embedder, mode="names")
