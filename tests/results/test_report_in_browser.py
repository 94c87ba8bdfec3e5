"""The report in a real browser, headless Chromium: it sorts, filters, fits a telephone, and runs no foreign script."""

import contextlib
import os
import shutil

import pytest
from hostile import HOSTILE, hostile_sweep
from test_report import page_of

from results.collect import collect
from results.layout import SWEEP_FILE
from results.store import open_store

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser (extra 'test')")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (apt-get install chromium)")
PHONE = {"width": 375, "height": 740}
_PATIENCE_MS = 300_000  # of a page to be loaded, on a machine with other work
DESK = {"width": 1200, "height": 800}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def report(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_bytes(page_of(small))
    return path


@contextlib.contextmanager
def opened(browser, path, **settings):
    """The page, which at its end must have said nothing on the console and asked the network for nothing."""
    said, asked = [], []
    page = browser.new_page(**{"viewport": DESK, **settings})
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri(), timeout=_PATIENCE_MS)
    yield page
    page.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def column(page, name, place):
    cells = page.locator(f'table[data-table="{name}"] tbody tr:not([hidden]) td:nth-child({place})')
    return cells.all_text_contents()


def header(page, name, text):
    return page.locator(f'table[data-table="{name}"] th button', has_text=text).first


def test_a_click_sorts_numbers_by_value_and_a_third_restores(browser, report):
    with opened(browser, report) as page:
        before = column(page, "gains", 6)
        button = header(page, "gains", "gain")
        button.click()
        numbers = [float(text) for text in column(page, "gains", 6) if text != "–"]
        assert numbers == sorted(numbers)
        assert numbers != [float(text) for text in before if text != "–"]
        button.click()
        falling = column(page, "gains", 6)
        assert [float(text) for text in falling if text != "–"] == numbers[::-1]
        button.click()
        assert column(page, "gains", 6) == before


def test_absent_values_stand_last_in_both_orders(browser, report):
    with opened(browser, report) as page:
        button = header(page, "gains", "sat.")
        place = 1 + page.locator('table[data-table="gains"] th').all_text_contents().index("sat. (%)")
        for _ in range(2):
            button.click()
            shown = column(page, "gains", place)
            num_absent = shown.count("–")
            assert 0 < num_absent < len(shown)
            assert shown[-num_absent:] == ["–"] * num_absent


def test_the_keyboard_sorts_and_says_so(browser, report):
    with opened(browser, report) as page:
        button = header(page, "gains", "similarity")
        button.focus()
        page.keyboard.press("Enter")
        names = column(page, "gains", 4)
        assert names == sorted(names)
        cell = button.locator("xpath=..")
        assert cell.get_attribute("aria-sort") == "ascending"
        page.keyboard.press("Space")
        assert cell.get_attribute("aria-sort") == "descending"
        assert (
            page.locator('table[data-table="gains"] th[aria-sort="none"]').count()
            == len(page.locator('table[data-table="gains"] th').all()) - 1
        )


def test_a_filter_leaves_the_rows_with_all_its_words(browser, report):
    with opened(browser, report) as page:
        page.locator('input[data-filters="gains"]').fill("random QNORM")
        assert set(column(page, "gains", 2)) == {"random"}
        assert set(column(page, "gains", 4)) == {"qnorm"}


@pytest.mark.parametrize("viewport", [PHONE, DESK])
def test_only_boxes_scroll_sideways(browser, report, viewport):
    with opened(browser, report, viewport=viewport) as page:
        widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert widths[0] <= widths[1]
        outside = page.evaluate(
            """[...document.querySelectorAll("body *")].filter(
                element => !element.closest(".box") && !element.closest(".skip")
                    && element.getBoundingClientRect().right > window.innerWidth + 0.5
            ).map(element => element.outerHTML.slice(0, 80))"""
        )
        assert outside == []
        if viewport is PHONE:
            box = page.locator('.box:has(table[data-table="gains"])')
            assert box.evaluate("box => box.scrollWidth > box.clientWidth")


def test_pictures_are_drawn(browser, report):
    with opened(browser, report) as page:
        widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
        assert len(widths) >= 5
        assert min(widths) > 200


CONTRAST = """() => {
    const linear = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const luminance = colour => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(c => linear(c / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = element => {
        for (let at = element; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (colour !== "rgba(0, 0, 0, 0)") return colour;
        }
        return "rgb(255, 255, 255)";
    };
    return ["h1", "p", "dt", "td", "th button", ".notes li", ".nothing", "nav a"].map(selector => {
        const element = document.querySelector(selector);
        const pair = [luminance(getComputedStyle(element).color), luminance(ground(element))].sort((a, b) => b - a);
        return [selector, (pair[0] + 0.05) / (pair[1] + 0.05)];
    });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(browser, report, scheme):
    """WCAG 2 AA: a contrast of 4.5."""
    with opened(browser, report, color_scheme=scheme) as page:
        found = dict(page.evaluate(CONTRAST))
        assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") is (scheme == "light")


def test_print_shows_whole_tables_on_white(browser, report):
    with opened(browser, report, color_scheme="dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        box = page.locator('.box:has(table[data-table="gains"])')
        assert box.evaluate("box => getComputedStyle(box).maxHeight") == "none"
        assert not page.locator("nav").is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_hostile_names_are_shown_and_never_run(browser, tmp_path):
    folder = hostile_sweep(open_store(str(tmp_path / "sweep")), fails=True)
    folder.store.write(SWEEP_FILE, f"name: {HOSTILE}</pre>".encode())
    path = tmp_path / "report.html"
    path.write_bytes(page_of(collect(folder.store, folder.record())))
    with opened(browser, path, viewport=PHONE) as page:
        assert page.locator("h1").text_content() == HOSTILE
        assert HOSTILE in page.locator('table[data-table="gains"] td').first.text_content()
        assert page.evaluate("window.attacked") is None
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_policy_stops_what_would_slip_through(browser, report, tmp_path):
    """The same page with a script pushed into it: only the page's own one runs."""
    path = tmp_path / "report.html"
    path.write_bytes(report.read_bytes().replace(b"<main>", b"<main><script>window.attacked=1</script>"))
    page = browser.new_page()
    page.goto(path.as_uri(), timeout=_PATIENCE_MS)
    assert page.evaluate("window.attacked") is None
    page.close()
