"""Many runs: sweeps, repeats, expectations, comparisons.

expect.py      thresholds on metrics: "latency.p99 < 80 ms"
metrics.py     a run's metrics by flat names, with what the audit found
conditions.py  the constraints of a sweep: "nodes < 100 or protocol != 'flooding'"
sweep.py       a sweep file, and the points it stands for
pool.py        points at work: here, in processes, or as Ray tasks
carry.py       carrying a sweep out into its folder
student.py     means with Student-t intervals
compare.py     metrics side by side
diff.py        where two runs part
"""
