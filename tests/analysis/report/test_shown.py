"""What else pages show, in a real browser: deliveries, links over time, changes that spread, play, sweeps."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from analysis.report.making import report
from analysis.spark.trace import services_of
from analysis.ways.told import Told
from brokers.contract import MESSAGE
from tests.analysis.report.test_page import PIXELS

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def page(opened, quickstart, reported):
    return opened(reported(quickstart))


def test_a_delivery_flashes_where_it_arrives(page, quickstart):
    """How many are seen at a time is what the trace delivered just before; a ring is around those brokers only."""
    (service,) = (each for each in services_of(quickstart) if each.name == "news")
    page("brokerlab.state.service = 0, brokerlab.state.flash = 4000")
    rows = quickstart.read("deliveries").to_pydict()
    mine = np.array(rows["service"]) == service.number
    time, broker = (np.array(rows[name])[mine] for name in ("time_ns", "broker"))
    seen = Counter()
    for us in range(2_000_000, 9_000_000, 700_000):
        page(f"brokerlab.setTime({us}, false)")
        just = (-(-time // 1000) <= us) & (-(-time // 1000) > us - 4000)
        assert page("brokerlab.map.flashes") == int(just.sum())
        seen[bool(just.any())] += 1
    assert seen[True] >= 3
    assert page.is_quiet()
    at = int(np.sort(time)[time.size // 2] // 1000) + 200
    where = set(broker[(-(-time // 1000) <= at) & (-(-time // 1000) > at - 1000)].tolist())
    page(f"brokerlab.state.flash = 1000, brokerlab.setTime({at}, false)")
    changed = page("""(() => {
      const { map } = brokerlab, ratio = map.canvas.width / map.width, r = map.radius + 11;
      const size = 2 * r * ratio;
      const around = at => map.pen.getImageData((map.x[at] - r) * ratio, (map.y[at] - r) * ratio, size, size).data;
      const all = () => Array.from(map.x, (_, at) => around(at));
      const with_ = all();
      map.drawFlashes = () => {};
      map.draw();
      return all().map((data, at) => data.filter((value, i) => value !== with_[at][i]).length);
    })()""")
    x, y = page("[Array.from(brokerlab.map.x), Array.from(brokerlab.map.y)]")
    room = 2 * page("brokerlab.map.radius") + 30
    assert where and all(changed[each] > 0 for each in where)
    apart = [
        each for each in range(len(x))
        if all(abs(x[each] - x[at]) > room or abs(y[each] - y[at]) > room for at in where)
    ]  # fmt: skip
    assert apart and not any(changed[each] for each in apart)


def test_a_link_that_is_pressed_shows_what_it_carried_over_time(page, quickstart):
    run = quickstart
    link = int(np.argmax(run.read("links").sort_by("link")["messages"].to_numpy())) & ~1
    ends = page(f"[brokerlab.model.columns.link_from[{link}], brokerlab.model.columns.link_to[{link}]]")
    x, y = (sum(page(f"{ends}.map(each => brokerlab.map.{axis}[each])")) / 2 for axis in "xy")
    page("brokerlab.map.lossPlaces = []")
    page.page.click("#map", position={"x": x, "y": y})
    assert page("brokerlab.state.link") == link
    hops = run.read("hops").to_pydict()
    came = np.array(hops["kind"]) == MESSAGE
    for service in (-1, 0):
        page.page.select_option("#service", str(service))
        for way in (0, 1):
            mine = came & (np.array(hops["link"]) == link + way)
            if service >= 0:
                mine &= np.array(hops["service"]) == service
            stretches, span = page("[brokerlab.facts.stretches, brokerlab.model.span]")
            at = np.minimum((np.array(hops["time_ns"])[mine] * (stretches / (span * 1000))).astype(int), stretches - 1)
            expected = np.bincount(at, minlength=stretches).tolist()
            assert page(f"carriedOver(brokerlab.model, {link + way}, {service})") == expected
            assert f"{sum(expected):,} messages" in page.page.inner_text("#curve")
    paths = page("Array.from(document.querySelectorAll('#curve path.series'), each => each.getAttribute('d'))")
    assert len(paths) == 2 and all(path.count("H") == stretches for path in paths)
    name = page(f"brokerlab.model.linkName({link})")
    page.page.fill("#link", "no such")
    page.page.press("#link", "Enter")
    assert page("brokerlab.state.link") == -1 and page.page.inner_text("#curve") == ""
    page.page.fill("#link", name)
    page.page.press("#link", "Enter")
    assert page("brokerlab.state.link") == link and name in page.page.inner_text("#curve")
    assert page.is_quiet()


def test_a_change_that_is_chosen_lights_up_where_brokers_heard_of_it(page, quickstart):
    """As time goes on: brokers that handled what it caused, the links over which it came, and no other."""
    service = services_of(quickstart)[0]
    told = Told.of_run(quickstart, service)
    changes = [row for row in told.rows("changes", service=0) if row["issued_ns"] >= 0]
    hops = Counter(hop.cause for hop in told.hops() if hop.link >= 0)
    change = max(changes, key=lambda row: hops[row["change"]])["change"]
    mine = told.hops(cause=change)
    name = told.message(change)
    page.page.fill("#message", name)
    page.page.fill("#client", "")
    page.page.click("#find button[type=submit]")
    assert name in page.page.inner_text("#answer") and "Step by step" in page.page.inner_text("#answer")
    x, y = page("[Array.from(brokerlab.map.x), Array.from(brokerlab.map.y)]")
    radius, light = page("brokerlab.map.radius"), PIXELS.format(230, 159, 0)

    def lit():
        # Dots and rings of other messages lie above what lights up.
        page("brokerlab.map.drawDots = brokerlab.map.drawFlashes = () => {}, brokerlab.redraw()")
        return {at for at in range(len(x)) if page(f"{light}([{x[at]}, {y[at]}, {radius + 5}])") > 12}

    times = sorted(hop.time_ns // 1000 for hop in mine)
    assert len({hop.broker for hop in mine}) > 4
    for us in (times[0] - 1, times[len(times) // 2], times[-1]):
        page(f"brokerlab.setTime({us}, false)")
        reached = {hop.broker for hop in mine if hop.time_ns // 1000 <= us}
        assert lit() >= reached and (reached or not lit())
        for hop in mine:
            if hop.link >= 0:
                ends = told.links[hop.link]["from"], told.links[hop.link]["to"]
                middle = [sum(axis[end] for end in ends) / 2 for axis in (x, y)]
                assert (page(f"{light}([{middle[0]}, {middle[1]}, 4])") > 0) == (hop.time_ns // 1000 <= us)
    assert page.is_quiet()


def test_frames_that_are_played_follow_each_other(page):
    """Time goes on from frame to frame, and the map is drawn for each."""
    page("brokerlab.select(-1, -1), brokerlab.setTime(0, false)")
    page("""window.seen = [], (draw => {
      brokerlab.map.draw = () => { draw.call(brokerlab.map); seen.push(brokerlab.state.time); };
    })(brokerlab.map.draw)""")
    page.page.select_option("#speed", "0.1")
    page.page.click("#play")
    page.until("seen.length >= 12")
    page.page.click("#play")
    times = page("seen")
    assert times == sorted(times) and len(set(times)) >= 10
    page("brokerlab.setTime(brokerlab.model.span - 1, false)")
    page.page.select_option("#speed", "1.0")
    page.page.click("#play")
    page.until("!brokerlab.playing")
    assert page("brokerlab.state.time === brokerlab.model.span")
    assert page.page.inner_text("#play") == "Play" and page.is_quiet()


def every_detail(page):
    """Every control of a page that has no scripts: its links, and what opens, by mouse and by key."""
    view = page.page
    opened = 0
    for summary in view.query_selector_all("summary"):
        before = summary.evaluate("each => each.parentElement.open")
        summary.click()
        assert summary.evaluate("each => each.parentElement.open") != before
        summary.focus()
        view.keyboard.press("Enter")
        assert summary.evaluate("each => each.parentElement.open") == before
        opened += 1
    targets = page("Array.from(document.querySelectorAll('nav a'), each => each.getAttribute('href').slice(1))")
    for target in targets:
        view.click(f"nav a[href='#{target}']")
        assert page(f"location.hash === '#{target}' && !!document.getElementById({target!r})")
    page("document.activeElement.blur()")
    reached = set()
    for _ in range(len(targets) + opened + 8):
        view.keyboard.press("Tab")
        reached.add(page("document.activeElement.getAttribute('href') || document.activeElement.tagName"))
    assert {f"#{target}" for target in targets} <= reached and (not opened or "SUMMARY" in reached)
    assert page("document.querySelectorAll('button, select, input, canvas').length") == 0
    return opened


def test_the_page_of_a_sweep_opens_without_a_word_and_without_a_request(opened, swept, tmp_path):
    page = opened(report([swept("700 ms", 2)], tmp_path / "sweep.html"))
    assert page.said == [] and page.requests == [page.url]
    assert every_detail(page) >= 4
    wide = page("Array.from(document.querySelectorAll('svg'), each => each.getBoundingClientRect().width)")
    assert len(wide) >= 8 and all(each > 50 for each in wide)
    text = page.page.inner_text("main")
    assert "flooding" in text and "covering" in text and "Differences paired over seeds" in text
    assert page("Array.from(document.querySelectorAll('svg')).every(each => each.getAttribute('aria-label'))")
    assert page.said == [] and page.requests == [page.url]


def test_the_page_of_a_comparison_opens_without_a_word_and_without_a_request(opened, made, reported):
    runs = [
        made("news", "duration=2 s", f"services.news.protocol={protocol}") for protocol in ("flooding", "covering")
    ]
    page = opened(reported(*runs))
    assert page.is_quiet()
    assert every_detail(page) >= 2
    text = page.page.inner_text("main")
    assert "The first difference is" in text
    brokers = runs[0].rows("brokers")
    circles = page("Array.from(document.querySelectorAll('svg'), each => each.querySelectorAll('circle').length)")
    assert max(circles) >= brokers and re.search(r"more .* in B; blue and dashed: fewer", text)
    assert page.is_quiet()
