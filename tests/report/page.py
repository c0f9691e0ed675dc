# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pages of `raidtrace report --html` in headless Chromium: nothing is loaded, no error, contrast, width, screenshots.

usage: page.py PICTURES PAGE...
"""
import base64
import json
import os
import pathlib
import shutil
import sys

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

SIZES = [(390, 844, "light"), (390, 844, "dark"), (1280, 900, "light"), (1280, 900, "dark")]
CUT = 16000  # pixels; Chromium draws no larger pictures

# WCAG 2's contrast of every text against its background: at least 4.5.
CONTRAST = """
const lum = (c) => { const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
  return .2126 * r + .7152 * g + .0722 * b; };
const parse = (s) => s.match(/[\\d.]+/g).map(Number);
const back = (e) => {
  const frame = e.closest("svg.flame svg");
  if (frame) return parse(getComputedStyle(frame.querySelector("rect")).fill).slice(0, 3);
  const stack = [];
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor); stack.push(c); if (c.length < 4 || c[3] === 1) break; }
  let base = [255, 255, 255];
  while (stack.length) { const [r, g, b, a = 1] = stack.pop(); base = [r, g, b].map((v, i) => v * a + base[i] * (1 - a)); }
  return base; };
const low = []; let count = 0;
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const e = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || e.tagName === "title") continue;
  const style = getComputedStyle(e);
  const ink = parse(e.closest("svg") ? style.fill : style.color).slice(0, 3);
  const [a, b] = [lum(ink), lum(back(e))].sort((x, y) => y - x);
  count += 1;
  if ((a + .05) / (b + .05) < 4.5) low.push([e.tagName, e.className, walk.currentNode.data.slice(0, 30), (a + .05) / (b + .05)]);
}
return [count, low.slice(0, 10)];
"""

pictures, *pages = sys.argv[1:]


def browser():
    options = Options()
    for arg in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]:
        options.add_argument(arg)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


def requests(driver):
    """Addresses that the browser asked for."""
    events = [json.loads(e["message"])["message"] for e in driver.get_log("performance")]
    sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith(("data:", "chrome"))]


def picture(driver, name, width, height, scheme):
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    whole = driver.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(whole, CUT), "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    with open(os.path.join(pictures, f"{name}-{width}-{scheme}.png"), "wb") as file:
        file.write(base64.b64decode(shot["data"]))
    wide = driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width, f"{name}: {wide} pixels wide on a screen of {width}"


def check(driver, page):
    name = pathlib.Path(page).stem
    url = pathlib.Path(page).resolve().as_uri()
    driver.get(url)
    others = [u for u in requests(driver) if u != url]
    assert not others, f"{name} loads {others}"
    for size in SIZES:
        picture(driver, name, *size)
        for state in ["true", "false"]:
            driver.execute_script(f"document.querySelectorAll('details').forEach(d => d.open = {state})")
            count, low = driver.execute_script(CONTRAST)
            assert count > 20 and not low, (name, size, count, low)
    for tag in ["script", "img", "iframe", "object", "link", "form", "base"]:
        assert not driver.execute_script(f"return document.getElementsByTagName('{tag}').length"), (name, tag)
    # No handler of events, and no address but those of sections.
    found = driver.execute_script(
        "return [...document.querySelectorAll('*')].flatMap(e => [...e.attributes].map(a => [a.name, a.value]))"
        ".filter(([n, v]) => n.startsWith('on') || (['href', 'src', 'action'].includes(n) && !v.startsWith('#')))"
    )
    assert not found, (name, found)
    # On paper the figures are open, except those by interval.
    paper = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    with open(os.path.join(pictures, f"{name}.pdf"), "wb") as file:
        file.write(base64.b64decode(paper["data"]))
    log = [e for e in driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
    assert not log, (name, log)


def main():
    driver = browser()
    try:
        for page in pages:
            check(driver, page)
    finally:
        driver.quit()


main()
