"""The report: what it concludes, what it shows, and that a browser shows it."""

import csv
import html.parser
import json
import math
import re
import shutil

import pytest

from unison.model import cli
from unison.model.report import write_report
from unison.model.report.artefacts import read_artefacts
from unison.model.report.cells import read_results
from unison.model.report.metrics import exact, readable
from unison.model.report.standings import summarise

#: AMAT by policy in the cells (gaia, edge), (gaia, cxl), (chat, edge), (chat, cxl) with explicit completion.
AMAT = {
    "lru": (120, 110, 100, 100),
    "lru-completion": (100, 100, 100, 100),
    "steady": (90, 100, 98.5, 100.5),
    "bold": (60, 103, 99.2, 100),
    "slow": (101, 101, 101, 102),
    "absent": (None, 50, 50, None),
    "belady": (80, 90, 97, 100),
    "belady-size": (50, 95, 99, 99.5),
    "belady-tide": (70, 80, 98, 100),
    "clairvoyant": (40, 40, 40, 40),
}
PLACES = (("gaia", "edge"), ("gaia", "cxl"), ("chat", "edge"), ("chat", "cxl"))
HOSTILE = "</script><script>broken()</script>&\"'<b>"


def cell(policy, place, amat, completion="explicit", **more):
    trace, envelope = place
    floor = AMAT["lru-completion" if completion == "explicit" else "lru"][PLACES.index(place)]
    lru = AMAT["lru"][PLACES.index(place)]
    return {
        "trace": trace, "envelope": envelope, "completion": completion, "load": "default", "seed": 0, "policy": policy,
        "theta": None, "training": None, "degraded": ["tool"] if (policy, trace) == ("bold", "chat") else [],
        "hr": amat / 300, "hr_sram": amat / 900, "hr_hbm": amat / 450, "bypass": 0.0, "amat": amat,
        "amat_vs_lru": amat / lru, "amat_vs_lru_ci": [amat / lru - 0.02, amat / lru + 0.02],
        "amat_vs_floor": amat / floor, "amat_vs_floor_ci": [amat / floor - 0.02, amat / floor + 0.02],
        "attainment_floor": None if place == ("chat", "cxl") else (floor - amat) / 50,
        "evicted_tokens": int(amat * 1e5),
    } | more  # fmt: skip


def cells(**more):
    return [
        cell(policy, place, amat, completion, **more)
        for completion in ("explicit", "silent")
        for policy, row in AMAT.items()
        for place, amat in zip(PLACES, row, strict=True)
        if amat is not None
    ]


def content():
    policies = {name: {"summary": f"Rule of {name}.", "causal": True, "needs": []} for name in AMAT}
    for name in ("belady", "belady-size", "belady-tide", "clairvoyant"):
        policies[name]["causal"] = False
    return {"meta": {"policies": policies, "created": "today", "assumptions": ["All is relative."]}, "cells": cells()}


ARTEFACTS = {
    "fig4": {
        "title": "Fig. 4: effectiveness",
        "command": "unison paper fig4",
        "seconds": 12.3,
        "traces": [{"name": "gaia", "sessions": 1234, "turns": 9}],
        "notes": ["First note.", "Second note."],
        "claims": [
            {"claim": "It saturates", "paper": "0.985", "ours": "0.951", "holds": True},
            {"claim": "It wins", "paper": "6 of 6", "ours": "2 of 6", "holds": False},
            {"claim": "Latency", "paper": 2.0, "ours": 1.25, "holds": None},
        ],
        "chart": {"x": "slots", "y": ["ase"], "series": "completion", "log_x": True},
        "rows": [
            {"completion": completion, "slots": slots, "ase_paper": paper, "ase": ours - lost}
            for completion, lost in (("explicit", 0), ("silent", 0.05))
            for slots, paper, ours in ((16, 0.9, 0.91), (64, 0.985, 0.97), (256, None, 0.971))
        ],
    },
    "table2": {
        "rows": [{"trace": HOSTILE, "hr": 0.5, "interval": [0.25, 0.75], "won": True, "none": None}],
        "notes": "One.",
    },
}


def write(folder, data, artefacts=ARTEFACTS):
    (folder / "paper").mkdir(exist_ok=True)
    (folder / "results.json").write_text(json.dumps(data))
    for name, artefact in artefacts.items():
        (folder / "paper" / f"{name}.json").write_text(json.dumps(artefact))
    return folder / "results.json"


def made(folder, data, artefacts=ARTEFACTS):
    """The page's text of some results."""
    return write_report(folder / "report.html", write(folder, data, artefacts), folder / "paper")[0].read_text()


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def summary_of(folder, data, completion="explicit", load="default"):
    return summarise(read_results(write(folder, data, {})), load, completion)


@pytest.mark.parametrize(
    "value, kind, text",
    [
        (None, "amount", "–"),
        (0, "amount", "0"),
        (0.99996, "amount", "1.00"),
        (-0.012345, "amount", "-0.0123"),
        (1234567, "amount", "1,230,000"),
        (12.345, "amount", "12.3"),
        (1e-9, "amount", "1.00e-09"),
        (1.00649, "ratio", "1.006"),
        (0.43812, "share", "43.8 %"),
        (math.inf, "amount", "∞"),
    ],
)
def test_numbers_are_readable(value, kind, text):
    assert readable(value, kind) == text


def test_hovered_numbers_have_six_digits():
    assert [exact(value) for value in (1 / 3, 1234567.8, 5)] == ["0.333333", "1,234,570", "5"]


def test_standings_by_hand(tmp_path):
    summary = summary_of(tmp_path, content())
    standings = {each.policy: each for each in summary.standings}
    assert (summary.floor, summary.places) == ("lru-completion", 4)
    steady, bold, slow = (standings[name] for name in ("steady", "bold", "slow"))
    assert (steady.wins, steady.ties, steady.losses) == (2, 2, 0)
    assert (bold.wins, bold.ties, bold.losses) == (1, 2, 1)
    assert bold.mean == pytest.approx((0.6 * 1.03 * 0.992) ** 0.25)
    assert bold.worst == (pytest.approx(1.03), "gaia", "cxl")
    assert bold.mean_lru == pytest.approx((60 / 120 * 103 / 110 * 0.992) ** 0.25)
    assert bold.attainment == pytest.approx((40 - 3 + 0.8) / 50 / 3)
    assert bold.degraded == ("chat",)
    assert (steady.never_loses, bold.never_loses, slow.never_loses) == (True, False, False)
    assert summary.best is bold
    assert [each.policy for each in summary.safe] == ["steady"]
    assert summary.nothing == {("chat", "cxl")}


def test_against_the_floor_of_silent_completion(tmp_path):
    summary = summary_of(tmp_path, content(), "silent")
    assert summary.floor == "lru"
    assert next(each for each in summary.standings if each.policy == "bold").worst[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "trace, policy, mean, bound, sure, nothing, advice",
    [
        ("gaia", "bold", (0.6 * 1.03) ** 0.5, (0.5 * 0.8) ** 0.5, 1, 0, "use bold, not in every envelope"),
        ("chat", "steady", (0.985 * 1.005) ** 0.5, (0.97 * 0.995) ** 0.5, 0, 1, "the floor is enough"),
    ],
)
def test_winner_of_a_trace_by_hand(tmp_path, trace, policy, mean, bound, sure, nothing, advice):
    (winner,) = (each for each in summary_of(tmp_path, content()).winners if each.trace == trace)
    assert (winner.policy, winner.sure, winner.judged, winner.nothing) == (policy, sure, 2, nothing)
    assert (winner.mean, winner.bound) == (pytest.approx(mean), pytest.approx(bound))
    assert winner.advice == advice


def test_who_knows_the_future_competes_with_nobody(tmp_path):
    data = content()
    del data["meta"]["policies"]
    names = [summary_of(tmp_path, each).best.policy for each in (content(), data)]
    assert names == ["bold", "clairvoyant"]


def test_missing_ratios_come_from_the_amat_of_the_same_run(tmp_path):
    data = content()
    for each in data["cells"]:
        each["amat_vs_floor"] = None
        del each["amat_vs_lru"]
    given, derived = summary_of(tmp_path, content()), summary_of(tmp_path, data)
    assert [(each.policy, each.mean, each.mean_lru) for each in derived.standings] == [
        (each.policy, pytest.approx(each.mean), pytest.approx(each.mean_lru)) for each in given.standings
    ]


def test_seeds_are_averaged_and_kept_in_the_csv(tmp_path):
    place = PLACES[0]
    data = {"cells": [cell("steady", place, amat, seed=seed) for seed, amat in enumerate((80, 90))]}
    (mean,) = read_results(write(tmp_path, data)).cells
    assert (mean.seeds, mean.values["amat"], mean.values["hr"]) == (2, 85, pytest.approx(85 / 300))
    assert mean.intervals["amat_vs_floor"] == (pytest.approx(0.83), pytest.approx(0.87))
    made(tmp_path, data)
    rows = table(tmp_path / "cells.csv")
    assert [(row["seed"], row["amat"], float(row["amat_vs_floor_ci_high"])) for row in rows] == [
        ("0", "80", pytest.approx(0.82)),
        ("1", "90", pytest.approx(0.92)),
    ]


def test_variants_of_a_policy_are_told_apart(tmp_path):
    variants = [(0, None), (0.5, None), (0.5, "others")]
    data = {"cells": [cell("index", PLACES[0], 90, theta=theta, training=training) for theta, training in variants]}
    names = [each.policy for each in read_results(write(tmp_path, data)).cells]
    assert names == ["index θ=0 (untrained)", "index θ=0.5 (untrained)", "index θ=0.5 (others)"]


def test_loads_of_fields_are_named_by_what_they_change(tmp_path):
    loads = {"gaia": {"concurrency": 20, "scale": "1/4"}, "chat": {"concurrency": 64, "scale": "1/4"}}
    raw = [
        cell(policy, place, 90, load={**loads[place[0]], **change, "completion": "explicit", "seed": 0})
        for policy, change in (("a", {}), ("b", {}), ("a", {"scale": "1"}))
        for place in PLACES
    ]
    assert read_results(write(tmp_path, {"cells": raw})).names("load") == ["default", "scale 1"]


@pytest.mark.parametrize(
    "text, error",
    [
        ("{", "not JSON"),
        ("[]", "no results"),
        ('{"cells": []}', "no results"),
        ('{"cells": [{"trace": "t", "policy": "p"}]}', "cell 0 lacks envelope, completion, amat"),
        (json.dumps({"cells": [cell("lru", PLACES[0], 1)] * 2}), "two cells of default, explicit, gaia, edge, lru"),
    ],
)
def test_unusable_results_are_refused_with_their_name(tmp_path, capsys, text, error):
    path = tmp_path / "results.json"
    path.write_text(text)
    assert cli.main(["report", str(path), "-o", str(tmp_path / "report.html")]) == 2
    message = capsys.readouterr().err
    assert str(path) in message and error in message
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "artefact, error",
    [
        ("{", "not JSON"),
        ('{"rows": [1]}', "no artefact"),
        ('{"rows": [{"a": 1}], "chart": {"x": "a", "y": ["b"]}}', "the chart names b"),
    ],
)
def test_unusable_artefacts_are_refused_with_their_name(tmp_path, artefact, error):
    (tmp_path / "fig.json").write_text(artefact)
    with pytest.raises(ValueError, match=f"fig.json: {error}"):
        read_artefacts(tmp_path)


def test_the_papers_numbers_stand_beside_ours(tmp_path):
    write(tmp_path, content())
    figure, table = read_artefacts(tmp_path / "paper")
    assert list(figure.columns.items())[2:] == [("ase", "ase"), ("ase_paper", "ase, paper")]
    assert (table.title, table.notes) == ("table2", ("One.",))


def test_command_writes_the_page_and_a_csv_a_table(tmp_path, capsys):
    results = write(tmp_path, content())
    output = tmp_path / "out" / "report.html"
    assert cli.main(["report", str(results), "--paper", str(tmp_path / "paper"), "-o", str(output)]) == 0
    names = {"cells.csv", "policies.csv", "winners.csv", "paper-fig4.csv", "paper-table2.csv"}
    assert {path.name for path in output.parent.iterdir()} == {"report.html", *names}
    printed = capsys.readouterr().out
    assert all(name in printed for name in names)
    assert len(table(output.parent / "cells.csv")) == len(cells())
    rows = {row["policy"]: row for row in table(output.parent / "policies.csv") if row["completion"] == "silent"}
    assert float(rows["steady"]["mean"]) == pytest.approx((0.9 / 1.2 * 1 / 1.1 * 0.985 * 1.005) ** 0.25)


def test_page_says_who_wins_and_who_never_loses(tmp_path):
    text = made(tmp_path, content())
    verdict = re.search(r'<div class="verdict" data-completion="explicit".*?</ul>', text, re.S)[0]
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", verdict))
    # (0.6 * 1.03 * 0.992) ** 0.25 = 0.885
    assert "bold is the best ranking that knows only the past: a request costs 11.5 % less than with lru" in plain
    assert "Its worst cell is 1.030 × the floor (gaia, cxl)." in plain
    assert "the best that never does is steady, with 2.8 % less" in plain
    assert "1 of 4cells with nothing to win" in plain


@pytest.mark.parametrize(
    "policies, words",
    [
        (("lru", "lru-completion"), "Nothing beats <b>lru-completion</b> in the mean"),
        (("lru-completion",), "No causal policy was run in all 4 cells"),
        (("lru-completion", "lru", "bold"), "No ranking that wins anything never loses to the floor."),
    ],
)
def test_page_without_a_safe_winner_says_so(tmp_path, policies, words):
    data = {"cells": [each for each in cells() if each["policy"] in policies]}
    assert words in made(tmp_path, data)


def test_page_shows_the_evaluations_own_verdict_and_traces(tmp_path):
    data = content()
    told = {"trace": "gaia", "load": "default", "completion": "explicit", "floor": "lru-completion", "policy": "bold"}
    data["meta"]["traces"] = {"gaia": {"sessions": 21, "new_tokens_known": 0.5, "tools": list("abcdefgh")}}
    data["meta"]["verdicts"] = [{**told, "reason": "unsure", "text": "It may be by chance."}]
    text = made(tmp_path, data)
    assert "lru-completion is enough: the best may be so by chance" in text and text.count("It may be by chance.") == 1
    assert "a, b, c, d, e, f and 2 more" in text and "50.0 %" in text


def test_page_shows_claims_and_provenance(tmp_path):
    text = made(tmp_path, content())
    assert "Hold here: <b>1</b>. Do not: <b>1</b>. Figures without a yes or no: 1." in text
    for words in ("unison paper fig4", "1,234 sessions", "First note.", "✗ does not hold", "All is relative."):
        assert words in text


def test_page_needs_no_other_file_and_no_network(tmp_path):
    text = made(tmp_path, content())
    links = []

    class Links(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            links.extend(value for name, value in attrs if name in ("src", "href", "action", "data", "srcset"))

    Links().feed(text)
    assert {link for link in links if not link.startswith("#")} == {
        "data:,", "cells.csv", "policies.csv", "winners.csv", "paper-fig4.csv", "paper-table2.csv",
    }  # fmt: skip
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|\bimport\(", text)
    assert "default-src 'none'" in text


def test_page_is_the_same_bytes_for_the_same_results(tmp_path):
    assert made(tmp_path, content()) == made(tmp_path, content())


def hostile():
    data = content()
    for each in data["cells"]:
        if each["policy"] == "slow":
            each["policy"] = HOSTILE
    return data


def test_names_cannot_break_out_of_the_page(tmp_path):
    text = made(tmp_path, hostile())
    assert "<script>broken" not in text and HOSTILE not in text
    packed = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1]
    assert HOSTILE in json.loads(packed)["names"]["policy"]


# In a browser.


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install .[browser]")
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("no browser: Debian's packages are chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    made(folder, hostile())
    return folder


@pytest.fixture(params=[(400, "light"), (1400, "dark")], ids=str)
def page(browser, folder, request):
    """The page, freshly loaded; at the end the console must be empty."""
    width, scheme = request.param
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.get((folder / "report.html").as_uri())
    browser.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
    yield Page(browser, width, scheme)
    assert browser.get_log("browser") == []


class Page:
    """What the tests do with the page."""

    def __init__(self, browser, width, scheme):
        self.browser, self.width, self.scheme = browser, width, scheme

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def one(self, selector):
        return self.browser.find_element("css selector", selector)

    def texts(self, selector):
        return [element.text for element in self.all(selector)]

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def click(self, selector):
        element = self.one(selector)
        self.run("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", element)
        element.click()

    def choose(self, selector, value):
        self.run(
            "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))",
            self.one(selector), value,
        )  # fmt: skip

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()


def test_page_fits_and_every_control_has_a_name(page):
    assert page.one("body").get_attribute("class") == "ready"
    assert page.run("return document.documentElement.scrollWidth") == page.width
    assert all(each.accessible_name for each in page.all("select, input, button") if each.is_displayed())
    assert "mean 0.885 ×" in page.one("#maps table[data-policy=bold] caption").text
    assert len(page.all("#maps table")) == len(page.all("#picker .chip")) >= 4
    ids = page.run("return [...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))


def test_text_contrasts_with_its_ground(page):
    """WCAG AA, 4.5 to 1, on the map, whose grounds are mixed, and on plain text."""
    ratios = page.run("""
        const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const luminance = (colour) => {
          paint.fillStyle = colour;
          paint.fillRect(0, 0, 1, 1);
          const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3).map((each) => each / 255)
            .map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = (element) => {
          const colour = getComputedStyle(element).backgroundColor;
          return /, 0\\)$|^transparent$/.test(colour) && element.parentElement ? ground(element.parentElement) : colour;
        };
        return [...document.querySelectorAll(".heat td:not(.none), .caption, .badge, .tiles li, a, small, .axis span")]
          .filter((each) => each.textContent && each.offsetParent)
          .map((each) => [getComputedStyle(each).color, ground(each)].map(luminance).sort((a, b) => b - a))
          .map(([light, dark]) => (light + 0.05) / (dark + 0.05));
    """)
    assert len(ratios) > 50 and min(ratios) >= 4.5


def test_scheme_follows_the_system(page):
    ground = page.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (page.scheme == "light")


def test_completion_switches_verdict_maps_and_cells(page):
    def shown():
        verdicts = [each.get_attribute("data-completion") for each in page.all(".verdict") if each.is_displayed()]
        policy = page.one("#maps table[data-policy=bold] tbody td")
        return verdicts, policy.text, page.one("#cells-table tbody tr:first-child .n").text

    assert shown() == (["explicit"], "0.600", "0.400")
    page.click("#global [data-choice=silent]")
    assert shown() == (["silent"], "0.500", "0.333")
    assert page.run("return document.activeElement.textContent") == "silent"


@pytest.mark.parametrize("column", [3, 6])
def test_tables_sort_both_ways(page, column):
    table = '.verdict[data-completion="explicit"] > .scroll:last-child'
    head = f"{table} thead th:nth-child({column})"
    for direction in ("ascending", "descending"):
        page.click(f"{head} button")
        numbers = [float(text) for text in page.texts(f"{table} tbody tr :nth-child({column})")]
        assert page.one(head).get_attribute("aria-sort") == direction
        assert numbers == sorted(numbers, reverse=direction == "descending") and len(numbers) == len(AMAT)


def test_cells_sort_filter_and_say_how_many(page):
    box = page.one("#cells-controls input")
    box.send_keys("gaia bold")
    assert page.texts("#cells-table tbody td:nth-child(3)") == ["bold", "bold"]
    box.clear()
    box.send_keys("amat_vs_floor<=0.6")
    assert sorted(page.texts("#cells-table tbody td:nth-child(3)")) == sorted(
        ["absent"] * 2 + ["clairvoyant"] * 4 + ["bold", "belady-size"]
    )
    assert "8 of 8 cells" in page.one("#cells-table p").text
    page.click("#cells-table [data-key=amat]")
    page.click("#cells-table [data-key=amat]")
    amats = [float(text) for text in page.texts("#cells-table tbody tr td.n:nth-child(9)")]
    assert amats == sorted(amats, reverse=True) and len(amats) == 8


def test_tip_tells_exact_numbers_on_hover_and_by_keyboard(page):
    from selenium.webdriver import ActionChains, Keys

    tip = page.one("#tip")
    target = page.one("#maps table[data-policy=bold] tbody td")
    page.run("arguments[0].scrollIntoView({block: 'center'})", target)
    ActionChains(page.browser).move_to_element(target).perform()
    assert tip.is_displayed() and tip.text.startswith("bold · gaia · edge")
    assert re.search(r"hit rate\s*20\.0000 %", tip.text)
    boxes = page.run("return [...arguments].map((each) => each.getBoundingClientRect().toJSON())", tip, target)
    assert boxes[0]["left"] >= 0 and boxes[0]["right"] <= page.width
    assert min(abs(boxes[0]["bottom"] - boxes[1]["top"]), abs(boxes[0]["top"] - boxes[1]["bottom"])) < 10
    page.press(Keys.ESCAPE)
    assert not tip.is_displayed()
    page.run("arguments[0].focus()", target)
    page.press(Keys.ARROW_RIGHT)
    assert tip.text.startswith("bold · gaia · cxl")
    page.press(Keys.ARROW_DOWN)
    assert tip.text.startswith("bold · chat · cxl") and "Nothing to win" in tip.text


def test_one_stop_of_the_tab_key_a_chart(page):
    assert len(page.all("#maps table[data-policy=bold] [tabindex='0']")) == 1
    assert len(page.all("#bars .plot [data-item][tabindex='0']")) == 1


def test_policies_are_added_removed_and_compared(page):
    page.choose("#picker select", "clairvoyant")
    assert "clairvoyant" in page.texts("#maps caption span")
    page.click("#picker [aria-label='Remove clairvoyant']")
    assert "clairvoyant" not in page.texts("#maps caption span")
    page.choose("#map-controls label:nth-of-type(2) select", "steady")
    assert page.texts("#maps table[data-policy=bold] tbody td") == ["0.667", "1.030", "1.007", "0.995"]
    assert "better in 1, worse in 1 of 4" in page.one("#maps table[data-policy=bold] caption").text
    page.choose("#map-controls label:nth-of-type(1) select", "hr")
    assert page.texts("#maps table[data-policy=bold] tbody td")[0] == "-10.0"


def test_points_lie_where_their_numbers_are_inside_their_intervals(page):
    labels = page.run("""
        return [...document.querySelectorAll("#dots .point")].map((point) => {
          const whisker = point.previousElementSibling.getBoundingClientRect();
          const box = point.getBoundingClientRect();
          return [point.getAttribute("aria-label"), box.left + box.width / 2, whisker.left, whisker.right];
        });
    """)
    assert len(labels) == 4 * len(page.all("#picker .chip"))
    assert all(left - 1 <= middle <= right + 1 for _, middle, left, right in labels)
    where = {label: middle for label, middle, *_ in labels}
    assert where["edge, bold: 0.600000 ×"] < where["cxl, bold: 1.03000 ×"]


def test_ranking_is_in_order_for_each_metric(page):
    assert page.texts("#bars button.name")[:2] == ["clairvoyant", "absent"]
    page.choose("#ranking-controls select", "hr")
    values = [float(text.split()[0]) for text in page.texts("#bars .data .value")]
    assert values == sorted(values, reverse=True) and len(values) == len(AMAT)


def test_figures_show_lines_of_ours_and_the_papers(page):
    figure = page.one("figure[data-chart=fig4]")
    assert [each.text for each in figure.find_elements("css selector", "figcaption span")] == [
        "explicit", "ase, paper", "silent",
    ]  # fmt: skip
    assert len(figure.find_elements("css selector", "path.dashed")) == 1


def test_figures_of_both_completions_follow_the_switch(browser, tmp_path):
    rows = [
        {"completion": completion, "x": x, "y": x + lost, "kept": x < 100}
        for completion, lost in (("explicit", 0), ("silent", 5))
        for x in (0, 1, 10, 100)
    ]
    chart = {"x": "x", "y": ["y"], "log_x": True, "where": {"kept": True}}
    made(tmp_path, content(), {"fig": {"rows": rows, "chart": chart}})
    browser.get((tmp_path / "report.html").as_uri())
    page = Page(browser, None, None)
    for completion in ("explicit", "silent"):
        page.click(f"#global [data-choice={completion}]")
        assert page.one("figcaption").text.startswith(f"{completion} completion:")
        assert len(page.all("figure [data-item]")) == 3


def test_other_loads_are_chosen_and_may_lack_policies(browser, tmp_path):
    data = content()
    data["cells"] += [each for each in cells(load="service x 1") if each["policy"] in ("lru", "lru-completion", "slow")]
    made(tmp_path, data)
    browser.get((tmp_path / "report.html").as_uri())
    page = Page(browser, None, None)
    page.choose("#global select", "service x 1")
    (shown,) = (each for each in page.all(".verdict") if each.is_displayed())
    assert shown.get_attribute("data-load") == "service x 1" and "Nothing beats lru-completion" in shown.text
    assert page.one("#maps table[data-policy=bold] tbody td").text == "–"
    assert browser.get_log("browser") == []


def test_page_prints_without_controls(page):
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not page.one("nav").is_displayed() and not page.one("#cells-controls").is_displayed()
        assert page.one(".headline").is_displayed() and page.one("#maps table").is_displayed()
        pdf = page.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
        assert len(pdf) > 20_000
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
