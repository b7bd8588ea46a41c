"""From a script to a film; what the story remembers; shots made again."""

import json

from conftest import expect_status, image
from playwright.sync_api import Page, expect
from test_reach import DESK, PHONE, looked_over
from test_shot import plays

SCRIPT = {
    "story_name": "The keeper",
    "scenes": [
        {"scene_num": 1, "video_prompts": ["He climbs the stairs.", "He lights the lamp."], "cut": [True, False]},
        {"scene_num": 2, "video_prompts": ["A ship turns."], "cut": ["True"]},
    ],
}


def tell(page: Page, script: str, steps: str = "4") -> None:
    """Asks for a story."""
    page.get_by_role("button", name="Start over").click()
    page.get_by_role("radio", name="A story").check()
    page.get_by_label("Script", exact=True).fill(script)
    page.locator("#memory input").set_input_files([image("memory_0"), image("memory_1")])
    page.get_by_label("A shot that is no cut goes on").select_option("from the last frame")
    page.get_by_role("spinbutton", name="Steps").fill(steps)
    page.get_by_role("button", name="Make story").click()


def story(page: Page, name: str = "The keeper"):
    return page.locator("#stories > .card").filter(has=page.get_by_role("heading", name=name, exact=True))


def test_a_script_becomes_a_film(page: Page):
    tell(page, json.dumps(SCRIPT))
    card = story(page)
    expect_status(card, "succeeded")
    expect(card.locator("[data-part=facts]").first).to_contain_text("3 shots")
    # Its shots are in it, and not beside it.
    expect(page.locator("#jobs .card")).to_have_count(0)
    card.get_by_role("button", name="Play the film").click()
    # The second shot has a known first frame, which is not part of it.
    plays(card.locator("> .screen"), seconds=(9 + 8 + 9) / 16)
    card.get_by_role("button", name="Close").click()

    card.locator("summary").click()
    shots = card.locator(".shot")
    expect(shots).to_have_count(3)
    expect(shots.nth(1)).to_contain_text("He lights the lamp.")
    expect(shots.nth(1).locator("[data-part=note]")).to_contain_text("from a frame")
    shots.nth(2).get_by_role("button", name="Play", exact=True).click()
    plays(shots.nth(2), seconds=9 / 16)


def test_the_example_is_a_story_that_can_be_made(page: Page):
    page.get_by_role("radio", name="A story").check()
    page.get_by_role("button", name="Start from an example").click()
    page.locator("#memory input").set_input_files(image("memory_0"))
    page.get_by_role("button", name="Make story").click()
    expect_status(story(page), "succeeded")


def test_what_is_remembered_can_be_pinned_dropped_and_added_to(page: Page, service):
    tell(page, json.dumps(SCRIPT))
    card = story(page)
    expect_status(card, "succeeded")
    card.locator("summary").click()
    tiles = card.locator("[data-part=memory] .tile")
    expect(tiles.first.locator("img")).to_have_attribute("alt", "given at the start")
    count = tiles.count()
    assert count >= 2

    def memory() -> list[dict]:
        [entry] = page.request.get(f"{service.base}/stories").json()["items"]
        return page.request.get(f"{service.base}/stories/{entry['id']}").json()["memory"]

    pin, drop = (tiles.first.get_by_role("button", name=name) for name in ("Pin", "Drop"))
    pin.click()
    expect(pin).to_have_attribute("aria-pressed", "true")
    assert [frame["pinned"] for frame in memory()] == [True] + [False] * (count - 1)
    drop.click()
    expect(drop).to_have_attribute("aria-pressed", "true")
    expect(pin).to_have_attribute("aria-pressed", "false")
    assert (memory()[0]["pinned"], memory()[0]["dropped"]) == (False, True)
    drop.click()
    expect(drop).to_have_attribute("aria-pressed", "false")

    card.locator("[data-part=memory-add]").set_input_files(image("memory_3"))
    expect(tiles).to_have_count(count + 1)
    assert len(memory()) == count + 1


def test_a_shot_is_made_again_and_those_after_it(page: Page):
    tell(page, json.dumps(SCRIPT))
    card = story(page)
    expect_status(card, "succeeded")
    card.locator("summary").click()
    shots = card.locator(".shot")
    shots.nth(1).get_by_role("button", name="Make shot 2 again…").click()
    expect(shots.nth(1)).to_contain_text("The shot after it will be made again, too.")
    shots.nth(1).get_by_label("Prompt").fill("He blows out the lamp.")
    shots.nth(1).get_by_label("Seed").fill("77")
    with page.expect_response("**/redo") as answer:
        shots.nth(1).get_by_role("button", name="Make again", exact=True).click()
    assert [shot["revision"] for shot in answer.value.json()["shots"]] == [1, 2, 2]
    expect(card.get_by_role("heading", name="He blows out the lamp.")).to_be_visible()
    expect(shots.nth(1)).to_have_attribute("data-status", "succeeded")
    expect_status(card, "succeeded")
    expect(shots.nth(1).locator("[data-part=note]")).to_contain_text("seed 77")


def test_a_story_is_cancelled_and_deleted(page: Page):
    tell(page, json.dumps(SCRIPT), steps="100")
    card = story(page)
    card.get_by_role("button", name="Cancel").click()
    expect_status(card, "cancelled")
    card.locator("summary").click()
    expect(card.locator(".shot").last).to_have_attribute("data-status", "cancelled")
    card.get_by_role("button", name="Delete the story").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(card).to_have_count(0)


def test_a_script_that_is_wrong_says_where(page: Page):
    script = page.get_by_label("Script", exact=True)
    errors = page.locator("#form-errors li")
    for text, words in [
        ("{scenes: [{scene_num: 1, video_prompts: ['One.', ''], cut: [true, true]}]}", "Script, scene 1, video prompt 2: must be"),
        ("{scenes: [{scene_num: 1, video_prompts: ['One.', 'Two.'], cut: [true]}]}", "Script, scene 1, cut: "),
        ("{scenes: [", "Script: is not JSON5"),
        ("", "Script: paste a script, open a file, or start from the example"),
    ]:
        tell(page, text)
        expect(errors).to_have_count(1)
        expect(errors).to_contain_text(words)
        expect(script).to_have_attribute("aria-invalid", "true")
        errors.get_by_role("button").click()
        expect(script).to_be_focused()


def test_a_story_is_readable_everywhere(open_page):
    for device in (DESK, PHONE):
        page = open_page(**device, color_scheme="dark" if device is PHONE else "light", reduced_motion="reduce")
        if device is DESK:
            tell(page, json.dumps(SCRIPT))
        card = story(page)
        expect_status(card, "succeeded")
        page.get_by_role("radio", name="A story").check()
        card.locator("summary").click()
        card.locator(".shot").nth(1).get_by_role("button", name="Make shot 2 again…").click()
        looked_over(page, "story")
