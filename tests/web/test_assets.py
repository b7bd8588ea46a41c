"""How the page's files are served, and Swagger UI."""

import re

from playwright.sync_api import Page, expect


def test_files_have_their_types_and_are_asked_for_but_not_sent_again(page: Page, service):
    types = {"svg": "image/svg+xml"} | {
        extension: f"text/{name}; charset=utf-8"
        for extension, name in [("html", "html"), ("css", "css"), ("js", "javascript")]
    }
    names = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    files = [f"{service.base}/"] + [name for name in names if "/page/" in name]
    assert len(files) > 15
    for file in files:
        first = page.request.get(file)
        assert first.status == 200, file
        assert first.headers["content-type"] == types[file.rsplit(".", 1)[-1] if "/page/" in file else "html"]
        assert first.headers["cache-control"] == "no-cache"
        assert first.headers["x-content-type-options"] == "nosniff"
        again = page.request.get(file, headers={"If-None-Match": f'W/"x", {first.headers["etag"]}'})
        assert (again.status, again.body(), again.headers["etag"]) == (304, b"", first.headers["etag"])
        assert page.request.get(file, headers={"If-None-Match": '"another"'}).status == 200


def test_nothing_but_the_service_is_allowed(page: Page, service):
    policy = page.request.get(service.base).headers["content-security-policy"]
    assert "script-src 'self';" in policy and "default-src 'none'" in policy and "unsafe" not in policy


def test_what_is_not_there_is_a_problem(page: Page, service):
    for path in ("/page/none.js", "/page/..%2f..%2fCargo.toml", "/docs/none"):
        answer = page.request.get(service.base + path)
        assert (answer.status, answer.json()["code"]) == (404, "not_found"), path


def test_swagger_ui_shows_the_api_and_tries_it_out(open_page):
    page = open_page("/docs")
    expect(page.get_by_role("heading", name="StoryMem Serve")).to_be_visible()
    operation = page.locator("#operations-jobs-list_jobs")
    operation.click()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
    expect(page.get_by_text(re.compile("validator"))).to_have_count(0)
