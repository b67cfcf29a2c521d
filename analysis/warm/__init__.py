"""Compile every kernel once, on all cores, so that nobody's first run waits for it: `brokerlab warm`.

Numba keeps on disk what it compiled. `lives` says what is run for that, `compiling` runs it in processes.
"""
