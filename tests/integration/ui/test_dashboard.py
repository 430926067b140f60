"""The dashboard in a real Chromium: each widget with data and in trouble, rights, keyboard, phones,
axe-core; and the pictures of the docs, which `DASHBOARD_PICTURES=docs/img` writes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from api.rest.security import BASIC_AUTH_EXTENSION
from api.rest.server import RestServer
from connect.metrics.registry import MetricRegistry
from tests.support.ui.dashboard_group import (
    DashboardHerder,
    Flow,
    broken_group,
    partitions,
    quiet_group,
    write_history,
)
from tests.support.ui.dashboard_page import (
    PHONE,
    WIDE,
    assert_accessible,
    choose,
    picture,
    until,
)

pytest.importorskip("playwright", reason="playwright is not installed")

FLOWS = [("us", "hub"), ("hub", "us"), ("eu", "hub"), ("asia", "hub"), ("hub", "archive")]
FLOWS += [("hub", "analytics"), ("us", "eu"), ("eu", "us"), ("eu", "archive"), ("asia", "eu")]
TABS = ("overview", "partitions", "groups", "events", "jobs", "connectors")

Serve = Callable[..., str]
Open = Callable[..., Any]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    write_history(tmp_path / "history.db", FLOWS)
    return tmp_path / "history.db"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a worker's REST server for a herder; its URL."""
    with ExitStack() as stack:

        def start(herder: DashboardHerder, props: Mapping[str, str] | None = None) -> str:
            listener = {"listeners": "http://127.0.0.1:0"}
            server = RestServer({**listener, **(props or {})}, MetricRegistry(), {})
            stack.callback(server.stop)
            server.bind()
            server.start()
            server.herder_started(herder)
            server.worker_ready()
            return server.advertised_url

        yield start


def test_a_group_in_trouble_shows_what_is_wrong(
    serve: Serve, open_page: Open, history: Path
) -> None:
    page = open_page(serve(broken_group(history)))
    # The worst flow is chosen by itself.
    page.wait_for_selector("#flow-head h2:has-text('us → hub')")
    assert "1 of 624 partitions make no progress" in page.inner_text(".why")
    assert "1 of 6 flows: stuck" in page.inner_text("#overall")
    assert page.locator(".edge").count() == 6
    assert page.locator(".edge.worst").get_attribute("data-key") == "edge us->hub"
    assert page.locator("[data-key='edge hub->archive']").get_attribute("class") == "edge warn"
    lost = page.locator(".numbers div", has_text="Lost in 24 h").inner_text()
    assert "1,312" in lost
    page.wait_for_selector(".bars li")
    assert "orders.v2-6" in page.locator(".bars li").first.inner_text()
    assert "72 min" in page.locator(".bars li").first.inner_text()
    assert "offsets 118400 to 119711" in page.inner_text("#panel")
    page.wait_for_selector(".chart path.line")
    assert page.locator(".chart").count() == 6
    assert "now" in (page.locator(".chart svg").first.get_attribute("aria-label") or "")
    picture(page, "overview", full_page=True)


def test_a_partitions_drawer_has_error_remedy_and_ranges(
    serve: Serve, open_page: Open, history: Path
) -> None:
    page = open_page(serve(broken_group(history)), "us-%3Ehub/partitions")
    page.wait_for_selector(".heat canvas[data-across]")
    assert page.locator(".heat button").count() == 17
    assert page.locator(".heat button").first.get_attribute("data-key") == "heat orders"
    picture(page, "partitions", full_page=True)
    page.click("[data-key='Partitions of the flow orders-5']")
    page.wait_for_selector("#drawer table")
    text = page.inner_text("#drawer")
    assert "larger than max.message.bytes" in text
    assert "mirror.quarantine.topic" in text
    assert "5119477 to 5120376" in text
    assert_accessible(page)
    picture(page, "partition")
    page.keyboard.press("Escape")
    page.wait_for_selector("#drawer", state="hidden")
    # The focus is back where it was.
    key = page.evaluate("document.activeElement.dataset.key")
    assert key == "Partitions of the flow orders-5"


def test_a_topic_of_the_heat_map_lists_its_partitions_by_keyboard(
    serve: Serve, open_page: Open, history: Path
) -> None:
    page = open_page(serve(broken_group(history)), "us-%3Ehub/partitions")
    page.focus("[data-key='heat payments']")
    page.keyboard.press("Enter")
    until(page, "document.activeElement.id === 'contains'")
    until(
        page,
        "[...document.querySelectorAll('td.name')].every("
        "each => each.innerText.startsWith('payments-'))",
    )
    assert page.input_value("#contains") == "payments-"


def test_ten_thousand_partitions_are_a_heat_map(serve: Serve, open_page: Open) -> None:
    herder = DashboardHerder()
    topics = {f"topic-{number:03}": 50 for number in range(200)}
    Flow("us", "eu", partitions(topics, behind_ms=90_000), tasks=8).add_to(herder, None)
    page = open_page(serve(herder), "us-%3Eeu/partitions")
    until(page, "document.querySelectorAll('.heat canvas[data-across]').length === 200")
    page.wait_for_selector("#panel :text('100 of 10000')")


def test_a_missing_worker_is_named(serve: Serve, open_page: Open, history: Path) -> None:
    page = open_page(serve(broken_group(history)), "hub-%3Earchive/connectors")
    page.wait_for_selector("#panel table")
    assert "mirror-2:8083 cannot be asked" in page.inner_text(".why")
    row = page.locator("#panel tr", has_text="cannot be asked")
    assert "missing" in row.inner_text()


def test_a_failed_task_shows_its_trace(serve: Serve, open_page: Open) -> None:
    herder = DashboardHerder()
    Flow("us", "eu", partitions({"orders": 12}), failed=2).add_to(herder, None)
    page = open_page(serve(herder), "us-%3Eeu/connectors")
    page.wait_for_selector("pre.trace")
    assert "the topic has no leader" in page.inner_text("pre.trace")
    assert page.inner_text(".why") == "Failed: us-eu-source task 2"


def test_jobs_show_their_progress_and_arrival(serve: Serve, open_page: Open, history: Path) -> None:
    page = open_page(serve(broken_group(history)), "us-%3Ehub/jobs")
    page.wait_for_selector("progress")
    text = page.inner_text("#panel")
    assert "61 % · 131 of 240 parts" in text
    assert "No difference found" in text


@pytest.mark.slow
def test_clusters_that_do_not_answer_are_named_in_failover(serve: Serve, open_page: Open) -> None:
    herder = DashboardHerder()
    Flow("us", "eu", partitions({"orders": 3})).add_to(herder, None)
    page = open_page(serve(herder), "us-%3Eeu/groups")
    page.wait_for_selector("#panel .note.worst")
    assert "us.checkpoints.internal" in page.inner_text("#panel .note.worst")


def test_the_page_is_live(serve: Serve, open_page: Open) -> None:
    herder = DashboardHerder()
    Flow("us", "eu", partitions({"orders": 3})).add_to(herder, None)
    page = open_page(serve(herder))
    page.wait_for_selector("#flow-head .pill.ok")
    Flow("us", "eu", partitions({"orders": 3}), failed=0).add_to(herder, None)
    page.wait_for_selector("#flow-head .pill.worst")
    assert page.title().startswith("✕")


def test_a_worker_that_is_gone_is_said(serve: Serve, open_page: Open) -> None:
    herder = quiet_group(None)
    url = serve(herder)
    page = open_page(url)
    page.route("**/mirrors*", lambda route: route.abort())
    page.wait_for_selector("#problem:not([hidden])")
    assert "does not answer" in page.inner_text("#problem")


def test_connectors_are_paused_resumed_and_restarted(serve: Serve, open_page: Open) -> None:
    herder = quiet_group(None)
    page = open_page(serve(herder), "us-%3Eeu/connectors")
    page.click("[data-key='Pause us-eu-source']")
    page.click("#dialog button.main")
    page.wait_for_selector("[data-key='Resume us-eu-source']")
    assert herder.targets["us-eu-source"].name == "PAUSED"
    page.click("[data-key='Resume us-eu-source']")
    page.click("#dialog button.main")
    page.wait_for_selector("[data-key='Pause us-eu-source']")
    page.click("[data-key='restart us-eu-source 1']")
    page.click("#dialog button.main")
    page.wait_for_selector("#dialog", state="hidden")
    assert herder.targets["us-eu-source"].name == "STARTED"
    assert any("restart" in str(call[0]) for call in herder.calls)


def test_a_config_is_edited_after_validation(serve: Serve, open_page: Open) -> None:
    herder = quiet_group(None)
    page = open_page(serve(herder), "us-%3Eeu/connectors")
    page.click("[data-key='edit us-eu-source']")
    page.fill("input[data-name='tasks.max']", "many")
    page.click("#dialog button.main")
    page.wait_for_selector("input[data-name='tasks.max'][aria-invalid=true]")
    assert "Not a number" in page.inner_text("#dialog .error")
    assert herder.configs["us-eu-source"]["tasks.max"] == "3"
    page.fill("input[data-name='tasks.max']", "4")
    page.click("#dialog button:has-text('Validate')")
    page.wait_for_selector("#dialog .ok-text")
    page.click("#dialog button.main")
    page.wait_for_selector("#dialog", state="hidden")
    assert herder.configs["us-eu-source"]["tasks.max"] == "4"


@pytest.fixture
def with_roles(tmp_path: Path) -> dict[str, str]:
    """Worker properties with an admin, an operator and a viewer."""
    (tmp_path / "users").write_text("anna=1\nolga=1\nvera=1\n")
    (tmp_path / "jaas").write_text(
        "KafkaConnect { org.apache.kafka.connect.rest.basic.auth.extension."
        f'PropertyFileLoginModule required file="{tmp_path / "users"}"; }};'
    )
    return {
        "rest.extension.classes": BASIC_AUTH_EXTENSION,
        "java.security.auth.login.config": str(tmp_path / "jaas"),
        "rest.users.viewers": "vera",
        "rest.users.operators": "olga",
    }


@pytest.mark.parametrize(
    ("user", "buttons"),
    [
        ("vera", set()),
        ("olga", {"Pause", "Restart"}),
        ("anna", {"Pause", "Restart", "Edit config"}),
    ],
)
def test_only_what_the_role_allows_is_offered(
    serve: Serve, open_page: Open, with_roles: dict[str, str], user: str, buttons: set[str]
) -> None:
    token = base64.b64encode(f"{user}:1".encode()).decode()
    page = open_page(
        serve(quiet_group(None), with_roles),
        "us-%3Eeu/connectors",
        extra_http_headers={"Authorization": f"Basic {token}"},
    )
    page.wait_for_selector("#panel article")
    assert user in page.inner_text("#viewer")
    assert {each.inner_text() for each in page.locator("#panel article button").all()} == buttons


@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        pytest.param("light", WIDE, id="light-wide"),
        pytest.param("dark", WIDE, id="dark-wide", marks=pytest.mark.slow),
        pytest.param("light", PHONE, id="light-phone", marks=pytest.mark.slow),
        pytest.param("dark", PHONE, id="dark-phone", marks=pytest.mark.slow),
    ],
)
def test_every_view_is_accessible(
    serve: Serve, open_page: Open, history: Path, scheme: str, size: dict[str, int]
) -> None:
    options = {"viewport": size, "color_scheme": scheme, "reduced_motion": "reduce"}
    page = open_page(serve(broken_group(history)), "us-%3Ehub", **options)
    for tab in TABS:
        choose(page, tab)
        until(page, "!document.getElementById('panel').innerText.includes('Loading')")
        assert_accessible(page)
        # No view is wider than the window.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if tab == "overview" and size is PHONE and scheme == "light":
            picture(page, "phone")
        if tab == "connectors" and size is WIDE and scheme == "dark":
            picture(page, "connectors")


def test_tabs_and_theme_by_keyboard(serve: Serve, open_page: Open, history: Path) -> None:
    page = open_page(serve(quiet_group(history)))
    page.focus("#tab-overview")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#tab-partitions[aria-selected=true]:focus")
    page.focus("[data-key='edge eu->us']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#flow-head h2:has-text('eu → us')")
    page.focus("#theme")
    page.keyboard.press("Enter")
    page.wait_for_selector(":root.dark")
    page.reload()
    page.wait_for_selector(":root.dark")


def nodes(page: Any) -> dict[str, tuple[float, float]]:
    """The place of each cluster in the graph: its middle, in pixels of the page."""
    found: dict[str, tuple[float, float]] = {}
    for node in page.locator("#graph .node").all():
        box = node.locator("rect").bounding_box()
        name = node.locator("title").text_content()
        found[name] = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert len(set(found.values())) == len(found), "no cluster covers another"
    return found


def drawn_flows(page: Any) -> set[str]:
    return {each.get_attribute("data-key") for each in page.locator(".edge").all()}


def test_a_chain_is_drawn_in_the_direction_of_its_data(serve: Serve, open_page: Open) -> None:
    herder = DashboardHerder()
    # Not in the order of their names.
    for source, target in (("core", "archive"), ("branch", "core")):
        Flow(source, target, partitions({"orders": 3})).add_to(herder, None)
    url = serve(herder)

    page = open_page(url)
    place = nodes(page)
    assert sorted(place, key=lambda name: place[name][0]) == ["branch", "core", "archive"]
    assert len({y for _, y in place.values()}) == 1, "in one line"
    assert drawn_flows(page) == {"edge branch->core", "edge core->archive"}

    place = nodes(open_page(url, viewport=PHONE))
    assert sorted(place, key=lambda name: place[name][1]) == ["branch", "core", "archive"]


def test_a_hub_is_drawn_between_its_spokes(serve: Serve, open_page: Open) -> None:
    herder = DashboardHerder()
    into, out = ("asia", "eu", "us"), ("lake", "warehouse")
    for source, target in (*((each, "main") for each in into), *(("main", each) for each in out)):
        Flow(source, target, partitions({"orders": 3})).add_to(herder, None)
    url = serve(herder)

    page = open_page(url)
    place = nodes(page)
    hub_x, hub_y = place["main"]
    assert {name for name, (x, _) in place.items() if x < hub_x} == set(into)
    assert {name for name, (x, _) in place.items() if x > hub_x} == set(out)
    heights = [y for _, y in place.values()]
    assert min(heights) < hub_y < max(heights)
    assert drawn_flows(page) == {
        *(f"edge {each}->main" for each in into),
        *(f"edge main->{each}" for each in out),
    }

    place = nodes(open_page(url, viewport=PHONE))
    assert {name for name, (_, y) in place.items() if y < place["main"][1]} == set(into)
    assert {name for name, (_, y) in place.items() if y > place["main"][1]} == set(out)
