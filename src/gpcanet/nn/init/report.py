"""The report of an initialiser: one entry per layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import InputError

#: Share of layers below which the report warns that few were set.
SMALL_SHARE = 0.25


@dataclass(frozen=True)
class LayerReport:
    """Whether the weights of a layer were set, and if not, the reason.

    ``kind`` is the name of the class. ``kept`` is the share of the squared norm of the aggregated
    features that the weights pass on (for the towers of a ``PNAConv``, all of them together), and
    None for random weights. ``rank_before`` and ``rank_after`` are the effective ranks of the
    output of the layer (see ``effective_rank``): a value near 1 in a deep layer means that all
    nodes have collapsed to a line.

    Examples
    --------
    >>> layer = LayerReport("convs.0", "GCNConv", 32, 16, is_set=True, kept=0.93)
    >>> layer.name, layer.is_set, layer.reason
    ('convs.0', True, '')
    """

    name: str
    kind: str
    in_channels: int | None = None
    out_channels: int | None = None
    is_set: bool = False
    reason: str = ""
    kept: float | None = None
    rank_before: float | None = None
    rank_after: float | None = None

    def __str__(self) -> str:
        shape = f"{self.in_channels} -> {self.out_channels}" if self.in_channels else ""
        state = "set" if self.is_set else "left alone"
        kept = "" if self.kept is None else f", keeps {self.kept:.1%}"
        ranks = ""
        if self.rank_before is not None and self.rank_after is not None:
            ranks = f"rank {self.rank_before:.1f} -> {self.rank_after:.1f}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.name:<24} {self.kind:<14} {shape:<14} {ranks:<22} {state}{kept}{reason}"


@dataclass(frozen=True)
class InitReport:
    """Reports of all layers, in the order in which they ran; ``scheme`` is the initialiser.

    Examples
    --------
    >>> import torch_geometric.nn as pyg
    >>> from gpcanet.nn import xavier_init_
    >>> report = xavier_init_(pyg.GCN(4, 8, num_layers=3, out_channels=2))
    >>> report.n_set, len(report), report["convs.2"].out_channels
    (3, 3, 2)
    """

    scheme: str
    layers: tuple[LayerReport, ...]

    @property
    def n_set(self) -> int:
        """Number of layers whose weights were set."""
        return sum(layer.is_set for layer in self.layers)

    def __iter__(self) -> Iterator[LayerReport]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, name: str) -> LayerReport:
        for layer in self.layers:
            if layer.name == name:
                return layer
        names = ", ".join(layer.name for layer in self.layers)
        raise KeyError(f"there is no layer {name!r}; the layers are {names}")

    def updated(self, later: InitReport) -> InitReport:
        """Return this report with the entries of the layers that a later one has set."""
        entries = {layer.name: layer for layer in later if layer.is_set}
        return InitReport(
            self.scheme, tuple(entries.get(layer.name, layer) for layer in self.layers)
        )

    def raise_if_empty(self) -> None:
        """Raise an InputError if no layer was set."""
        if self.n_set == 0:
            reasons = "; ".join(f"{layer.name} ({layer.kind}): {layer.reason}" for layer in self)
            raise InputError(
                f"no layer of the model was set: {reasons or 'it has no weights that are matrices'}"
            )

    @property
    def warning(self) -> str:
        """Warning if only a small part of the layers was set, otherwise empty."""
        if self.n_set >= SMALL_SHARE * len(self):
            return ""
        return (
            f"warning: only {self.n_set} of {len(self)} layers set; the others keep their previous "
            f"weights for the reasons below"
        )

    def __str__(self) -> str:
        title = f"{self.scheme}: {self.n_set} of {len(self.layers)} layers set"
        warning = [self.warning] if self.warning else []
        return "\n".join([title, *warning, *map(str, self.layers)])
