"""Runs to report on, and a real browser where there is one."""

from __future__ import annotations

import json
import shutil

import pytest

from analysis.bench import browsing
from analysis.report.making import report
from scenarios.loader import load
from scenarios.running import run


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Makes runs of a shipped scenario or a file, once for each way of calling it."""
    runs = {}

    def make(scenario, *overrides):
        key = (str(scenario), *overrides)
        if key not in runs:
            out = tmp_path_factory.mktemp("runs")
            runs[key] = run(load(scenario, list(overrides)), engine="inline", out=out).folder
        return runs[key]

    return make


@pytest.fixture(scope="session")
def swept(made, tmp_path_factory):
    """Makes a folder as a sweep leaves it: two protocols with so many seeds."""

    def make(duration, seeds):
        folder = tmp_path_factory.mktemp("sweep")
        points = []
        for protocol in ("flooding", "covering"):
            for seed in range(1, seeds + 1):
                told = (f"duration={duration}", "topology.nodes=6", f"seed={seed}")
                run = made("news", *told, f"services.news.protocol={protocol}")
                shutil.copytree(run.path, folder / "runs" / run.path.name)
                values = {"services.news.protocol": protocol}
                points.append({"values": values, "status": "finished", "run": f"runs/{run.path.name}"})
        (folder / "sweep.json").write_text(json.dumps({"points": points}))
        return folder

    return make


@pytest.fixture
def damaged(made, tmp_path):
    """A run in which a byte of the deliveries is another."""
    copy = tmp_path / "damaged"
    shutil.copytree(made("news", "duration=2 s").path, copy, ignore=shutil.ignore_patterns("analysis"))
    part = copy / "tables" / "deliveries" / "part-0000.parquet"
    data = bytearray(part.read_bytes())
    data[100] ^= 255
    part.write_bytes(data)
    return copy


@pytest.fixture(scope="session")
def quickstart(made):
    return made("quickstart")


@pytest.fixture(scope="session")
def reported(tmp_path_factory):
    """Writes reports, once for each way of calling it."""
    files = {}

    def write(*runs, **options):
        key = (*(str(each.path) for each in runs), *sorted(options.items()))
        if key not in files:
            target = tmp_path_factory.mktemp("reports") / "report.html"
            files[key] = report([each.path for each in runs], target, **options)
        return files[key]

    return write


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium; skipped by name where there is none."""
    why = browsing.missing()
    if why is not None:
        pytest.skip(why)
    with browsing.browser() as started:
        yield started


class Opened:
    """A page in a browser, with what it said and asked for."""

    def __init__(self, browser, file, **options):
        self.context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.url = file.resolve().as_uri()
        self.page.goto(self.url)
        if "brokerlab = page" in file.read_text("utf-8"):
            self.page.wait_for_selector("html[data-ready=yes]", state="attached")

    def __call__(self, script):
        return self.page.evaluate(script)

    def until(self, condition):
        """Wait for a condition in the page, whose policy lets in no script of the driver's own way of waiting."""
        self(f"new Promise(done => {{ const look = () => {condition} ? done() : setTimeout(look, 10); look(); }})")

    def is_quiet(self):
        """No word on the console, and no request but for the file itself."""
        assert self.said == [] and self.requests == [self.url]
        return True


@pytest.fixture
def opened(browser):
    """Opens files; each in a context of its own."""
    pages = []

    def open_(file, **options):
        pages.append(Opened(browser, file, **options))
        return pages[-1]

    yield open_
    for each in pages:
        each.context.close()
