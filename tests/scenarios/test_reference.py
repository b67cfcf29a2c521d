"""The page of all keys says what the program checks."""

from pathlib import Path

from brokers import names
from scenarios.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "scenarios.md"


def test_the_page_of_all_keys_is_what_the_models_say():
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "write it again: python -m scenarios.reference > docs/scenarios.md"
    )


def test_the_page_has_every_registered_topology_kind_protocol_and_workload():
    text = page()
    for group in ("topologies", "kinds", "protocols", "workloads"):
        for name in names.table(group):
            assert f"### {name}\n" in text


def test_the_page_shows_bounds_and_defaults_in_units():
    text = page()
    assert "| `trace.sample_every` | duration, at least 1 ns |  | time between samples of queues and tables;" in text
    assert "| `period` | list of: duration, at least 1 ns | `[1 s]` |" in text
    assert "| `links.loss` | fraction | `0` |" in text
    assert "| `nodes` | whole number, at least 3, at most 1,000,000 | required |" in text
