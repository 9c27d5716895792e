"""The review page in a browser: keys store answers, differences are marked, nothing is fetched from elsewhere."""

from __future__ import annotations

import shutil
import threading
import time

import pytest

from intarsia.clusters import read_answers, resolve
from intarsia.clusters.reviewing.review import ReviewPage, ReviewSession

webdriver = pytest.importorskip("selenium.webdriver")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(BROWSER is None or DRIVER is None, reason="no chromium and chromedriver here")
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--window-size=1000,800",
)  # fmt: skip
EDGES = {"id1": ["a", "c", "b"], "id2": ["b", "d", "c"], "log_odds": [2.0, 0.5, -1.0]}
RECORDS = {
    "id": ["a", "b", "c", "d"],
    "name": ["Ann Lee", "Ann Leigh", "Anna Leigh", "<b>Anna</b> Leigh"],
    "city": ["Bath", "Bath", "Bath", "York"],
}


@pytest.fixture
def browser(tmp_path):
    session = ReviewSession(resolve(EDGES, calibrate=None, absent=0.0), RECORDS, tmp_path / "answers.jsonl")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for switch in (*_QUIET, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with ReviewPage(session) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
        try:
            driver.get(server.url)
            yield driver, tmp_path / "answers.jsonl", thread
        finally:
            driver.quit()
            server.shutdown()


def wait_for(condition):
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def find(driver, selector):
    return driver.find_element("css selector", selector)


def test_keys_answer_undo_and_finish(browser):
    driver, path, thread = browser
    wait_for(lambda: "0 answered" in find(driver, "#status").text)
    assert (find(driver, "#first").text, find(driver, "#second").text) == ("b", "c")
    marks = [mark.text for mark in driver.find_elements("css selector", "mark")]
    assert marks == ["Ann", "Anna"]
    body = find(driver, "body")
    body.send_keys("d")
    wait_for(lambda: "1 answered" in find(driver, "#status").text)
    assert read_answers(path).cannot_link == [("b", "c")]
    assert "<b>Anna</b>" in find(driver, "#records").text  # shown as text, not as markup
    body.send_keys("z")
    wait_for(lambda: "0 answered" in find(driver, "#status").text)
    for count, key in enumerate("dsu", 1):
        body.send_keys(key)
        wait_for(lambda count=count: f"{count} answered" in find(driver, "#status").text)
    assert "No question is open" in find(driver, "#reason").text
    answers = read_answers(path)
    assert (len(answers.must_link), len(answers.cannot_link), len(answers.unsure)) == (1, 1, 1)
    assert [entry["message"] for entry in driver.get_log("browser")] == []
    find(driver, "#finish").click()
    wait_for(lambda: "Finished: 3 answers" in find(driver, "body").text)
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_overflows(browser, width):
    driver = browser[0]
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    wait_for(lambda: "answered" in find(driver, "#status").text)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
