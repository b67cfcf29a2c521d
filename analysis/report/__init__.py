"""A run, two runs or a sweep as one HTML file that anybody can open offline.

    run      gather (tables -> counts over time, and a sample of whole messages), summary, cases, charts
    page     facts as JSON, columns as byte planes, scripts and styles of `page/`, a policy that lets in no more

`report` in `making.py` is what the command calls.
"""
