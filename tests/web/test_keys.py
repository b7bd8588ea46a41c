"""A service that is closed: the page asks for a key, keeps it as told, and sends it with everything."""

import re

import pytest
from conftest import ask_for, expect_status
from playwright.sync_api import Page, expect
from test_shot import plays


@pytest.fixture
def key(service) -> str:
    return next(word for word in service.keys("add", "--owner", "alice").split() if word.startswith("sm_"))


def enter(page: Page, key: str, keep: bool = False) -> None:
    dialog = page.get_by_role("dialog", name="API key")
    dialog.get_by_label("Key", exact=True).fill(key)
    if keep:
        dialog.get_by_label("Remember it on this device").check()
    dialog.get_by_role("button", name="Use key").click()
    expect(dialog).to_be_hidden()


def test_with_a_key_a_shot_is_made_and_played(key: str, page: Page):
    expect(page.locator("#queue-notice")).to_contain_text("only with an API key")
    page.get_by_role("button", name="Enter a key").click()
    enter(page, key)
    expect(page.locator("#queue-notice")).to_be_hidden()

    card = ask_for(page, "Behind a lock", steps="30")
    expect_status(card, "succeeded")
    # Neither an `<img>` nor a `<video>` can send a key: what they show was fetched.
    expect(card.locator("[data-part=thumbnail]")).to_have_attribute("src", re.compile("^blob:"))
    card.get_by_role("button", name="Play", exact=True).click()
    plays(card, seconds=9 / 16)
    with page.expect_download() as download:
        card.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "Behind a lock.mp4"


def test_an_image_waits_for_the_key(key: str, page: Page):
    page.locator("#memory input").set_input_files([{"name": "a.png", "mimeType": "image/png", "buffer": png(page)}])
    enter(page, key)
    expect(page.locator("#memory .tile .error")).to_be_hidden()
    page.get_by_label("What happens").fill("The image was sent again")
    page.get_by_role("button", name="Make video").click()
    expect(page.locator("#jobs .card")).to_have_count(1)


def png(page: Page) -> bytes:
    return page.screenshot(clip={"x": 0, "y": 0, "width": 64, "height": 64})


def test_a_wrong_key_is_refused_in_words(key: str, page: Page):
    page.get_by_role("button", name="API key").click()
    enter(page, "sm_nonsense")
    expect(page.locator("#queue-notice")).to_contain_text("The API key is not known here")


def test_a_key_lasts_as_long_as_it_was_told_to(key: str, page: Page):
    def lasts(other: Page) -> bool:
        other.goto(page.url)
        expect(other.locator("#maker.ready")).to_be_visible()
        expect(other.locator("#empty, #queue-notice").locator("visible=true")).to_have_count(1)
        return other.locator("#empty").is_visible()

    page.get_by_role("button", name="API key").click()
    enter(page, key)
    assert lasts(page)
    tab = page.context.new_page()
    assert not lasts(tab)

    page.get_by_role("button", name="API key").click()
    enter(page, key, keep=True)
    assert lasts(tab)

    tab.get_by_role("button", name="API key").click()
    tab.get_by_role("button", name="Forget it").click()
    expect(tab.locator("#queue-notice")).to_contain_text("only with an API key")
    assert not lasts(page)
