"""Reports in a real browser: quiet, offline, every control, what is drawn where, and nothing that a stranger can do."""

from __future__ import annotations

import json
import random
import re
import socket

import pytest

from analysis.report.cases import NOT_EXPLAINED
from analysis.report.columns import unpacked
from analysis.spark.explain import explain
from analysis.spark.graph import Network
from analysis.spark.trace import services_of
from analysis.ways.told import Told
from analysis.ways.way import Way
from brokers.errors import InvalidInput

pytestmark = pytest.mark.xdist_group("browser")

HOSTILE = [
    "</script><script>document.title='pwned'</script>", "<img src=x onerror=alert(1)>", "</title><h1>pwned", "<!--",
    "\"onmouseover=alert(1) x=\"", "javascript:alert(1)", "\u202egnp.exe", "</svg><script>alert(1)</script>",
]  # fmt: skip
PIXELS = """(([x, y, r]) => {{
  const {{ canvas, width }} = brokerlab.map, ratio = canvas.width / width;
  const copy = Object.assign(document.createElement('canvas'), {{ width: canvas.width, height: canvas.height }});
  const pen = copy.getContext('2d', {{ willReadFrequently: true }});
  pen.drawImage(canvas, 0, 0);
  const data = pen.getImageData((x - r) * ratio, (y - r) * ratio, 2 * r * ratio, 2 * r * ratio).data;
  let found = 0;
  for (let i = 0; i < data.length; i += 4)
    if (Math.abs(data[i] - {0}) + Math.abs(data[i + 1] - {1}) + Math.abs(data[i + 2] - {2}) < 60) found++;
  return found;
}})"""


@pytest.fixture(scope="module")
def page(browser, quickstart, reported):
    """The quickstart's, opened once; each test leaves it as it likes."""
    from .conftest import Opened

    opened = Opened(browser, reported(quickstart))
    yield opened
    opened.context.close()


def test_the_page_opens_without_a_word_and_without_a_request(page):
    assert page.is_quiet()
    assert page("document.documentElement.dataset.ready") == "yes"


def test_what_the_browser_unpacks_is_what_was_packed(page, quickstart, reported):
    text = reported(quickstart).read_text("utf-8")
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', text)[1])
    columns = unpacked(facts["columns"], re.search(r'id="columns">(.*?)</script>', text)[1])
    for name, column in columns.items():
        rows, total = page(f"(c => [c.length, c.reduce((sum, each, at) => (sum + each * (at % 97 + 1)) % 1e9, 0)])"
                           f"(brokerlab.model.columns.{name})")  # fmt: skip
        expected = 0
        for at, each in enumerate(column.tolist()):
            value = expected + each * (at % 97 + 1)
            expected = value % 10**9 if value >= 0 else -(-value % 10**9)
        assert (rows, total) == (column.size, expected), name


def test_the_way_of_a_publication_is_that_of_explain(page, quickstart):
    """Events, who sent which, and deliveries, for publications of every service."""
    services = services_of(quickstart)
    rows = quickstart.read("publications").to_pylist()
    dice = random.Random(3)
    for service in services:
        mine = [row for row in rows if row["service"] == service.number]
        for row in dice.sample(mine, min(4, len(mine))):
            told = Told.of_run(quickstart, service)
            way = Way(told, row)
            name = told.message(row["publication"])
            found = page(f"""(() => {{
                const m = brokerlab.model, message = m.find({json.dumps(name)}), hops = m.hopsOf(message);
                return {{ hops: hops.map(h => [m.hopBroker[h], m.columns.hop_time[h]]),
                    senders: hops.map(h => m.sender(h, hops)).map(sender => sender < 0 ? -1 : m.hopBroker[sender]),
                    got: Array.from(m.deliveriesOf(message), at => m.columns.got_client[at]) }};
            }})()""")
            key = lambda hop: (hop.time_ns // 1000, hop.broker)  # noqa: E731
            assert sorted(map(tuple, found["hops"])) == sorted(
                (hop.broker, hop.time_ns // 1000) for hop in way.hops
            )
            senders = {(time, broker): sender for (broker, time), sender in zip(found["hops"], found["senders"])}
            for hop in way.hops:
                sender = way.sender(hop)
                if hop.link >= 0:
                    assert senders[key(hop)] == (-1 if sender is None else sender.broker)
            assert sorted(found["got"]) == sorted(each["client"] - told.nodes for each in way.deliveries)


def test_the_quickest_ways_are_those_of_the_overlay(page, quickstart):
    network = Network.of(quickstart)
    for broker in (0, 7, 31):
        far = page(f"Array.from(brokerlab.model.nearer({broker}).far)")
        expected = network.distances(broker) // 1000
        assert all(abs(a - b) <= 8 for a, b in zip(far, expected.tolist()))


def test_every_case_is_told_as_explain_tells_it(page, quickstart):
    facts = page("brokerlab.facts.cases.map(c => [c.message, c.client, c.verdict, c.said])")
    assert len(facts) >= 4
    for at, (message, client, verdict, said) in enumerate(facts):
        try:
            why = explain(quickstart.path, message, client)["to"]["why"]
        except InvalidInput as error:
            why = {"verdict": NOT_EXPLAINED, "said": [str(error)]}
        assert (verdict, said) == (why["verdict"], why["said"])
        page.page.select_option("#case", str(at))
        assert page.page.inner_text("#explained h3").startswith(page(f"brokerlab.facts.cases[{at}].service"))
        assert page("brokerlab.model.message(brokerlab.state.message)") == message
    assert page.is_quiet()


def test_what_is_drawn_is_where_it_is(page):
    """Structure, not pixels: brokers in their colour, nothing between, the way of a message lit up."""
    page("brokerlab.select(-1, -1), brokerlab.setTime(0, true)")
    places = page("Array.from(brokerlab.map.x, (x, at) => [x, brokerlab.map.y[at]])")
    background = PIXELS.format(255, 255, 255)
    radius = page("brokerlab.map.radius")
    for x, y in places:
        assert page(f"{background}([{x}, {y}, {radius / 3}])") == 0
    corner = page(f"{background}([20, 20, 10])")
    assert corner >= 390
    light = PIXELS.format(230, 159, 0)
    delivered = "brokerlab.facts.cases.find(each => each.verdict === 'delivered')"
    page(f"brokerlab.select(brokerlab.model.find({delivered}.message), -1)")
    links = page(
        "brokerlab.state.hops.filter(h => brokerlab.model.isLink(h)).map(h => brokerlab.model.columns.hop_at[h])"
    )
    assert len(links) > 3
    for link in links:
        ends = page(f"[brokerlab.model.columns.link_from[{link}], brokerlab.model.columns.link_to[{link}]]")
        middle = [sum(places[end][axis] for end in ends) / 2 for axis in (0, 1)]
        assert page(f"{light}([{middle[0]}, {middle[1]}, 4])") > 0, link
    page("brokerlab.select(-1, -1)")
    assert page(f"{light}([{middle[0]}, {middle[1]}, 4])") == 0


def test_messages_under_way_are_on_their_links(page, quickstart):
    page("brokerlab.select(-1, -1), brokerlab.setTime(5e6, false)")
    rows = quickstart.read("hops").to_pydict()
    delay = dict(zip(*(quickstart.read("links").to_pydict()[name] for name in ("link", "delay_ns"))))
    under_way = sum(
        time // 1000 - delay[link] // 1000 <= 5_000_000 <= time // 1000
        for time, link in zip(rows["time_ns"], rows["link"]) if link >= 0
    )  # fmt: skip
    assert page("brokerlab.map.dots") == under_way > 50


def test_waste_of_all_stretches_is_that_of_the_whole_run(page):
    page("brokerlab.select(-1, -1), brokerlab.setTime(0, true)")
    whole = page("Array.from(brokerlab.map.counts('waste_links', brokerlab.model.links))")
    page("brokerlab.setTime(0, false)")
    by_stretch = page(
        "Array.from({length: brokerlab.facts.stretches}, (_, at) => { brokerlab.state.stretch = at;"
        " return Array.from(brokerlab.map.counts('waste_links', brokerlab.model.links)); })"
    )
    assert [sum(each) for each in zip(*by_stretch)] == whole and sum(whole) > 0
    assert sum(any(stretch) for stretch in by_stretch) > 1
    page("brokerlab.setTime(0, true)")


def test_links_that_arise_are_in_the_page_if_they_did_and_drawn_when_they_did(made, reported, opened):
    run = made("plumtree", "duration=3 s")
    page = opened(reported(run))
    links = run.read("links").sort_by("link").to_pylist()
    arose = [each for each in links if not each["latent"] or each["messages"] or links[each["link"] ^ 1]["messages"]]
    for end in ("from", "to"):
        assert page(f"Array.from(brokerlab.model.columns.link_{end})") == [each[end] for each in arose]
    assert len(arose) < len(links)
    page("brokerlab.setTime(0, false)")
    for stretch in (0, page("brokerlab.facts.stretches - 1")):
        shown = page(f"(brokerlab.state.stretch = {stretch}, Array.from({{length: brokerlab.model.links / 2}},"
                     " (_, at) => brokerlab.map.isThere(2 * at)))")  # fmt: skip
        carried = page("Array.from(brokerlab.map.counts('on_links', brokerlab.model.links))")
        latent = [each["latent"] for each in arose]
        assert shown == [
            not latent[2 * at] or carried[2 * at] + carried[2 * at + 1] > 0 for at in range(len(shown))
        ]
    assert not all(shown)
    page("brokerlab.setTime(0, true)")
    assert page("brokerlab.map.isThere(0)") and page.is_quiet()


def test_every_control_does_what_it_says(page):
    view = page.page
    page("brokerlab.select(-1, -1), brokerlab.setTime(0, true)")
    for show in ("tables", "waste", "traffic"):
        view.select_option("#show", show)
        assert page("brokerlab.state.show") == show
    assert "entries" not in view.inner_text("#legend")
    view.select_option("#service", "1")
    assert page("brokerlab.state.service") == 1
    view.select_option("#service", "-1")
    view.uncheck("#whole")
    assert page("brokerlab.state.whole") is False
    view.fill("#time", "500")
    assert abs(page("brokerlab.state.time / brokerlab.model.span") - 0.5) < 1e-6
    assert view.inner_text("#clock").endswith(" s")
    view.fill("#broker", "b7")
    view.press("#broker", "Enter")
    assert view.inner_text("#said").startswith("b7: ")
    x, y = page("[brokerlab.map.x[9], brokerlab.map.y[9]]")
    view.click("#map", position={"x": x, "y": y})
    assert view.inner_text("#said").startswith("b9: ")
    view.select_option("#window", index=1)
    assert "events from" in view.inner_text("#diagram-said")
    view.fill("#message", "no such")
    view.click("#find button[type=submit]")
    assert 'no message "no such"' in view.inner_text("#answer")
    case = page("brokerlab.facts.cases.find(each => each.verdict === 'delivered')")
    view.fill("#message", case["message"])
    view.fill("#client", str(case["client"]))
    view.click("#find button[type=submit]")
    assert f"Client {case['client']} got it" in view.inner_text("#answer")
    view.click("#later")
    later = page("brokerlab.state.message")
    view.click("#earlier")
    assert page("brokerlab.state.message") != later
    assert page("brokerlab.model.message(brokerlab.state.message)") == case["message"]
    view.click("#clear")
    assert page("brokerlab.state.message") == -1 and view.inner_text("#answer") == ""
    for summary in view.query_selector_all("summary"):
        summary.click()
    assert page.is_quiet()


def test_play_moves_time_and_pause_stops_it(page):
    view = page.page
    page("brokerlab.setTime(0, false)")
    view.select_option("#speed", "1.0")
    view.click("#play")
    assert view.inner_text("#play") == "Pause"
    page.until("brokerlab.state.time > 50000")
    view.click("#play")
    stopped = page("brokerlab.state.time")
    assert view.inner_text("#play") == "Play"
    assert page("new Promise(done => setTimeout(() => done(brokerlab.state.time), 60))") == stopped
    assert page.is_quiet()


def test_keys_move_time(page):
    view = page.page
    page("brokerlab.setTime(0, false)")
    view.focus("#map")
    step = page("brokerlab.model.span / 1000")
    for key, expected in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("PageUp", 51),
        ("PageDown", 1),
        ("End", 1000),
        ("Home", 0),
    ):
        view.keyboard.press(key)
        assert abs(page("brokerlab.state.time") - expected * step) < 1, key
    view.keyboard.press(" ")
    assert view.inner_text("#play") == "Pause"
    view.keyboard.press(" ")
    assert view.inner_text("#play") == "Play"
    view.focus("#time")
    view.keyboard.press("ArrowRight")
    assert page("brokerlab.state.time") > 0
    assert page.is_quiet()


def test_every_control_has_a_name_and_is_reached_by_tab(page):
    nameless = page("""Array.from(document.querySelectorAll('button, select, input, canvas'))
        .filter(each => each.offsetParent)
        .filter(each => !(each.labels?.length || each.getAttribute('aria-label') || each.textContent.trim()))
        .map(each => each.id)""")
    assert nameless == []
    hidden = page("""Array.from(document.querySelectorAll('svg')).filter(each => !each.getAttribute('aria-label'))
        .map(each => each.getAttribute('aria-hidden') === 'true' && each.parentElement.textContent.trim())""")
    assert hidden and all(hidden)  # signs of the key, each beside its words
    visible = set(
        page("""Array.from(document.querySelectorAll('button, select, input, #map'))
        .filter(each => each.offsetParent).map(each => each.id || each.type)""")
    )
    page.page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(80):
        page.page.keyboard.press("Tab")
        reached.add(page("document.activeElement.id || document.activeElement.type"))
    assert visible <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(opened, quickstart, reported, scheme):
    """4.5 to 1 for text, 3 to 1 for lines, by the formula of WCAG."""
    page = opened(reported(quickstart), color_scheme=scheme)
    names = ["page", "ink", "dim", "accent", "bad", "good", *(f"s{at}" for at in range(8))]
    style = "getComputedStyle(document.documentElement)"
    colours = {name: page(f"{style}.getPropertyValue('--{name}').trim()") for name in names}

    def brightness(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(name):
        low, high = sorted([brightness(colours[name]), brightness(colours["page"])])
        return (high + 0.05) / (low + 0.05)

    assert {name: contrast(name) for name in ("ink", "dim", "accent", "bad", "good") if contrast(name) < 4.5} == {}
    assert {name: contrast(name) for name in colours if name.startswith("s") and contrast(name) < 3} == {}
    assert page.is_quiet()


def test_the_map_turns_dark_with_the_page(opened, quickstart, reported):
    page = opened(reported(quickstart))
    white = PIXELS.format(255, 255, 255)
    assert page(f"{white}([20, 20, 5])") > 0
    page.page.emulate_media(color_scheme="dark")
    page.until("brokerlab.map.colour.page === '#16181c'")
    assert page(f"{white}([20, 20, 5])") == 0


def test_on_paper_there_are_pictures_and_no_buttons(opened, quickstart, reported):
    page = opened(reported(quickstart))
    page.page.emulate_media(media="print")
    assert (
        page(
            "Array.from(document.querySelectorAll('button, select, nav')).filter(each => each.offsetParent).length"
        )
        == 0
    )
    assert page("['map', 'diagram'].every(id => document.getElementById(id).offsetHeight > 100)")
    wide = page("Array.from(document.querySelectorAll('svg'), each => each.getBoundingClientRect().width)")
    assert sum(each > 50 for each in wide) >= 8


@pytest.fixture(scope="module")
def hostile(made, tmp_path_factory):
    """Runs of an overlay whose brokers have names that would be markup."""
    names = [json.dumps(name) for name in HOSTILE]
    links = [f"[0, {at}]" for at in range(1, len(names))]
    scenario = tmp_path_factory.mktemp("hostile") / "hostile.yaml"
    scenario.write_text(
        f"""
title: {json.dumps(HOSTILE[0] + HOSTILE[1])}
duration: 1 s
topology: {{kind: explicit, nodes: [{", ".join(names)}], links: [{", ".join(links)}]}}
links: {{delay: 5 ms, loss: 5 %}}
clients: {{all: {{count: 10}}}}
services:
  - name: news
    kind: content
    protocol: {{PROTOCOL}}
    attributes: 2
    workload:
      - {{source: subscribe, clients: all, number: 2, width: 0.9}}
      - {{source: publish, clients: all, rate: 10/s}}
trace: {{level: full}}
""".replace("{PROTOCOL}", "subscription"),
        encoding="utf-8",
    )
    return made(scenario), made(scenario, "services.news.protocol=flooding")


def test_names_of_a_stranger_are_text(opened, hostile, reported):
    page = opened(reported(hostile[0]))
    assert page.is_quiet()
    assert page("document.title") == "hostile: report of a run"
    assert page("document.querySelectorAll('h1').length") == 1
    assert page("document.querySelectorAll('img, iframe, object, embed').length") == 0
    assert page("document.querySelectorAll('script').length") == 4
    shown = page("brokerlab.facts.brokers")
    assert shown[0] == HOSTILE[0] and "\u202e" not in "".join(shown)
    page("brokerlab.pick(0)")
    assert page.page.inner_text("#said").startswith(HOSTILE[0])
    for at in range(len(page("brokerlab.facts.cases"))):
        page.page.select_option("#case", str(at))
    losses = page("Array.from(document.getElementById('loss').options, each => each.value)")
    assert len(losses) > 3
    for value in losses[:20]:
        page.page.select_option("#loss", value)
    assert page("document.title") == "hostile: report of a run"
    assert page.is_quiet()


def test_names_of_a_stranger_are_text_where_two_runs_are_compared(opened, hostile, reported):
    page = opened(reported(*hostile))
    assert page.is_quiet()
    assert page("document.querySelectorAll('script').length") == 0
    assert page("document.title").endswith("report of two runs")
    assert HOSTILE[0][:14] in page("Array.from(document.querySelectorAll('svg text'), each => each.textContent)")


def test_a_script_that_got_in_would_not_run(opened, quickstart, reported, tmp_path):
    """The policy, not only the escaping: a page into which somebody wrote a script refuses it, and asks nobody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        there = f"http://127.0.0.1:{server.getsockname()[1]}/"
        evil = f"<script>document.title='pwned'</script><img src='{there}x.png' onerror=\"document.title='pwned'\">"
        spoilt = tmp_path / "spoilt.html"
        spoilt.write_text(
            reported(quickstart).read_text("utf-8").replace("</main>", f"{evil}</main>"), encoding="utf-8"
        )
        page = opened(spoilt)
        assert page(f"fetch('{there}').then(() => 'sent', () => 'refused')") == "refused"
        with pytest.raises(TimeoutError):
            server.accept()
    assert page("document.title") == "quickstart: report of a run"
    assert any("Content Security Policy" in each for each in page.said)


def test_faults_show_when_they_are(opened, made, reported):
    run = made("partition-heals", "trace.level=full")
    page = opened(reported(run))
    shown = {}
    for second in (1, 3, 5):
        page(f"brokerlab.setTime({second}e6, false)")
        shown[second] = page("brokerlab.map.faultsShown")
    assert shown == {1: 0, 3: 2, 5: 0}
    assert page("document.querySelectorAll('svg rect.shade').length") > 2
    lost = page("Array.from(document.getElementById('loss').options).length")
    assert lost > 10
    page.page.select_option("#loss", index=3)
    assert "Lost at" in page.page.inner_text("#answer") and ": cut." in page.page.inner_text("#answer")
    assert any(each["verdict"] == "lost" for each in page("brokerlab.facts.cases"))
    page("brokerlab.select(-1, -1), brokerlab.setTime(3e6, false)")
    x, y, row = page("brokerlab.map.lossPlaces[0]")
    page.page.click("#map", position={"x": x, "y": y})
    chosen = page("brokerlab.state.message")
    there = page("brokerlab.map.lossPlaces.map(place => brokerlab.model.columns.lost_message[place[2]])")
    assert chosen == page(f"brokerlab.model.columns.lost_message[{row}]") or chosen in there
    assert "Lost at" in page.page.inner_text("#answer")
    assert page.is_quiet()


def test_without_scripts_all_but_the_moving_pictures_is_there(opened, browser, quickstart, reported):
    context = browser.new_context(java_script_enabled=False)
    view = context.new_page()
    view.goto(reported(quickstart).resolve().as_uri())
    assert view.locator("svg.chart").count() >= 8
    assert "need scripts" in view.inner_text("#waiting")
    assert view.locator("#live").is_hidden()
    context.close()


@pytest.mark.parametrize("level", ["none", "summary", "deliveries"])
def test_a_thin_trace_opens_quietly(opened, made, reported, level):
    page = opened(reported(made("news", "duration=1 s", f"trace.level={level}")))
    assert page.is_quiet()
    if level != "none":
        page("brokerlab.setTime(5e5, false)")
        page.page.fill("#time", "700")
        assert page.is_quiet()
