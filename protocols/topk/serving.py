"""What is done with an answer, over all brokers of a shard: rows of `rankings`, deliveries, the way to recipients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Floats, Ints, Ints32, ShardEnv
from brokers.indexes.topk.contract import Answer
from brokers.out import Out
from protocols.routes import Routes
from protocols.topk.asking_record import DELIVERY
from protocols.topk.tree_kernels import first_links

Tree = dict[str, NDArray[Any]]


def tree_of(env: ShardEnv) -> Tree:
    """The one tree, numbered from some broker: whoever asks, it leads the same ways."""
    root = int(env.publisher_brokers.min(initial=env.overlay.brokers - 1))
    routes = Routes(env.links, env.overlay.is_tree, np.array([root], np.int32), per_publisher=False)
    enter, leave, up = routes.enter[0], routes.leave[0], routes.up[0]
    reached = np.flatnonzero((up >= 0) | (np.arange(up.size) == root))
    numbered = np.zeros(reached.size, np.int32)
    numbered[enter[reached]] = reached
    return {"in_tree": routes.in_tree, "enter": enter, "leave": leave, "up": up, "numbered": numbered}


def by_number(env: ShardEnv, tree: Tree, clients: Sequence[int]) -> tuple[Ints, Ints32]:
    """Clients in the order of their brokers' numbers in the tree, and these numbers."""
    who = np.array(clients, np.int64)
    number = tree["enter"][env.client_broker[who]]
    order = np.lexsort((who, number))
    return who[order], number[order]


class Serving:
    """Deliveries and rows of `rankings`, until they are handed on in the order of their events."""

    def __init__(self) -> None:
        self._deliveries: list[tuple[Any, Any, Any]] = []
        self._rows: list[tuple[int, int, int, int, int, float, int]] = []

    def add(self, event: Any, client: Any, body: Any) -> None:
        """These clients get these bodies."""
        if event.size:
            self._deliveries.append((event, client, body))

    def decided(
        self, env: ShardEnv, tree: Tree, out: Out, event: int, here: int, answer: Answer, publication: int, body: int,
        row: Floats, note: Callable[[int, Sequence[int]], Any],
    ) -> None:
        """The answer is known: note it, serve the clients here, send it to where the others are.

        `note` is told of the body that goes there, and which clients it names.
        """
        self._record(event, publication, answer)
        clients = np.unique(answer.ids >> 32)
        if not clients.size:
            return
        home = env.client_broker[clients - env.entity_base]
        own = clients[home == here] - env.entity_base
        self.add(np.full(own.size, event), own, np.full(own.size, body))
        away, brokers = clients[home != here], home[home != here]
        if not away.size:
            return
        to = [[client, broker] for client, broker in zip(away.tolist(), brokers.tolist())]
        named = out.body({"values": row.tolist(), "to": to}, DELIVERY, like=body)
        note(named, (away - env.entity_base).tolist())
        links = env.links
        over = first_links(
            tree["enter"], tree["leave"], tree["up"], tree["in_tree"], links.out_start, links.out_link, links.target,
            np.sort(tree["enter"][brokers]), here,
        )
        out.send(np.full(over.size, event), over, DELIVERY, named, publication)

    def _record(self, event: int, publication: int, answer: Answer) -> None:
        tie = int(answer.tie_at_boundary)
        for rank, (id_, score) in enumerate(zip(answer.ids.tolist(), answer.scores.tolist())):
            self._rows.append((event, publication, rank, id_, id_ >> 32, score, tie))
        if not len(answer.ids):
            self._rows.append((event, publication, -1, -1, -1, 0.0, tie))

    def hand_on(self, out: Out) -> None:
        """Answer with all of it."""
        if self._deliveries:
            event, client, body = (np.concatenate(columns) for columns in zip(*self._deliveries))
            if len(self._deliveries) > 1:
                order = np.argsort(event, kind="stable")
                event, client, body = event[order], client[order], body[order]
            out.deliver(event, client, body)
        if self._rows:
            event, *columns = map(np.array, zip(*self._rows))
            names = ("publication", "rank", "interest", "client", "score", "tie")
            out.record("rankings", event, **dict(zip(names, columns)))
