"""How much of what is wrong is found: mutants of the built-in protocols, of what they share, and of the judges.

    python -m analysis.bench.hunting --mutants 20 --seed 1 --for 30s
    python -m analysis.bench.hunting --only 1a2b3c4d
    python -m analysis.bench.hunting --finder analysis.bench.hunting.finders:hunt

`rules` makes mutants of a source, `places` says of which files and which are taken, `active` has a process run one,
`finders` look for it there, `one` is that process, `attempts` starts it, `equivalent` lists those that nobody can find.
The default takes mutants outside of what Numba compiles: they run in seconds, with the kernels that are there. With
`--kernels` it takes those inside, for which everything is compiled anew, which takes minutes for each.
"""
