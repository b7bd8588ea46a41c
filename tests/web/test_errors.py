"""What is wrong is said in words, at the field it is wrong with."""

from conftest import ROOT, ask_for, card_of, expect_status, fill, image
from playwright.sync_api import Page, expect


def test_every_error_is_at_its_field_and_in_a_list_on_top(page: Page):
    fill(page, "")
    page.get_by_role("spinbutton", name="Frames").fill("80")
    page.get_by_label("Size", exact=True).select_option("another…")
    page.get_by_label("Width").fill("100")
    page.get_by_role("button", name="Make video").click()

    summary = page.get_by_role("alert").filter(has_text="can’t be made yet")
    expect(summary).to_be_focused()
    expect(summary.get_by_role("listitem")).to_have_count(3)
    frames = page.locator("#frames")
    expect(frames).to_have_attribute("aria-invalid", "true")
    expect(frames).to_have_accessible_description("80 frames can't be made: the number must be 4n+1; the nearest are 77 and 81")
    expect(page.locator("#prompt")).to_have_accessible_description("say what happens in the shot")
    summary.get_by_role("button", name="Size").click()
    expect(page.locator("#size")).to_be_focused()

    # What is mended is no longer held against it.
    frames.fill("9")
    page.locator("#prompt").fill("Mended")
    page.get_by_label("Width").fill("96")
    page.get_by_role("button", name="Make video").click()
    expect(summary).to_be_hidden()
    expect(frames).not_to_have_attribute("aria-invalid", "true")
    expect_status(card_of(page, "Mended"), "succeeded")


def test_a_field_that_is_folded_away_is_opened(page: Page):
    fill(page, "Folded")
    page.get_by_text("More settings").click()
    page.get_by_label("Shift").fill("1000")
    page.get_by_text("More settings").click()
    page.get_by_role("button", name="Make video").click()
    page.get_by_role("button", name="Shift: must be a number from 0.1 to 100").click()
    expect(page.get_by_label("Shift")).to_be_focused()


def test_a_shot_without_memory_says_so(page: Page):
    page.get_by_label("What happens").fill("Nothing to remember")
    page.get_by_role("button", name="Make video").click()
    expect(page.locator("#memory > .error")).to_have_text("give at least one image to remember")
    page.locator("#memory input").set_input_files(image("memory_0"))
    page.get_by_role("radio", name="From a frame").check()
    page.get_by_role("button", name="Make video").click()
    expect(page.locator("#first-frame > .error")).to_have_text("choose the image that the shot starts from")
    page.get_by_role("button", name="First frame: choose the image").click()
    expect(page.locator("#first-frame input")).to_be_focused()


def test_an_image_that_is_none_says_so_before_anything_is_asked_for(page: Page):
    text = {"name": "notes.png", "mimeType": "image/png", "buffer": b"no image"}
    page.locator("#memory input").set_input_files([text])
    expect(page.locator("#memory .tile .error")).to_contain_text("PNG, JPEG or WebP")
    page.get_by_label("What happens").fill("With a broken image")
    page.get_by_role("button", name="Make video").click()
    expect(page.get_by_role("alert").filter(has_text="could not be asked for")).to_be_focused()
    page.get_by_role("button", name="Remove notes.png").click()
    page.locator("#memory input").set_input_files(image("memory_0"))
    page.get_by_role("button", name="Make video").click()
    expect_status(card_of(page, "With a broken image"), "succeeded")


def test_other_files_and_too_many_images_are_left_out(page: Page):
    page.locator("#memory input").set_input_files([str(ROOT / "README.md"), image("memory_0")])
    expect(page.locator("#memory .tile")).to_have_count(1)
    expect(page.locator("#memory > .error")).to_have_text("only images can be remembered")
    page.locator("#memory input").set_input_files([image("memory_1")] * 11)
    expect(page.locator("#memory .tile")).to_have_count(10)
    expect(page.locator("#memory > .error")).to_contain_text("there is room for 10")
    expect(page.locator("#memory .add")).to_be_hidden()


def test_a_job_that_is_gone_says_so_at_its_card(page: Page, service):
    card = ask_for(page, "Gone elsewhere")
    expect_status(card, "succeeded")
    page.route("**/jobs?*", lambda route: route.abort())
    job = page.request.get(f"{service.base}/jobs").json()["items"][0]["id"]
    page.request.delete(f"{service.base}/jobs/{job}")
    card.get_by_text("Details").click()
    card.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(card.locator("[data-part=error]")).to_contain_text("was deleted")
    page.unroute("**/jobs?*")
    expect(card).to_have_count(0)


def test_a_service_that_is_gone_says_so_and_comes_back(page: Page, service):
    card = ask_for(page, "Before the fall")
    expect_status(card, "succeeded")
    service.stop()
    expect(page.locator("#queue-notice")).to_contain_text("the service can't be reached")
    expect(card).to_be_visible()
    page.locator("#memory input").set_input_files(image("memory_2"))
    expect(page.locator("#memory .tile .error").last).to_contain_text("can't be reached")
    page.get_by_label("What happens").fill("Sent into the void")
    page.get_by_role("button", name="Make video").click()
    expect(page.locator("#form-errors")).to_contain_text("can't be reached")
    service.restart()
    expect(page.locator("#queue-notice")).to_be_hidden()
    # Nothing of what was entered is lost, and what could not be sent is sent now.
    with page.expect_response("**/jobs") as answer:
        page.get_by_role("button", name="Make video").click()
    assert len(answer.value.json()["request"]["memory"]) == 3
    expect_status(card_of(page, "Sent into the void"), "succeeded")


def test_a_request_whose_answer_is_lost_is_done_once(page: Page, service):
    fill(page, "Only once")

    def lose(route):
        route.fetch()
        route.abort()

    page.route("**/jobs", lose, times=1)
    page.get_by_role("button", name="Make video").click()
    expect(page.get_by_role("alert").filter(has_text="can't be reached")).to_be_focused()
    page.get_by_role("button", name="Make video").click()
    expect(page.locator("#form-errors")).to_be_hidden()
    assert len(page.request.get(f"{service.base}/jobs").json()["items"]) == 1
