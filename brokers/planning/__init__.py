"""Query merging and channel allocation: which queries to answer together, and on which channel to send.

Usable alone:

    >>> from brokers.planning.model import Costs, Queries
    >>> from brokers.planning.plain import partition
    >>> from brokers.planning.problem import BoxProblem
    >>> queries = Queries.of([[0, 1], [0, 0], [1, 0]], [[2, 2], [1, 2], [2, 1]])
    >>> plan = partition(BoxProblem(queries, Costs(message=10, transmit=9, irrelevant=4)))
    >>> plan.group.tolist(), plan.cost
    ([0, 0, 0], 74.0)
"""
