"""Everyone can use it: by keyboard alone, with a screen reader, on a phone, in the dark, at rest.

The screenshots that are taken here are left in `STORYMEM_SHOTS`, if that names a folder, to be looked at.
"""

import os
from pathlib import Path

import html5lib
import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import ask_for, card_of, expect_status, fill, image
from playwright.sync_api import Page, expect

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
# What the element with the focus is called.
FOCUSED = """() => {
    const element = document.activeElement;
    const label = element.closest("label") ?? element.labels?.[0];
    return element.ariaLabel ?? (label ?? element).textContent;
}"""
DESK = {"viewport": {"width": 1280, "height": 900}}


def test_a_shot_is_made_by_keyboard_alone(page: Page):
    def tab_to(name: str) -> None:
        """Tab, until what has the focus is called so."""
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(FOCUSED).strip().startswith(name):
                return
        raise AssertionError(f"the keyboard does not come to {name!r}")

    tab_to("Skip to the queue")
    tab_to("What happens")
    page.keyboard.type("By keyboard alone")
    with page.expect_file_chooser() as chooser:
        tab_to("Add images")
        page.keyboard.press("Enter")
    chooser.value.set_files([image("memory_0"), image("memory_1")])
    expect(page.locator("#memory .tile")).to_have_count(2)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    # The later of the two has come first, and the keyboard is still with it.
    expect(page.get_by_role("button", name="Move memory_1.png earlier")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#memory .tile img").first).to_have_attribute("alt", "memory_1.png")
    expect(page.get_by_role("button", name="Move memory_1.png later")).to_be_focused()
    tab_to("Steps")
    page.keyboard.type("5")
    page.keyboard.press("Control+Enter")

    card = card_of(page, "By keyboard alone")
    expect_status(card, "succeeded")
    expect(page.locator("#live")).to_contain_text("Done: By keyboard alone")
    tab_to("Play")
    page.keyboard.press("Enter")
    expect(card.locator("video")).to_be_visible()


def test_screen_readers_hear_how_far_it_is(page: Page):
    page.evaluate(
        """() => {
            window.heard = [];
            new MutationObserver(() => heard.push(live.textContent.trim())).observe(live, { childList: true });
        }"""
    )
    card = ask_for(page, "Heard", steps="100")
    expect_status(card, "succeeded")
    heard = page.evaluate("heard")
    assert heard[:2] == ["Queued: Heard", "Being made: Heard"]
    assert any(words in heard for words in ("25 %: Heard", "50 %: Heard", "75 %: Heard")), heard
    assert heard[-1] == "Done: Heard"
    # Each step would be too much.
    assert len(heard) < 10


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", [PHONE, DESK], ids=["phone", "desk"])
def test_it_is_readable_everywhere(open_page, device: dict, scheme: str):
    page = open_page(**device, color_scheme=scheme, reduced_motion="reduce")
    done = ask_for(page, "A keeper in a yellow coat climbs the stairs of the lighthouse at dusk", seed="3")
    expect_status(done, "succeeded")
    running = ask_for(page, "The lamp is lit", steps="100", frames="33")
    expect_status(running, "running")
    fill(page, "The light sweeps over the sea, and a ship turns", memory=("memory_2", "memory_3"))
    page.get_by_role("radio", name="From a frame").check()
    page.get_by_text("More settings").click()
    done.get_by_text("Details").click()
    looked_over(page, f"full-{scheme}")

    page.get_by_role("spinbutton", name="Frames").fill("80")
    page.get_by_role("button", name="Make video").click()
    expect(page.locator("#form-errors")).to_be_visible()
    looked_over(page, f"errors-{scheme}")
    page.get_by_role("button", name="API key").click()
    looked_over(page, f"dialog-{scheme}")


def looked_over(page: Page, name: str) -> None:
    """No rule of accessibility is broken, and nothing sticks out to the side."""
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if folder := os.environ.get("STORYMEM_SHOTS"):
        page.screenshot(path=Path(folder, f"{name}-{width}.png"), full_page=True)


def test_fingers_can_order_images(open_page):
    page = open_page(**PHONE)
    fill(page, "By touch")
    boxes = [tile.bounding_box() for tile in page.locator("#memory .tile .picture").all()]
    at = [{"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2} for box in boxes]
    touch = page.context.new_cdp_session(page)
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at[1]]})
    for part in (0.25, 0.5, 0.75, 1):
        point = {axis: at[1][axis] + (at[0][axis] - at[1][axis]) * part for axis in "xy"}
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.locator("#memory .tile img").first).to_have_attribute("alt", "memory_1.png")


def test_a_demo_model_is_called_one(page: Page):
    expect(page.get_by_text("has random weights: its videos show noise")).to_be_visible()


def test_at_rest_nothing_moves(open_page):
    page = open_page(reduced_motion="reduce")
    moving = page.evaluate(
        """() => [...document.querySelectorAll("*")].filter((element) => {
            const { transitionDuration, animationName } = getComputedStyle(element);
            return animationName !== "none" || transitionDuration.split(",").some((time) => parseFloat(time) > 0);
        }).map((element) => element.tagName)"""
    )
    assert moving == []


def test_the_html_is_valid(page: Page, service):
    html = page.request.get(service.base).text()
    html5lib.HTMLParser(strict=True).parse(html)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))
