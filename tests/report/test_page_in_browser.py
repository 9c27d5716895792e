"""The report page in a browser: no error, tables sort, sliders change the verdict, nothing overflows a phone."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from intarsia.report.line_plots import Line
from intarsia.report.page import write_page
from intarsia.report.page_parts import Axis, Curves, Explorer, Section, Table

webdriver = pytest.importorskip("selenium.webdriver")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(BROWSER is None or DRIVER is None, reason="no chromium and chromedriver here")
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--window-size=1000,900",
)  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    x = np.arange(1, 40)
    table = Table(["row", "error"], [["b", 0.3], ["a", None], ["c", 0.05], ["a long name " * 6, 10.0]])
    curves = Curves([Line("ours", x, 2.0 / x), Line("theirs", x, 3.0 / x)], "iterations", "error")
    answers = {"exact": [[0, 0], [1, 1]], "loopy": [[0, 1], [1, 1]]}
    explorer = Explorer((Axis("alpha", [-1.0, 1.0]), Axis("beta", [0.25, 0.5])), answers, ["+1", "-1"])
    sections = [Section("one", "One", "Is it so?", [table, curves, explorer], {"Settings": "x" * 300})]
    write_page(folder / "index.html", "A report", "About something.", sections)
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for switch in (*_QUIET, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    try:
        driver.get((folder / "index.html").as_uri())
        yield driver
    finally:
        driver.quit()


def find(page, selector):
    return page.find_elements("css selector", selector)


def test_no_error_in_the_console(page):
    assert [entry["message"] for entry in page.get_log("browser")] == []


def test_tables_sort(page):
    def column(k):
        return [row.find_elements("css selector", "td")[k].text for row in find(page, "table.sortable tbody tr")]

    heads = find(page, "table.sortable th button")
    heads[1].click()
    assert column(1) == ["0.05", "0.3", "10", "–"]  # sorted as numbers, missing values last
    heads[1].click()
    assert column(1) == ["10", "0.3", "0.05", "–"]
    heads[0].click()
    assert column(0)[-1] == "c"


def test_the_pointer_shows_values(page):
    drawing = find(page, ".curves svg")[0]
    page.execute_script("arguments[0].scrollIntoView()", drawing)
    webdriver.ActionChains(page).move_to_element(drawing).perform()
    tip = find(page, ".tip")[0].text
    assert "ours:" in tip
    assert "theirs:" in tip
    assert find(page, ".tip")[0].is_displayed()
    webdriver.ActionChains(page).move_to_element(find(page, "h1")[0]).perform()
    assert not find(page, ".tip")[0].is_displayed()


def test_sliders_change_the_verdict(page):
    slider = find(page, ".explorer input")[1]
    assert find(page, ".verdict")[0].text == "All agree"
    slider.send_keys("\ue014")  # arrow to the right
    assert find(page, ".verdict")[0].text == "loopy differs from exact"
    assert [cell.text for cell in find(page, "td.answer")] == ["+1", "-1"]
    assert find(page, ".explorer output")[1].text == "0.50"
    slider.send_keys("\ue012")
    assert find(page, ".verdict")[0].text == "All agree"


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_overflows(page, width):
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_dark_mode_has_a_dark_background(page):
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    red, green, blue = (
        int(part)
        for part in page.execute_script("return getComputedStyle(document.body).backgroundColor")[4:-1].split(",")
    )
    assert max(red, green, blue) < 64
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
