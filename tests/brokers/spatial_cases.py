"""Worlds for the reverse top-k indexes, and the definition written out in plain Python."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from brokers.indexes.registry import INDEXES
from brokers.indexes.spatial.brute import Brute
from brokers.registry import load

REVERSE = sorted(name for name, entry in INDEXES.items() if entry.facts["question"] == "reverse-topk")
K_LARGEST = 5
LATITUDES, LONGITUDES = (-90, -45, 0, 30, 45, 90), (-180, -179, -90, 0, 90, 179, 180)


def index_class(name):
    return load(INDEXES[name].target)


@dataclass
class World:
    """Objects and subscriptions as (place, keywords) by id, and what to ask."""

    geometry: str
    objects: dict = field(default_factory=dict)
    subscriptions: dict = field(default_factory=dict)
    steps: list = field(default_factory=list)  # (method, arguments)
    asked: tuple = ()  # ids, places, keywords, k, delta

    def fill(self, index):
        for method, arguments in self.steps:
            getattr(index, method)(*arguments)
        return index


def random_world(seed, geometry="plane", batch=6, box=10.0):
    """A few dozen objects and subscriptions, some gone again, on a grid or not; queries of all sorts."""
    rng = np.random.Generator(np.random.PCG64(seed))
    letters = list("abcdef"[: rng.integers(1, 7)])
    on_grid = rng.random() < 0.6
    cells = rng.integers(2, 10)

    def places(count):
        if geometry == "sphere":
            if on_grid:
                return np.stack([rng.choice(LATITUDES, count), rng.choice(LONGITUDES, count)], axis=1) * 1.0
            return np.stack([rng.random(count) * 180 - 90, rng.random(count) * 360 - 180], axis=1)
        return rng.integers(0, cells, (count, 2)) * 1.0 if on_grid else rng.random((count, 2)) * box

    def keywords(count):
        most = min(4, len(letters))
        return [set(rng.choice(letters, rng.integers(1, most + 1)).tolist()) for _ in range(count)]

    world = World(geometry)
    next_id = 0
    for _ in range(rng.integers(1, 4)):
        for name, held, most in (("objects", world.objects, 20), ("subscriptions", world.subscriptions, 15)):
            count = int(rng.integers(1, most + 1))
            ids = list(range(next_id, next_id + count))
            next_id += count
            rows = places(count), keywords(count)
            world.steps.append((f"insert_{name}", (ids, *rows)))
            held.update(zip(ids, zip(rows[0].tolist(), rows[1])))
        if rng.random() < 0.5:
            both = ("expire_objects", world.objects), ("delete_subscriptions", world.subscriptions)
            for method, held in both:
                gone = rng.permutation(sorted(held))[: len(held) // 3].tolist()
                world.steps.append((method, (gone,)))
                for id_ in gone:
                    del held[id_]
    world.asked = _asked(rng, world, places, keywords, int(rng.integers(1, batch + 1)))
    return world


def _asked(rng, world, places, keywords, count):
    """Queries: of held objects or new ones; a held one may have moved."""
    ids, rows, sets = list(range(10**6, 10**6 + count)), places(count), keywords(count)
    for i in range(count):
        if world.objects and rng.random() < 0.7:
            ids[i] = int(rng.choice(sorted(world.objects)))
            if rng.random() < 0.7:
                rows[i], sets[i] = world.objects[ids[i]]
    return ids, rows, sets, rng.integers(1, K_LARGEST + 1, count), rng.choice([1, 1, 1.1, 1.5, 2, 4], count)


def naive_counts(world, i):
    """Per candidate subscription (closer, closer_delta) of query i in the plane, word by word."""
    ids, places, sets, _, delta = world.asked
    counts = {}
    for s, (place, keywords) in world.subscriptions.items():
        if keywords & sets[i]:
            mine = math.dist(place, places[i])
            distances = [
                math.dist(place, other)
                for o, (other, held) in world.objects.items()
                if o != ids[i] and held & keywords
            ]
            counts[s] = sum(d < mine for d in distances), sum(delta[i] * d < mine for d in distances)
    return counts


def split(answer):
    """(ptr, ids) as a list of lists."""
    ptr, ids = answer
    return [ids[a:b].tolist() for a, b in pairwise(ptr)]


class Oracle:
    """RT and RT_delta of a world's queries, and whether an answer lies between."""

    def __init__(self, world):
        index = world.fill(Brute(world.geometry))
        queries = index.queries(*world.asked)
        self.index, self.delta = index, queries.delta
        self.must, self.may = split(index.reverse(queries)), split(index.relaxed(queries))

    def wrong(self, answers):
        """The first query that lacks a subscription or has one too many, as words; None if there is none."""
        for i, answer in enumerate(answers):
            if lost := set(self.must[i]) - set(answer):
                return f"query {i} lacks {sorted(lost)}"
            if extra := set(answer) - set(self.may[i]):
                return f"query {i} has {sorted(extra)} too many"
        return None
