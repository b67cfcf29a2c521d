"""Runs as files for other programs: CSV, Perfetto's traces, pcapng, GraphML. `making` chooses among them.

All of them go through the trace piece by piece, so that a run of ten million events takes hardly more memory than
one of a million.
"""
