"""A real browser for pages of our own, headless, where this machine has one.

`python -m analysis.bench.browsing FILE` opens a report and prints what that takes, as JSON: in a process of its own,
since one process drives one browser at a time.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
NO_PROGRAM = f"no browser on PATH: none of {', '.join(BROWSERS)}"
NO_DRIVER = "playwright is not installed"
_FRAMES = """(() => {
  const times = [], { span } = brokerlab.model;
  for (let i = 0; i < 200; i++) {
    const begun = performance.now();
    brokerlab.state.whole = false;
    brokerlab.playing = true;
    brokerlab.setTime(span * (0.2 + i / 400), false);
    brokerlab.map.pen.getImageData(0, 0, 1, 1); // so that what is drawn is drawn, not only asked for
    times.push(performance.now() - begun);
  }
  brokerlab.playing = false;
  return times.sort((a, b) => a - b)[100];
})()"""


_PLAYED = """new Promise(done => {
  const times = [], { model } = brokerlab, play = document.getElementById('play');
  brokerlab.select(-1, -1);
  brokerlab.setTime(model.span * 0.2, false);
  play.click();
  const look = now => {
    times.push(now);
    if (times.length <= 120 && brokerlab.playing) requestAnimationFrame(look);
    else {
      if (brokerlab.playing) play.click();
      done((times.length - 1) * 1000 / (times[times.length - 1] - times[0]));
    }
  };
  requestAnimationFrame(look);
})"""


def missing() -> str | None:
    """What is missing for a browser to be driven, None if nothing is."""
    if not any(map(shutil.which, BROWSERS)):
        return NO_PROGRAM
    return None if importlib.util.find_spec("playwright") else NO_DRIVER


@contextmanager
def browser() -> Iterator[Any]:
    """The first browser on PATH, driven by playwright."""
    from playwright.sync_api import sync_playwright

    program = next(found for name in BROWSERS if (found := shutil.which(name)))
    with sync_playwright() as driver:
        # Without a sandbox of its own, which root does not get: only pages that this program wrote are opened.
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


def opened(file: Path) -> dict[str, float]:
    """What a browser says of a report: when it was ready, how long a frame takes, how many a second are played."""
    command = [sys.executable, "-m", "analysis.bench.browsing", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{file} could not be opened: {done.stderr.strip()}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _measured(file: Path) -> dict[str, float]:
    with browser() as started:
        page = started.new_page(viewport={"width": 1200, "height": 900})
        page.goto(file.resolve().as_uri())
        page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=120_000)
        ready = page.evaluate("performance.getEntriesByName('ready')[0].startTime")
        drawn, played = float(page.evaluate(_FRAMES)), float(page.evaluate(_PLAYED))
        return {"opened_s": ready / 1e3, "frame_ms": drawn, "played_per_s": played}


if __name__ == "__main__":
    print(json.dumps(_measured(Path(sys.argv[1]))))
