"""Edges to nodes whose features are not in the files, such as the training nodes of a model."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ..graph import Graph
from ..graph.assembly import count_of
from .edges import Edges
from .features import Features


def append_known_nodes(nodes: Features, edges: Edges, known: Graph, notes: list[str]) -> Features:
    """The nodes with the ids of those known nodes appended that edges name.

    These are the same nodes if there are none, or if the ids are positions or of another type.
    """
    if known.node_ids is None or nodes.ids.are_positions or edges.source.are_positions:
        return nodes
    ids = pa.array(known.node_ids.tolist())
    if ids.type != nodes.ids.values.type:
        return nodes
    both = pa.chunked_array([*edges.source.values.chunks, *edges.target.values.chunks])
    ends = pc.unique(both)
    own = pc.is_in(ends, value_set=nodes.ids.values.combine_chunks())
    named = ends.filter(pc.and_(pc.invert(own), pc.is_in(ends, value_set=ids)))
    if len(named) == 0:
        return nodes
    notes.append(f"edges name {count_of(len(named), 'training node')} of the model")
    values = pa.chunked_array([*nodes.ids.values.chunks, named])
    return replace(nodes, ids=replace(nodes.ids, values=values))
