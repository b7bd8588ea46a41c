"""From a prompt and images to a video that plays."""

import json

from conftest import ask_for, card_of, expect_status, fill, image
from playwright.sync_api import Page, expect

# Long enough to be stopped before it is made.
LONG = {"steps": "100", "frames": "81"}


def test_a_shot_is_asked_for_followed_and_played(page: Page):
    streams = []
    page.on("request", lambda request: request.url.endswith("/events") and streams.append(request.url))
    page.evaluate(
        """() => {
            window.stages = [];
            window.percents = [];
            new MutationObserver(() => {
                const card = document.querySelector(".card[data-status=running]");
                if (!card) return;
                stages.push(card.querySelector("[data-part=stage]").textContent);
                percents.push(card.querySelector("progress").value);
            }).observe(jobs, { subtree: true, childList: true, attributes: true, characterData: true });
        }"""
    )
    card = ask_for(page, "A keeper climbs the stairs", steps="100", frames="33")
    expect_status(card, "succeeded")
    assert len(streams) == 1
    assert any(stage.startswith("Denoising, ") and " of 100" in stage for stage in page.evaluate("stages"))
    percents = page.evaluate("percents")
    assert percents == sorted(percents) and len(set(percents)) > 2, percents

    expect(card.locator("[data-part=thumbnail]")).to_be_visible()
    assert card.locator("[data-part=thumbnail]").evaluate("image => image.decode().then(() => image.naturalWidth)") == 96
    card.get_by_role("button", name="Play", exact=True).click()
    plays(card, seconds=33 / 16)
    card.get_by_role("button", name="Close").click()
    expect(card.locator("video")).to_have_count(0)


def plays(card, seconds: float) -> None:
    """The video is decoded and moves."""
    video = card.locator("video")
    expect(video).to_be_visible()
    facts = video.evaluate(
        """async (video) => {
            const enough = HTMLMediaElement.HAVE_ENOUGH_DATA;
            while (video.readyState < enough && !video.error) await new Promise((go) => setTimeout(go, 20));
            while (video.currentTime === 0 && !video.error) await new Promise(requestAnimationFrame);
            const { videoWidth: width, videoHeight: height, duration, error } = video;
            return { width, height, duration, error: error?.message ?? null };
        }"""
    )
    assert facts == {"width": 96, "height": 64, "duration": seconds, "error": None}


def test_what_is_sent_is_what_was_entered_and_the_images_keep_their_order(page: Page):
    fill(page, "Waves", memory=("memory_0", "memory_1", "memory_2"))
    tiles = page.locator("#memory .tile")
    # The last one first: by keyboard, and by dragging.
    page.get_by_role("button", name="Move memory_2.png earlier").press("Enter")
    tiles.nth(1).locator(".picture").drag_to(tiles.nth(0).locator(".picture"))
    names = tiles.locator("img").evaluate_all("images => images.map((image) => image.alt)")
    assert names == ["memory_2.png", "memory_0.png", "memory_1.png"]

    page.get_by_label("Seed").fill("42")
    page.get_by_text("More settings").click()
    page.get_by_label("Guidance, low noise").fill("1")
    page.get_by_label("Solver").select_option("DPM++")
    with page.expect_request("**/jobs") as sent:
        page.get_by_role("button", name="Make video").click()
    request = json.loads(sent.value.post_data)
    ids = [entry["upload"] for entry in request.pop("memory")]
    assert request == {
        "prompt": "Waves",
        "seed": 42,
        "guidance_scale": {"high": 3.5, "low": 1},
        "solver": "dpm++",
    }
    assert len(set(ids)) == 3
    job = sent.value.response().json()
    assert [entry["upload"] for entry in job["request"]["memory"]] == ids
    # memory_2 is the one of 64x96.
    facts = {entry["upload"]: (entry["width"], entry["height"]) for entry in job["request"]["memory"]}
    assert facts[ids[0]] != facts[ids[1]]


def test_a_shot_goes_on_from_the_last_frame_of_another(page: Page):
    first = ask_for(page, "The lamp is lit")
    expect_status(first, "succeeded")
    first.get_by_text("Details").click()
    first.get_by_role("button", name="Go on from its last frame").click()
    expect(page.locator("#first-frame .tile")).to_have_count(1)
    with page.expect_response("**/jobs") as answer:
        ask_again(page, "The light sweeps the sea")
    job = answer.value.json()
    assert job["effective"]["variant"] == "mi2v"
    assert job["request"]["first_frame"]["keyframe"] == "last"
    expect_status(card_of(page, "The light sweeps the sea"), "succeeded")


def ask_again(page: Page, prompt: str) -> None:
    page.get_by_label("What happens").fill(prompt)
    page.get_by_role("button", name="Make video").click()


def test_settings_can_be_used_again(page: Page):
    card = ask_for(page, "Gulls over the pier", steps="3", seed="7")
    expect_status(card, "succeeded")
    page.get_by_role("button", name="Start over").click()
    expect(page.get_by_label("Seed")).to_have_value("")
    card.get_by_text("Details").click()
    card.get_by_role("button", name="Use these settings again").click()
    expect(page.get_by_label("What happens")).to_have_value("Gulls over the pier")
    expect(page.get_by_label("Seed")).to_have_value("7")
    expect(page.get_by_label("Steps")).to_have_value("3")
    expect(page.locator("#memory .tile")).to_have_count(2)
    with page.expect_response("**/jobs") as answer:
        page.get_by_role("button", name="Make video").click()
    assert answer.value.json()["effective"]["seed"] == 7


def test_the_video_is_saved_under_the_name_of_its_prompt(page: Page):
    card = ask_for(page, "A fox in the snow")
    expect_status(card, "succeeded")
    with page.expect_download() as download:
        card.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "A fox in the snow.mp4"
    assert download.value.path().read_bytes()[4:8] == b"ftyp"


def test_cancel_try_again_and_delete(page: Page):
    card = ask_for(page, "Too long a shot", **LONG)
    expect_status(card, "running")
    card.get_by_role("button", name="Cancel").click()
    expect_status(card, "cancelled")

    card.get_by_role("button", name="Try again").click()
    cards = card_of(page, "Too long a shot")
    expect(cards).to_have_count(2)
    expect_status(cards.first, "running")
    cards.first.get_by_role("button", name="Cancel").click()
    expect_status(cards.first, "cancelled")

    cards.first.get_by_text("Details").click()
    cards.first.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Keep it").click()
    expect(cards).to_have_count(2)
    cards.first.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(cards).to_have_count(1)


def test_progress_is_polled_where_no_stream_comes_through(page: Page):
    page.route("**/events", lambda route: route.abort())
    card = ask_for(page, "Behind a proxy that holds streams back", steps="40")
    expect_status(card, "succeeded")


def test_the_stream_alone_brings_a_shot_to_its_end(page: Page):
    card = ask_for(page, "Followed live", steps="100")
    expect_status(card, "running")
    page.route("**/jobs?*", lambda route: route.abort())
    expect_status(card, "succeeded")
    expect(page.locator("#queue-notice")).to_contain_text("can't be reached")
    page.unroute("**/jobs?*")
    expect(page.locator("#queue-notice")).to_be_hidden()


def test_only_what_is_chosen_is_listed(page: Page):
    done = ask_for(page, "Done soon")
    expect_status(done, "succeeded")
    page.get_by_label("Show", exact=True).select_option("Failed")
    expect(page.locator("#jobs .card")).to_have_count(0)
    page.get_by_label("Show", exact=True).select_option("Done")
    expect(card_of(page, "Done soon")).to_have_count(1)


def test_images_can_be_pasted_and_removed(page: Page):
    page.evaluate(
        """async () => {
            const canvas = new OffscreenCanvas(32, 32);
            canvas.getContext("2d").fillRect(4, 4, 8, 8);
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([await canvas.convertToBlob()], "", { type: "image/png" }));
            document.dispatchEvent(new ClipboardEvent("paste", { clipboardData }));
        }"""
    )
    expect(page.locator("#memory .tile")).to_have_count(1)
    page.get_by_role("button", name="Remove pasted image").click()
    expect(page.locator("#memory .tile")).to_have_count(0)
    expect(page.locator("#memory input")).to_be_focused()
    page.locator("#memory input").set_input_files(image("memory_0"))
    expect(page.locator("#memory .tile")).to_have_count(1)
