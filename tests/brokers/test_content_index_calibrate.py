"""The cost model of an index is recovered from measurements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.errors import InvalidInput
from brokers.indexes.calibrate import COEFFICIENTS, calibrate, fit_costs, measure
from brokers.indexes.content.scan import Scan

HELD = np.repeat([100.0, 1_000, 10_000], 3)
MATCHED = np.tile([0.0, 0.01, 0.2], 3) * HELD

costs = st.floats(0.01, 1e4)


@given(costs, costs, costs)
def test_a_linear_cost_is_recovered(base, per_entry, per_match):
    fitted = fit_costs(HELD, MATCHED, base + per_entry * HELD + per_match * MATCHED)
    predicted = fitted["base_ns"] + fitted["per_entry_ns"] * HELD + fitted["per_match_ns"] * MATCHED
    assert np.allclose(predicted, base + per_entry * HELD + per_match * MATCHED, rtol=1e-6)
    if max(base, per_entry, per_match) < 1e3 * min(base, per_entry, per_match):
        assert np.allclose([fitted[name] for name in COEFFICIENTS], [base, per_entry, per_match], rtol=1e-3)


def test_noise_of_five_percent_moves_the_fit_by_little():
    noise = 1 + 0.05 * np.tile([1.0, -1, 0, 1, -1], 2)[:9]
    fitted = fit_costs(HELD, MATCHED, (2_000 + 1.5 * HELD + 20 * MATCHED) * noise)
    assert fitted["per_entry_ns"] == pytest.approx(1.5, rel=0.2)
    assert fitted["per_match_ns"] == pytest.approx(20, rel=0.2)


def test_a_cost_that_would_be_negative_is_left_out():
    fitted = fit_costs(HELD, MATCHED, 50_000 + 1.5 * HELD - 5 * MATCHED)
    assert fitted["per_match_ns"] == 0.0
    assert fitted["base_ns"] > 0 and fitted["per_entry_ns"] > 0


def test_a_measured_index_yields_its_own_costs():
    now = [0]

    class Priced(Scan):
        """Takes exactly 700 + 2 per entry + 30 per match on a clock of its own."""

        def match(self, values):
            found = super().match(values)
            now[0] += 700 + 2 * len(self) + 30 * len(found)
            return found

    points = measure(Priced, entries_held=(50, 200, 800), events=15, clock_ns=lambda: now[0])
    assert fit_costs(*points) == pytest.approx({"base_ns": 700, "per_entry_ns": 2, "per_match_ns": 30})


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (([1, 2], [1, 2], [1, 2]), "2 points"),
        (([1, 2, 3], [1, 2], [1, 2, 3]), "differ in length"),
        (([1, 2, 3], [0, 0, 0], [1, 0, 2]), "above zero"),
        (([1, 2, 3], [0, 0, np.nan], [1, 1, 2]), "finite"),
    ],
)
def test_measurements_that_make_no_sense_are_refused(points, message):
    with pytest.raises(InvalidInput, match=message):
        fit_costs(*points)


def test_an_unknown_index_is_named_with_a_suggestion():
    with pytest.raises(InvalidInput, match="did you mean 'scan'"):
        calibrate("scann")
