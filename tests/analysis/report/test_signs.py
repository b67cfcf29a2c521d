"""What signs of the map stand for, which changes there are, and how many of how many are drawn, in a real browser."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from analysis.spark.trace import services_of
from analysis.ways.told import Told
from brokers.contract import MESSAGE
from brokers.naming import message_name
from tests.analysis.report.test_page import PIXELS
from tests.analysis.report.test_views import of, table, typed

PIXEL = """((x, y) => {
  const { canvas, ratio } = brokerlab.map;
  const pen = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  return Array.from(pen.getImageData(x * ratio, y * ratio, 1, 1).data);
})"""

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def page(browser, quickstart, reported):
    from .conftest import Opened

    opened = Opened(browser, reported(quickstart))
    yield opened
    opened.context.close()


@pytest.fixture(scope="module")
def lossy(made):
    """More losses than are drawn."""
    return made("news", "links.loss=20 %", "duration=6 s", "services.news.protocol=flooding")


# ---- signs -----------------------------------------------------------------------------------------------


def test_every_service_and_all_that_fails_is_in_the_key(page):
    names = page("brokerlab.facts.services.map(each => each.name)")
    lines = page("Array.from(document.querySelectorAll('#key li'), each => each.textContent)")
    shapes = page("""Array.from(document.querySelectorAll('#key li'),
        each => Array.from(each.querySelectorAll('path'), path => path.getAttribute('d')))""")
    mine = [next(at for at, line in enumerate(lines) if line.startswith(f"{name}: ")) for name in names]
    assert len(names) == 5 and [shapes[at] for at in mine] == [[shape] * 2 for shape in page("SHAPES")[:5]]
    assert len({shapes[at][0] for at in mine}) == len({lines[at].split(": ")[1] for at in mine}) == 5
    told = " ".join(lines)
    for each in ("lost", "down", "slow", "cut", "worse", "delivery", "publication", "chosen"):
        assert each in told
    colours = page("""Array.from(document.querySelectorAll('#key path'), each => [getComputedStyle(each).fill,
        getComputedStyle(each).stroke, getComputedStyle(each).strokeDasharray])""")
    at = sum(len(each) for each in shapes[: mine[1]])
    filled, hollow = colours[at : at + 2]
    assert filled[:2] == ["rgb(179, 89, 0)", "none"] and hollow == ["none", "rgb(179, 89, 0)", "none"]


def test_messages_have_the_shape_of_their_service_filled_if_they_carry_a_publication(page, quickstart):
    """Signs that the map stamps, by service and sort, are the messages that the trace has under way."""
    page("brokerlab.select(-1, -1), brokerlab.setTime(5e6, false)")
    rows = quickstart.read("hops").to_pydict()
    delay = quickstart.read("links").sort_by("link")["delay_ns"].to_pylist()
    sent = set(quickstart.read("publications")["publication"].to_pylist())
    expected = Counter(
        f"{service} {body in sent}"
        for time, link, service, body in zip(*(rows[name] for name in ("time_ns", "link", "service", "body")))
        if link >= 0 and time // 1000 - delay[link] // 1000 <= 5_000_000 <= time // 1000
    )
    stamped = page("""(() => {
      const { map } = brokerlab, counts = {}, { sign } = map;
      map.sign = (pen, service, radius, line, x, y) => {
        const key = `${service} ${line ? 'False' : 'True'}`;
        counts[key] = (counts[key] ?? 0) + 1;
        sign.call(map, pen, service, radius, line, x, y);
      };
      map.drawDots();
      delete map.sign;
      return counts;
    })()""")
    assert stamped == expected and len({key.split()[0] for key in stamped}) > 2
    masks = page("""Array.from({ length: 8 }, (_, at) => [0, 1].map(line => {
      const { map } = brokerlab, width = 24 * map.ratio, pen = new OffscreenCanvas(width, width).getContext('2d');
      pen.setTransform(map.ratio, 0, 0, map.ratio, 0, 0);
      map.sign(pen, at, 10, line, 12, 12);
      const { data } = pen.getImageData(0, 0, width, width);
      return Array.from({ length: width * width }, (_, i) => data[4 * i + 3] > 128 ? 1 : 0);
    }))""")
    for at, (filled, hollow) in enumerate(masks):
        assert sum(filled) > 1.2 * sum(hollow) > 0
        for other in masks[:at]:  # shapes alone tell them apart
            assert sum(a != b for a, b in zip(filled, other[0])) > 40
    assert page.is_quiet()


def test_the_map_passes_its_keys_on_and_says_which(page):
    told = page("""(map => ({ role: map.getAttribute('role'), name: map.getAttribute('aria-label'), tab: map.tabIndex,
      more: map.getAttribute('aria-describedby').split(' ').map(id => document.getElementById(id).textContent) }))(
      document.getElementById('map'))""")
    assert told["role"] == "application" and told["tab"] == 0 and "33 brokers and servers" in told["name"]
    assert len(told["more"]) == 3 and all(told["more"])
    assert all(key in told["more"][0] for key in ("arrow keys", "page up", "home and end", "space"))


# ---- what links and brokers had to do --------------------------------------------------------------------


def test_links_are_as_wide_and_dark_as_their_traffic(page, quickstart):
    """In the middle of each link its level's colour, and where links lie alone their width."""
    page("brokerlab.select(-1, -1), brokerlab.state.show = 'traffic', brokerlab.setTime(0, true)")
    hops = quickstart.read("hops").to_pydict()
    over = Counter(link for link, kind in zip(hops["link"], hops["kind"]) if link >= 0 and kind == MESSAGE)
    most = max(over.values())
    x, y, a, b = page("""[brokerlab.map.x, brokerlab.map.y, brokerlab.model.columns.link_from,
        brokerlab.model.columns.link_to].map(each => Array.from(each))""")
    ramp = [tuple(int(each[at : at + 2], 16) for at in (1, 3, 5)) for each in page("brokerlab.map.ramp")]
    radius = page("brokerlab.map.radius")
    middles = {link: ((x[a[link]] + x[b[link]]) / 2, (y[a[link]] + y[b[link]]) / 2) for link in range(0, len(a), 2)}
    levels, widths = {}, {}
    for link, (across, down) in middles.items():
        long = np.hypot(x[a[link]] - x[b[link]], y[a[link]] - y[b[link]])
        others = [(np.array([x[a[each]], y[a[each]]]), np.array([x[b[each]], y[b[each]]]))
                  for each in middles if each != link]  # fmt: skip
        if long < 4 * radius + 12 or min(apart(np.array([across, down]), *each) for each in others) < 12:
            continue  # brokers hide its middle, or another link does
        busy = max(over[link], over[link + 1])
        level = levels[link] = min(7, 1 + int(busy / most * 7)) if busy else 0
        if level:
            found = page(f"{PIXELS.format(*ramp[level])}([{across}, {down}, 2])")
            assert found > 0, link
        if level > 2:  # wide enough for a pixel that is all of it
            inside = page(f"{PIXEL}({across}, {down})")[:3]
            assert np.argmin([np.abs(np.subtract(inside, each)).sum() for each in ramp]) == level, link
        if min(np.hypot(across - p, down - q) for p, q in zip(x, y)) > 30:
            background = page(f"{PIXELS.format(255, 255, 255)}([{across}, {down}, 8])")
            slope = max(abs(x[a[link]] - x[b[link]]), abs(y[a[link]] - y[b[link]])) / long
            widths.setdefault(level, []).append((256 - background) / 16 * slope)
    assert len(levels) > 10 and len(set(levels.values())) >= 4
    mean = {level: np.mean(each) for level, each in sorted(widths.items())}
    assert len(mean) >= 2 and list(mean.values()) == sorted(mean.values()), mean
    assert all(abs(width - (1 + 0.7 * level)) < 1.2 for level, width in mean.items() if level), mean


def apart(point, one, other):
    """How far a point is from a line between two."""
    part = np.clip(np.dot(point - one, other - one) / np.dot(other - one, other - one), 0, 1)
    return np.hypot(*(one + part * (other - one) - point))


def test_load_is_a_choice_of_the_map(page, quickstart):
    view = page.page
    page("brokerlab.select(-1, -1), brokerlab.setTime(0, true)")
    view.select_option("#show", "load")
    busy = quickstart.read("brokers").sort_by("broker")["busy_ns"].to_numpy()
    expected = busy / quickstart.manifest["scenario"]["duration"]
    shown = np.array(page("Array.from(brokerlab.map.told.at)"))
    assert np.abs(shown - expected).max() < 1e-4 < expected.max()
    busiest = int(np.argmax(busy))
    assert f"{100 * shown[busiest]:.3g} % of the time at work" in view.inner_text("#legend")
    page(f"brokerlab.pick({busiest})")
    assert f": {100 * shown[busiest]:.3g} % of the time at work" in view.inner_text("#said")
    dark = page("brokerlab.map.ramp[7]")
    pixel = PIXELS.format(*(int(dark[at : at + 2], 16) for at in (1, 3, 5)))
    place = "[brokerlab.map.x[{0}], brokerlab.map.y[{0}], 2]"
    idle = int(np.argmin(busy))
    assert page(f"{pixel}({place.format(busiest)})") > 0 == page(f"{pixel}({place.format(idle)})")
    view.select_option("#show", "traffic")
    assert page.is_quiet()


def test_without_all_events_the_map_has_the_load_of_the_whole_run_and_says_so(opened, quickstart, reported, tmp_path):
    page = opened(reported(quickstart, hops_most=20_000))
    page("brokerlab.setTime(3e6, false)")
    page.page.select_option("#show", "load")
    busy = quickstart.read("brokers").sort_by("broker")["busy_ns"].to_numpy()
    assert np.abs(np.array(page("Array.from(brokerlab.model.columns.work)")) - busy / 1000).max() <= 0.5
    assert "load is of the whole run and of all services" in page.page.inner_text("#legend")
    assert page.is_quiet()


# ---- changes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["quickstart", "lossy"])
def test_changes_are_listed_those_that_never_settled_first(opened, quickstart, lossy, reported, scenario):
    run = quickstart if scenario == "quickstart" else lossy
    page = opened(reported(run))
    rows = [row for row in run.read("changes").to_pylist() if row["issued_ns"] >= 0]
    names = {message_name(row["change"], run.rows("brokers")): row for row in rows}
    listed = page("Array.from(document.getElementById('change').options, each => [each.value, each.text]).slice(1)")
    shown = [names[text.split(",")[0]] for _, text in listed]
    never = sum(row["settled_ns"] < 0 for row in rows)
    assert len(shown) == min(200, len(rows)) == len({row["change"] for row in shown})
    head = f"({len(shown)} of {len(rows):,}; {never:,} never settled)"
    assert head in page.page.inner_text("#changes")
    first = [text.endswith("never settled") for _, text in listed]
    assert sum(first) == min(200, never) and first == sorted(first, reverse=True)
    took = [row["settled_ns"] // 1000 - row["issued_ns"] // 1000 for row in shown if row["settled_ns"] >= 0]
    left = [row["settled_ns"] // 1000 - row["issued_ns"] // 1000 for row in rows
            if row["settled_ns"] >= 0 and row["change"] not in {each["change"] for each in shown}]  # fmt: skip
    assert took == sorted(took, reverse=True) and (not left or max(left) <= min(took, default=max(left)))
    page.page.select_option("#change", index=1)
    told = Told.of_run(run, services_of(run)[shown[0]["service"]])
    reached = {hop.broker for hop in told.hops(cause=shown[0]["change"])}
    assert set(page("brokerlab.state.hops.map(hop => brokerlab.model.hopBroker[hop])")) == reached != set()
    assert message_name(shown[0]["change"], told.nodes) in page.page.inner_text("#answer")
    assert page.is_quiet()


# ---- how many of how many --------------------------------------------------------------------------------


def test_of_many_losses_some_of_all_times_are_drawn_and_their_number_is_said(
    opened, lossy, reported, tmp_path, monkeypatch, capsys
):
    page = opened(reported(lossy))
    page("brokerlab.select(-1, -1), brokerlab.setTime(0, true)")
    losses = [row for row in lossy.read("losses").to_pylist() if row["link"] >= 0]
    drawn = page("brokerlab.map.lossPlaces.map(place => brokerlab.model.columns.lost_time[place[2]])")
    assert len(losses) > 1000 and 250 < len(drawn) <= 500
    times = sorted(row["time_ns"] // 1000 for row in losses)
    parts = np.histogram(drawn, np.quantile(times, [0, 0.25, 0.5, 0.75, 1]))[0]
    assert parts.min() > 0.8 * len(drawn) / 4
    said = f"{len(drawn):,} of {len(losses):,} losses are drawn"
    assert said in page.page.inner_text("#legend")
    page("brokerlab.map.linkAt = brokerlab.map.nearest = () => -1")
    row = page("brokerlab.map.lossAt(...brokerlab.map.lossPlaces[brokerlab.map.lossPlaces.length - 1])")
    assert row == page("brokerlab.map.lossPlaces.at(-1)[2]")
    monkeypatch.chdir(lossy.path.parent)
    rows = table(tmp_path, *typed(page("document.getElementById('map-command').textContent")))
    assert len(of(rows, "lost")) == len(drawn) and said in capsys.readouterr().out
    options = page("document.getElementById('loss').options.length") - 1
    total = lossy.rows("losses")
    assert f"Lost ({options:,} of {total:,})" in page("document.getElementById('loss').parentElement.textContent")
    assert page.is_quiet()


def test_of_a_message_with_many_losses_it_is_said_how_many_are_told(opened, lossy, reported):
    page = opened(reported(lossy))
    most = page("""(model => { let found = 0;
      for (let i = 0; i < model.facts.messages; i++)
        if (model.lossesOf(i).length > model.lossesOf(found).length) found = i;
      return found; })(brokerlab.model)""")
    page(f"brokerlab.model.lossesOf = (all => message => message === {most} ? [...all(message), ...all(message), "
         "...all(message)] : all(message))(brokerlab.model.lossesOf)")  # fmt: skip
    count = page(f"brokerlab.model.lossesOf({most}).length")
    page(f"brokerlab.select({most}, -1)")
    text = page.page.inner_text("#answer")
    assert count > 10 and f"{count} of its copies were lost; " in text
    assert len(re.findall("Lost at", text)) == int(re.search(r"were lost; (\d+) of them", text)[1]) <= 10


def test_of_many_messages_under_way_some_of_all_are_drawn_and_their_number_is_said(opened, quickstart, reported):
    """Links as slow as to hold them: everything that comes within the next seconds is under way."""
    page = opened(reported(quickstart))
    times = np.array([hop // 1000 for hop, link in zip(*(quickstart.read("hops").to_pydict()[name]
                      for name in ("time_ns", "link"))) if link >= 0])  # fmt: skip
    for seconds, exact in ((1, True), (8, False)):
        page(f"brokerlab.model.columns.link_delay.fill({seconds}e6), brokerlab.model.longest = {seconds}e6 + 1")
        page("brokerlab.select(-1, -1), brokerlab.setTime(2e6, false)")
        under_way = int(((times >= 2_000_000) & (times <= 2_000_000 + seconds * 10**6)).sum())
        shown, about, told = re.search(
            r"([\d,]+) of (about )?([\d,]+) messages under way are drawn", page.page.inner_text("#legend")
        ).groups()
        assert int(shown.replace(",", "")) == page("brokerlab.map.dots") <= 6000 < under_way
        error = abs(int(told.replace(",", "")) - under_way)
        assert (about is None) == exact and (error == 0 if exact else error < 0.03 * under_way)
    assert page.is_quiet()
