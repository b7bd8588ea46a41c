"""The page in a real Chromium, against the real service on the demo bundle.

Whatever a test looks at, in the end no request has gone to another host, and the browser has had nothing to complain
of: no error in a script, nothing blocked by the content security policy.
"""

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlparse

import pytest
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "python"))

from service import Service  # noqa: E402

IMAGES = ROOT / "tests" / "fixtures" / "tiny" / "inputs"

# Long enough for anything that is not stuck. A job on the demo bundle takes a second or two, but workers have a low
# priority: on a busy machine they wait for everyone else.
PATIENCE = 300_000
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def browser():
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not path:
        pytest.exit("there is no Chromium: `apt-get install chromium`, or name one in `CHROMIUM`", returncode=1)
    # Chromium's sandbox does not work for root.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def service():
    with Service(os.environ["STORYMEM"], os.environ["STORYMEM_BUNDLE"]) as service:
        yield service


@pytest.fixture
def open_page(browser, service):
    """Opens the page, with the options of a browser context; what it does is watched until the test is over."""
    contexts, outside, complaints = [], [], []

    def watch(page: Page) -> None:
        page.on("request", lambda request: is_outside(request.url, service.base) and outside.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: is_complaint(message) and complaints.append(message.text))

    def open_page(path: str = "/", init: str | None = None, **options) -> Page:
        context = browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        watch(page)
        if init:
            page.add_init_script(init)
        page.goto(service.base + path)
        if path == "/":
            expect(page.locator("#maker.ready")).to_be_visible()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert outside == []
    assert complaints == []


@pytest.fixture
def page(open_page) -> Page:
    return open_page()


def is_outside(url: str, base: str) -> bool:
    parts = urlparse(url)
    return parts.scheme not in ("blob", "data") and f"{parts.scheme}://{parts.netloc}" != base


def is_complaint(message) -> bool:
    # That a call was answered with an error is what some tests are about.
    return message.type in ("error", "warning") and not message.text.startswith("Failed to load resource")


def image(name: str) -> str:
    return str(IMAGES / f"{name}.png")


def fill(page: Page, prompt: str, memory: tuple[str, ...] = ("memory_0", "memory_1")) -> None:
    """Fills in a shot, and nothing else."""
    page.get_by_role("button", name="Start over").click()
    page.get_by_label("What happens").fill(prompt)
    page.locator("#memory input").set_input_files([image(name) for name in memory])
    expect(page.locator("#memory .tile")).to_have_count(len(memory))


def ask_for(page: Page, prompt: str, **settings: str):
    """Asks for a shot, and gives its card."""
    fill(page, prompt)
    for label, value in settings.items():
        page.get_by_role("spinbutton", name=label.capitalize()).fill(value)
    page.get_by_role("button", name="Make video").click()
    card = card_of(page, prompt)
    expect(card).to_have_count(1)
    return card


def card_of(page: Page, prompt: str):
    return page.locator("#jobs .card").filter(has_text=prompt)


def expect_status(card, status: str) -> None:
    expect(card).to_have_attribute("data-status", status)
