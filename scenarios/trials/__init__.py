"""Random runs under faults: drawn models with drawn schedules, run in several ways and judged.

    python -m scenarios.trials --runs 10000 --seed 1 --jobs 2 --log trials.jsonl

`drawing` makes a trial of a seed and a number, `running` runs it and says what is wrong, `__main__` is the command.
"""
