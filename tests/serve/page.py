"""The page of `raidtrace serve` in headless Chromium: content, updates, keys, a restart, a token, and screenshots.

usage: page.py RAIDTRACE DISK MOUNT_POINT SCRATCH PICTURES
"""
import atexit
import base64
import os
import shutil
import signal
import subprocess
import sys

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

TIMEOUT = 120  # seconds; far longer than any step takes
SIZES = [(390, 844, "light"), (1280, 900, "dark"), (1920, 1080, "light")]

raidtrace, disk, mount_point, scratch, pictures = sys.argv[1:]


def serve(*args, listen="127.0.0.1:0"):
    """A running serve, and the address of its page."""
    process = subprocess.Popen(
        [raidtrace, "serve", disk, "--listen", listen, *args], stderr=subprocess.PIPE, text=True
    )
    atexit.register(process.kill)
    for line in process.stderr:
        if "serving " in line:
            return process, line.split(" at ")[1].strip()
    raise SystemExit("serve has not started")


def stop(process):
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT) == 0


def browser():
    options = Options()
    for arg in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]:
        options.add_argument(arg)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


def load():
    """Writes to the filesystem, with file names that contain HTML."""
    name = os.path.join(mount_point, "<img src=x onerror=alert(1)>.db")
    with open(name, "wb") as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())


def wait(driver, what, condition):
    WebDriverWait(driver, TIMEOUT, 0.2).until(lambda d: load() or condition(d), what)


def text(driver, selector):
    """The text of an element. An update of the page may replace it after it was found."""
    for _ in range(10):
        try:
            return driver.find_element(By.CSS_SELECTOR, selector).text
        except StaleElementReferenceException:
            pass
    raise AssertionError(f"{selector}: replaced ten times before it was read")


def picture(driver, width, height, scheme):
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    wait(driver, "a frame", lambda d: d.execute_script("return innerWidth") == width)
    whole = driver.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": max(height, whole), "scale": 1}
    shot = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    with open(os.path.join(pictures, f"{width}.png"), "wb") as file:
        file.write(base64.b64decode(shot["data"]))
    wide = driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width, f"the page is {wide} pixels wide on a screen of {width}"


def live(driver):
    return "live" in text(driver, "#state")


def content(driver):
    wait(driver, "the first interval", live)
    wait(driver, "a write in the heat map", lambda d: "file_data write" in text(d, ".heat"))
    assert disk in text(driver, "h2")
    assert disk in text(driver, ".members tbody")
    before = text(driver, "#state")
    wait(driver, "an update", lambda d: live(d) and text(d, "#state") != before)
    wait(driver, "the file's name, as text", lambda d: "<img src=x" in text(d, "#arrays"))
    assert not driver.find_elements(By.CSS_SELECTOR, "#arrays img")


def keys(driver):
    strips = driver.find_element(By.CSS_SELECTOR, ".strips")
    wait(driver, "two points of the last hour", lambda d: d.execute_script("return points.length") >= 2)
    strips.send_keys(Keys.ARROW_LEFT)
    newest = text(driver, ".cursor")
    assert disk in newest, newest
    driver.find_element(By.CSS_SELECTOR, ".strips").send_keys(Keys.ARROW_LEFT)
    assert text(driver, ".cursor") != newest
    driver.find_element(By.CSS_SELECTOR, ".strips").send_keys(Keys.ESCAPE)
    assert "keys show a time" in text(driver, ".cursor")
    # Everything that can be clicked can be reached with the tab key.
    driver.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    reached = set()
    for _ in range(10):
        active = driver.switch_to.active_element
        reached.add(active.get_attribute("id") or active.get_attribute("class"))
        active.send_keys(Keys.TAB)
    assert {"strips", "keep"} <= reached, reached


def dump(driver):
    driver.find_element(By.ID, "keep").send_keys(Keys.ENTER)
    wait(driver, "the written recording", lambda d: "raidtrace-" in text(d, "#dumps"))
    link = driver.find_element(By.CSS_SELECTOR, "#dumps a").get_attribute("href")
    script = "return fetch(arguments[0]).then(a => a.arrayBuffer()).then(b => b.byteLength)"
    assert driver.execute_script(script, link) > 1000


def contrast(driver):
    """WCAG 2's contrast of every text against its background: at least 4.5."""
    script = """
    const lum = (c) => { const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
      return .2126 * r + .7152 * g + .0722 * b; };
    const parse = (s) => s.match(/[\\d.]+/g).map(Number);
    const back = (e) => { let stack = []; for (; e; e = e.parentElement) {
        const c = parse(getComputedStyle(e).backgroundColor); stack.push(c); if (c.length < 4 || c[3] === 1) break; }
      let base = (stack.pop() || [255, 255, 255]).slice(0, 3);
      while (stack.length) { const [r, g, b, a] = stack.pop(); base = [r, g, b].map((v, i) => v * a + base[i] * (1 - a)); }
      return base; };
    return [...document.querySelectorAll("h1,h2,h3,p,td,th,li,a,button,span")].filter(e => e.offsetParent && e.textContent.trim())
      .map(e => { const [a, b] = [lum(parse(getComputedStyle(e).color).slice(0, 3)), lum(back(e))].sort((x, y) => y - x);
        return [e.className || e.tagName, e.textContent.slice(0, 30), (a + .05) / (b + .05)]; }).filter(x => x[2] < 4.5);
    """
    low = driver.execute_script(script)
    assert not low, low


def restart(driver, first, url):
    stop(first)
    wait(driver, "the loss of the connection", lambda d: "no connection" in text(d, "#state"))
    second, _ = serve("--dump-dir", scratch, "--with-paths", "--with-tasks", listen=url.split("/")[2])
    wait(driver, "the connection after a restart", live)
    return second


def with_token(driver):
    token = os.path.join(scratch, "token")
    with open(token, "w", encoding="ascii") as file:
        file.write("0123456789abcdef\n")
    os.chmod(token, 0o600)
    process, url = serve("--token-file", token)
    driver.get(url)
    wait(driver, "the question for the token", lambda d: d.find_element(By.ID, "token").is_displayed())
    driver.find_element(By.ID, "token").send_keys("0123456789abcdef", Keys.ENTER)
    wait(driver, "figures, with the token", live)
    stop(process)


def main():
    process, url = serve("--dump-dir", scratch, "--with-paths", "--with-tasks")
    driver = browser()
    try:
        driver.get(url)
        content(driver)
        keys(driver)
        dump(driver)
        for size in SIZES:
            picture(driver, *size)
            contrast(driver)
        log = [e for e in driver.get_log("browser") if e["level"] == "SEVERE"]
        assert not log, log
        process = restart(driver, process, url)
        stop(process)
        with_token(driver)
    finally:
        driver.quit()


main()
