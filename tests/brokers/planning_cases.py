"""Random merging problems for the tests of planning."""

from __future__ import annotations

from brokers.planning.model import Costs, Queries
from brokers.planning.problem import BoxProblem
from brokers.planning.sizes import Count, Database, Histogram


def on_a_grid(random, n, d=2, procedure="rectangle", size=None):
    """Boxes with integer ends, so that ties and shared borders are frequent, under random constants."""
    low = random.integers(0, 8, (n, d))
    queries = Queries.of(low, low + random.integers(1, 5, (n, d)))
    constants = random.integers(0, 6, 3) if random.random() < 0.5 else random.uniform(0.01, 5, 3)
    costs = Costs(*(float(value) for value in constants + (constants.sum() == 0)))
    return BoxProblem(queries, costs, sized(random, size, d), procedure)


def like_the_paper(random, n, side=100, costs=None):
    """Rectangles with sides of 20 to 40, under the constants of Figure 12."""
    low = random.uniform(0, side - 20, (n, 2))
    queries = Queries.of(low, low + random.uniform(20, 40, (n, 2)))
    return BoxProblem(queries, costs or Costs(365e-5, 3.25e-5, 0.16e-5))


def sized(random, size, d):
    """The size of that name over random objects on the same integers; None: area."""
    points = random.integers(0, 13, (60, d))
    return {"count": lambda: Count(Database(points)), "histogram": lambda: Histogram(points, 6)}.get(
        size, lambda: None
    )()
