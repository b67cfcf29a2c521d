"""Tables of runs for whoever computes with them: lazy, filtered where they lie, handed on without a copy.

`opening` opens a run or a sweep, `table` is a table of it, `conditions` says which rows, `naming` what ids stand for,
`graph` makes a graph of the overlay, `showing` what a notebook shows.
"""
