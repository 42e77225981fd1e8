"""The ranks of a communicator tell each other of their graphs, before the first launch.

First a digest of what all of them must have alike; where collectives of this communicator are all that the graphs have
to do with each other, that is all it takes. Only if it does not settle the matter do they tell the calls themselves;
then every rank checks all of them, and all find the same.
"""

import itertools
import zlib
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from .. import json_form
from ..dag import Agreement, Dag
from .check import refuse_ranks
from .skeleton import digest, is_told_by_digest, skeleton
from .texts import all_texts

if TYPE_CHECKING:
    from ...hccl.communicator import Communicator


_numbers = itertools.count()


def agree(graph: Dag, communicator: "Communicator") -> Agreement:
    """Compare this rank's graph with those of all ranks of a communicator; blocks, like a collective, until all are
    here.

    Compared are the communicators of the graph whose members are all in this one, by check_ranks. HcclError
    (HCCL_E_PARA) on every rank alike, if the graphs do not fit together.
    """
    ranks = communicator.world_ranks
    name = next((name for name, own in graph.communicators.items() if own is communicator), communicator.name)
    row = np.array([digest(graph, name), is_told_by_digest(graph, name), next(_numbers)], np.uint64)
    rows = communicator.all_gather(row)
    if not rows[:, 1].all() or len(set(rows[:, 0].tolist())) > 1:
        texts = all_texts(communicator, json_form.dump(skeleton(graph, ranks)))
        refuse_ranks({rank: json_form.load(text, Dag) for rank, text in zip(ranks, texts, strict=True)})
    return Agreement(communicator, zlib.crc32(rows.tobytes()) or 1)


def agree_again(graph: Dag, names: Collection[str]) -> tuple[Agreement, ...]:
    """The agreements of a graph in which calls of these communicators were updated: all of their members do this."""
    agreements = graph.agreements or ()
    for name in sorted(names, key=lambda name: (name, graph.groups[name].world_ranks)):
        if graph.groups[name].size > 1:
            new = agree(graph, graph.communicators[name])
            agreements = tuple(new if known.communicator is new.communicator else known for known in agreements)
    return agreements


def agree_over_own(graph: Dag) -> tuple[Agreement, ...]:
    """The same over each communicator that the graph has collectives of.

    All members of these have such a graph, or their collectives would not end; of those in which there are only
    messages, some members may have nothing to do. Communicators take their turns by name and members, so that ranks
    which share several of them do not wait for one another in a circle.
    """
    names = {node.communicator for node in graph.of_kind("collective")}
    turns = sorted((group.name, group.world_ranks) for group in graph.groups.values() if group.name in names)
    return tuple(agree(graph, graph.communicators[name]) for name, members in turns if len(members) > 1)
