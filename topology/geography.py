"""Distances on the globe, the same to the last bit on every machine.

Sines, cosines and arc tangents of libraries differ in their last bits, and a last bit becomes another delay.
These use only +, -, *, / and sqrt on float64 arrays, and are good to about 1e-15. The earth is a sphere of
its mean radius.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EARTH_RADIUS_M = 6_371_008.8  # mean radius of the WGS 84 ellipsoid
LIGHT_IN_FIBRE_M_PER_S = 299_792_458.0 * 2.0 / 3.0
_PI = 3.141592653589793


def great_circle_m(
    longitude_a: Floats, latitude_a: Floats, longitude_b: Floats, latitude_b: Floats
) -> Floats:
    """Metres along the surface between places given in degrees, by the haversine formula."""
    half_latitude, _ = sine_cosine((latitude_b - latitude_a) / 2.0)
    half_longitude, _ = sine_cosine((longitude_b - longitude_a) / 2.0)
    _, cosine_a = sine_cosine(latitude_a)
    _, cosine_b = sine_cosine(latitude_b)
    h = half_latitude * half_latitude + cosine_a * cosine_b * (half_longitude * half_longitude)
    h = np.minimum(np.maximum(h, 0.0), 1.0)
    return 2.0 * EARTH_RADIUS_M * arc_tangent(np.sqrt(h), np.sqrt(1.0 - h))


def travel_ns(distance_m: Floats) -> NDArray[np.int64]:
    """Time at two thirds of the speed of light, rounded up."""
    return np.ceil(distance_m / LIGHT_IN_FIBRE_M_PER_S * 1e9).astype(np.int64)


def sine_cosine(degrees: Floats) -> tuple[Floats, Floats]:
    """Sine and cosine of angles in degrees, at most a few turns."""
    degrees = np.asarray(degrees, np.float64)
    quarter = np.floor(degrees / 90.0 + 0.5)
    x = (degrees - quarter * 90.0) * (_PI / 180.0)  # within an eighth of a turn
    z = x * x
    sine, cosine = np.ones_like(z), np.ones_like(z)
    for k in range(18, 0, -2):
        sine = 1.0 - z / ((k + 1.0) * k) * sine
        cosine = 1.0 - z / (k * (k - 1.0)) * cosine
    sine = x * sine
    turn = quarter.astype(np.int64) & 3
    return (
        np.choose(turn, [sine, cosine, -sine, -cosine]),
        np.choose(turn, [cosine, -sine, -cosine, sine]),
    )


def arc_tangent(y: Floats, x: Floats) -> Floats:
    """The angle in [0, pi/2] whose tangent is y / x, for y, x >= 0 not both zero."""
    steep = y > x
    t = np.where(steep, x, y) / np.where(steep, y, x)
    for _ in range(3):  # halving the angle thrice leaves tangents below 0.1
        t = t / (1.0 + np.sqrt(1.0 + t * t))
    z = t * t
    series = np.zeros_like(t)
    for k in range(19, 1, -2):
        series = z * (1.0 / k - series)
    angle = 8.0 * (t - t * series)
    return np.where(steep, _PI / 2.0 - angle, angle)
