"""GPCA on a store, computed by the workers of a Dask cluster."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from distributed import Client
from sklearn.utils.validation import check_is_fitted

from .. import __version__
from ..errors import InputError, ParameterError
from ..estimators import GPCA as LocalGPCA
from ..estimators.fit import Eigenpairs, eigenpairs_of, learned_attributes
from ..estimators.problem import Parameters, check_n_components
from ..estimators.training_nodes import TrainingNodes
from ..estimators.validation import check_ghost_labels, forget_fit, is_learned
from ..graph import Graph
from ..utils.array_files import Entry, digest
from ..utils.atomic import check_new_folder
from . import tasks
from .cluster import check_workers
from .embedding_parts import EmbeddingParts
from .plan import Plan, make_plan
from .run import Run, issue_warnings, move_folder
from .store import Store
from .tasks import FAN_IN, Work
from .writing import write_whole

Format = Literal["parquet", "npy"]


class GPCA(LocalGPCA):
    """:class:`gpcanet.GPCA` on a store, with the same parameters and learned attributes.

    Workers solve for blocks of columns of the features and do not communicate. They exchange
    files in a scratch folder, which the client and all workers must see. A run that was stopped
    is resumed from these files. Results do not depend on the number of workers.

    ``memory_limit`` is the private memory of a worker, without mapped files. ``objective_`` is
    accurate to ``tol``. ``eigen_solver="lanczos"`` and ``keep_training_nodes=True`` are not
    supported.

    Examples
    --------
    >>> import tempfile
    >>> from gpcanet.datasets.synthetic import block_model
    >>> from gpcanet.distributed import GPCA, local_cluster
    >>> from gpcanet.distributed.writing import write_dataset
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     store = write_dataset(block_model(100, 300), f"{folder}/store")
    ...     with local_cluster(2) as client:
    ...         model = GPCA(2).fit(store, client=client, scratch=f"{folder}/scratch")
    """

    def fit(  # type: ignore[override]
        self,
        store: Store | str | os.PathLike[str],
        y: Any = None,
        *,
        client: Client,
        scratch: str | os.PathLike[str],
        resume: bool = False,
        columns_per_task: int | None = None,
    ) -> Self:
        """Learn the components W.

        Parameters
        ----------
        store : Store or path-like
        y : array-like, optional
            Labels as in :class:`gpcanet.GPCA`, by default those of the store. Used only if
            beta > 0.
        client : distributed.Client
        scratch : path-like
            Folder for the files of the run, which are removed when it is complete. Its parent
            must exist.
        resume : bool
            Whether to continue the run in the scratch folder, if there is one.
        columns_per_task : int, optional
            Largest number of columns of a solve, by default those of a block of the store.

        Returns
        -------
        self : GPCA
        """
        self._fit_store(store, y, client, scratch, None, "parquet", "id", resume, columns_per_task)
        return self

    def fit_transform(  # type: ignore[override]
        self,
        store: Store | str | os.PathLike[str],
        y: Any = None,
        *,
        client: Client,
        scratch: str | os.PathLike[str],
        output: str | os.PathLike[str],
        format: Format = "parquet",
        id_name: str = "id",
        resume: bool = False,
        columns_per_task: int | None = None,
    ) -> EmbeddingParts:
        """Learn W and let the workers write Z.

        Parameters are those of ``fit``, and:

        Parameters
        ----------
        output : path-like
            The folder to create, with a file for each chunk of rows.
        format : {"parquet", "npy"}
            Parquet files have the node ids in a first column called ``id_name``.

        Returns
        -------
        parts : EmbeddingParts
        """
        parts = self._fit_store(
            store, y, client, scratch, Path(output), format, id_name, resume, columns_per_task
        )
        assert parts is not None
        return parts

    def transform(  # type: ignore[override]
        self,
        store: Store | str | os.PathLike[str],
        *,
        client: Client,
        scratch: str | os.PathLike[str],
        output: str | os.PathLike[str],
        format: Format = "parquet",
        id_name: str = "id",
        resume: bool = False,
        columns_per_task: int | None = None,
    ) -> EmbeddingParts:
        """Let the workers write the embedding of the nodes of any store.

        The labels of ``fit`` are used again on the store of ``fit``; on another one all nodes are
        unlabelled. Parameters are those of ``fit_transform``.
        """
        check_is_fitted(self)
        store, parameters = _as_store(store), Parameters.of(self)
        if store.n_features != self.n_features_in_:
            raise InputError(
                f"the store has {store.n_features} features, but the model was fitted with "
                f"{self.n_features_in_}; give a store with the same features"
            )
        same = self.store_digest_ == store.digest
        labels = self.training_nodes_.labels if self.training_nodes_ and same else None
        W = np.ascontiguousarray(self.components_.T)
        mean = self.mean_.astype(np.float64)
        exponent = store.exponent(mean, tasks.compute_dtype(store, parameters))
        plan = make_plan(
            store, parameters, n_components=W.shape[1], is_transform=True, exponent=exponent,
            columns_per_task=columns_per_task,
        )  # fmt: skip
        target = _check_output(Path(output), format)
        identity = _identity(store, parameters, plan, labels, target, format, id_name)
        identity["model"] = digest({"W": W.tolist(), "mean": mean.tolist()})
        with Run(client, scratch, identity, resume=resume) as run:
            components = write_whole(run.folder / "W.npy", W)
            work = _work(
                store, parameters, plan, run, labels, mean, exponent, components=components
            )
            _prepare(run, store)
            _solve(run, work)
            return _write(run, work, target, format, id_name, None, (store.n_nodes, W.shape[1]))

    def plan(
        self, store: Store | str | os.PathLike[str], *, columns_per_task: int | None = None
    ) -> Plan:
        """The plan of ``fit_transform`` on a store; raise if ``memory_limit`` is too small."""
        store, parameters = _as_store(store), Parameters.of(self)
        k = _check_components(self.n_components, store)
        return _plan(store, parameters, k, columns_per_task, writes=True)

    def _fit_store(
        self, store: Any, y: Any, client: Client, scratch: Any, output: Path | None, format: Format,
        id_name: str, resume: bool, columns_per_task: int | None,
    ) -> EmbeddingParts | None:  # fmt: skip
        forget_fit(self)
        store, parameters = _as_store(store), Parameters.of(self)
        n, d = store.n_nodes, store.n_features
        k = _check_components(self.n_components, store)
        exponent = store.exponent(store.mean, tasks.compute_dtype(store, parameters))
        labels = _check_labels(store, y, parameters)
        plan = _plan(store, parameters, k, columns_per_task, writes=output is not None)
        target = None if output is None else _check_output(output, format)
        identity = _identity(store, parameters, plan, labels, target, format, id_name)
        identity["n_components"] = k
        parts = None
        with Run(client, scratch, identity, resume=resume) as run:
            work = _work(store, parameters, plan, run, labels, store.mean, exponent)
            _prepare(run, store)
            records = _solve(run, work)
            sums = _products(run, work)
            eigenpairs = eigenpairs_of(sums[:-1].astype(work.compute_dtype(store)), k)
            if target is not None:
                W = write_whole(run.folder / "W.npy", np.ascontiguousarray(eigenpairs.vectors))
                shape = (n, eigenpairs.vectors.shape[1])
                parts = _write(run, work, target, format, id_name, W, shape)
            else:
                run.finish()
        residual = float(np.max([record["residual"] for record in records]))  # keeps a NaN
        objective = _objective(eigenpairs, sums, residual)
        learned = learned_attributes(
            eigenpairs,
            work.scaled_mean(work.compute_dtype(store)),
            objective,
            exponent=exponent,
            dtype=store.dtype,
            n_iter=max(record["n_iter"] for record in records),
            residual=residual,
        )
        kept = None
        if labels is not None:
            kept = TrainingNodes.kept(Graph.open(store.folder), None, None, labels, keep=False)
        self.__dict__.update(learned)
        self.n_features_in_, self.n_nodes_in_ = d, n
        self.matched_by_id_, self.training_nodes_ = False, kept
        self.store_digest_ = store.digest
        if store.feature_names is not None:
            self.feature_names_in_ = store.feature_names
        return parts

    def to_local(self) -> LocalGPCA:
        """The same fitted model as a :class:`gpcanet.GPCA`, which can be saved."""
        check_is_fitted(self)
        local = LocalGPCA(**self.get_params())
        learned = {name: value for name, value in vars(self).items() if is_learned(name)}
        learned.pop("store_digest_")
        local.__dict__.update(learned)
        return local


def _as_store(store: Store | str | os.PathLike[str]) -> Store:
    found = store if isinstance(store, Store) else Store.open(store)
    return Store(found.folder.absolute(), found.manifest)


def _check_components(n_components: Any, store: Store) -> int | float:
    # Has the shape of X, and takes no memory.
    stand_in = np.broadcast_to(store.dtype.type(0), (store.n_nodes, store.n_features))
    return check_n_components(n_components, stand_in)


def _plan(
    store: Store, parameters: Parameters, k: int | float, columns_per_task: int | None, *,
    writes: bool,
) -> Plan:  # fmt: skip
    return make_plan(
        store,
        parameters,
        n_components=min(store.n_nodes, store.n_features) if isinstance(k, float) else k,
        exponent=store.exponent(store.mean, tasks.compute_dtype(store, parameters)),
        columns_per_task=columns_per_task,
        writes=writes,
    )


def _check_labels(store: Store, y: Any, parameters: Parameters) -> np.ndarray | None:
    if parameters.beta == 0:
        return None
    y = store.labels() if y is None else y
    if y is None:
        raise ParameterError(
            "beta",
            str(parameters.beta),
            "adds ghost edges between labelled nodes, but the store has no labels; give labels "
            "(-1 for unlabelled nodes), or use 0",
        )
    return check_ghost_labels(y, store.n_nodes)


def _check_output(output: Path, format: str) -> Path:
    if format not in ("parquet", "npy"):
        raise InputError(f"format={format!r} must be 'parquet' or 'npy'")
    return check_new_folder(output).absolute()


def _identity(
    store: Store, parameters: Parameters, plan: Plan, labels: np.ndarray | None,
    output: Path | None, format: str, id_name: str,
) -> dict[str, Any]:  # fmt: skip
    """What the files of a run depend on."""
    own = {name: value for name, value in asdict(parameters).items() if name != "memory_limit"}
    return {
        **own,
        "gpcanet": __version__,
        "store": store.digest,
        "labels": None if labels is None else hashlib.sha256(labels.tobytes()).hexdigest(),
        "blocks": plan.blocks,
        "chunks": plan.chunks,
        "output": None if output is None else [str(output), format, id_name],
    }


def _work(
    store: Store, parameters: Parameters, plan: Plan, run: Run, labels: np.ndarray | None,
    mean: np.ndarray, exponent: int, components: Entry | None = None,
) -> Work:  # fmt: skip
    entry = None if labels is None else write_whole(run.folder / "labels.npy", labels)
    return Work(
        store.folder, run.folder, parameters, exponent, mean, plan.blocks, plan.chunks, entry,
        components,
    )  # fmt: skip


def _prepare(run: Run, store: Store) -> None:
    check_workers(run.client, run.folder, store)
    run.verify(store)


def _solve(run: Run, work: Work) -> list[dict[str, Any]]:
    arguments = {f"F{i}": (work, i) for i in range(len(work.blocks))}
    widths = [end - begin for begin, end in work.blocks]
    records = run.complete("solving (columns)", tasks.solve, arguments, widths)
    issue_warnings(records)
    return records


def _products(run: Run, work: Work) -> np.ndarray:
    """X^T D F and the squares of X, summed over chunks of rows as a tree."""
    names = [f"M0-{i}" for i in range(len(work.chunks))]
    arguments: dict[str, tuple[Any, ...]] = {name: (work, i) for i, name in enumerate(names)}
    run.complete("multiplying (chunks)", tasks.multiply_chunk, arguments)
    level = 0
    while len(names) > 1:
        level += 1
        groups = [names[i : i + FAN_IN] for i in range(0, len(names), FAN_IN)]
        names = [f"M{level}-{i}" for i in range(len(groups))]
        arguments = {name: (work, name, g) for name, g in zip(names, groups, strict=True)}
        run.complete("adding", tasks.add_matrices, arguments)
    return tasks.read_matrix(work, names[0])


def _write(
    run: Run, work: Work, output: Path, format: Format, id_name: str, W: Entry | None,
    shape: tuple[int, int],
) -> EmbeddingParts:  # fmt: skip
    """Let the workers write Z, and remove the files of the run."""
    part = output.with_name(f".{output.name}.{run.name}.part")
    part.mkdir(exist_ok=True)
    work = replace(work, output=part, format=format, id_name=id_name)
    for i in range(len(work.chunks)):
        record = tasks.read_record(run.folder, f"Z{i}")
        if record is not None and not _is_there(part, record):
            tasks.record_path(run.folder, f"Z{i}").unlink()
    arguments = {f"Z{i}": (work, i, W) for i in range(len(work.chunks))}
    run.complete("writing (chunks)", tasks.project_chunk, arguments)
    for unfinished in part.glob(".*.part"):
        unfinished.unlink()
    move_folder(part, output)
    run.finish()
    return EmbeddingParts(output, shape)


def _is_there(folder: Path, record: dict[str, Any]) -> bool:
    path = folder / record["file"]
    return path.is_file() and path.stat().st_size == record["bytes"]


def _objective(eigenpairs: Eigenpairs, sums: np.ndarray, residual: float) -> float:
    """||X||^2 less the eigenvalues; the term of the residual, at most tol, is left out."""
    if np.isnan(residual):
        return float("nan")
    return max(float(sums[-1].sum()) - float(eigenpairs.values.sum(dtype=np.float64)), 0.0)
