"""Tests the console's layout: no text is cut off, the page fits a phone, and it is accessible."""

import base64
import json

import accessibility
from console_case import ConsoleCase, build_collection
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select
from servers import Load


class LayoutTest(ConsoleCase):
    def show_stats(self, **changes):
        """Makes the page draw its charts from the answer of /v1/stats, some of whose members are replaced by
        `changes`."""
        script = """
            const [changes, done] = arguments;
            Promise.all([import("/console/live.js"), fetch("/v1/stats").then((answer) => answer.json())])
              .then(([live, stats]) => { live.showStats({ ...stats, ...changes }); done(""); }, (error) => done(String(error)));
        """
        self.assertEqual(self.driver.execute_async_script(script, changes), "")

    def test_large_figures_fit_their_tiles(self):
        self.open(self.serve(self.with_questions))
        self.wait("the version", lambda: self.text_of("#version") != "")
        samples = 60
        self.show_stats(
            age_s=1, seconds=[10] * samples, requests={"OK": [12345.6] * samples, "NOT_FOUND": [123456.7] * samples},
            rejections={"queue": [98765.4] * samples}, p50_us=[123456] * samples, p99_us=[12345678] * samples,
            batch_queries=[123.4] * samples, queue_jobs=[1024] * samples, encoder_calls=[99999.9] * samples,
            encoder_cache_hit_ratio=[0.999] * samples, writes={"applied": [12345678.9] * samples, "stale": [99999] * samples},
            write_p50_us=[999900] * samples, write_p99_us=[99990000] * samples, devices=[])
        for width in (1440, 390):
            with self.subTest(width=width):
                self.resize(width)
                self.assertEqual(accessibility.cut_text(self.driver), [])
                self.assertEqual(accessibility.overflow(self.driver), [])
        self.assertEqual(self.chart("Queued requests").find_element(By.CSS_SELECTOR, ".scale").text, "max 1,024")

    def test_charts_have_a_time_axis_and_join_sparse_percentiles(self):
        self.open(self.serve(self.with_questions))
        self.wait("the version", lambda: self.text_of("#version") != "")
        sparse = [None] * 120
        sparse[10], sparse[11], sparse[60], sparse[119] = 1000, 1100, 1500, 1200
        self.show_stats(age_s=0, seconds=[5] * 120, p50_us=sparse, p99_us=sparse)
        for chart in self.find_all(".chart"):
            labels = [one.text for one in chart.find_elements(By.CSS_SELECTOR, ".axis span")]
            self.assertEqual(labels, ["−10 min", "−5 min", "now"])
        chart = self.chart("Request time")
        path = lambda kind: chart.find_element(By.CSS_SELECTOR, f".{kind}").get_attribute("d")
        self.assertEqual(path("line").count("L"), 1, "two samples are neighbours")
        self.assertEqual(path("gap").count("L"), 2, "two gaps are joined")
        self.assertEqual(path("dots").count("M"), 2, "two samples are alone")

    def test_figures_of_a_heat_map_are_not_cut(self):
        """Checks a short and a long number: unit vectors have the similarity 1, and vectors a hundred times as long
        have 10,000."""
        import numpy as np

        line = json.dumps({"id": "one"})
        server = self.serve([*build_collection(self.folder, "large", [line], scale=100), "--http.console_questions",
                             self.write_question(base64.b64encode(100 * np.eye(3, 128, dtype=np.float16)).decode())])
        for width in (1440, 390):
            with self.subTest(width=width):
                self.resize(width)
                self.open(server)
                results = self.ask_recorded("A long question")
                self.why(results[0])
                self.assertEqual(self.text_of(".heat .sum"), "20000.00")
                self.assertEqual(self.text_of(".heat tbody .best"), "10000.00")
                self.assertEqual(accessibility.cut_text(self.driver), [])

    def write_question(self, data):
        path = self.folder / "long.questions.jsonl"
        query = {"dtype": "f16", "shape": [3, 128], "data": data}
        path.write_text(json.dumps({"text": "A long question", "query": query}) + "\n")
        return path

    def test_controls_of_a_row_have_one_height(self):
        self.open(self.serve(self.with_questions))
        self.wait("the questions", lambda: self.find("#ask-button").is_enabled())
        heights = lambda *selectors: {self.find(selector).size["height"] for selector in selectors}
        for width in (1440, 390):
            self.resize(width)
            self.assertEqual(len(heights("#collection", "#top", "#ask-button")), 1)
            self.assertEqual(len(heights("#theme", "#token-button")), 1)

    def test_hints_are_those_of_a_finger_on_a_phone(self):
        server = self.serve(self.with_questions)
        touch = lambda on: self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": on})
        self.addCleanup(touch, False)
        for is_phone in (False, True):
            with self.subTest(is_phone=is_phone):
                touch(is_phone)
                self.resize(390 if is_phone else 1440, mobile=is_phone)
                self.open(server)
                self.assertEqual("Shift+Enter" in self.find("#text").get_attribute("placeholder"), not is_phone)
                result = self.ask_recorded()[0]
                self.why(result)
                hint = result.find_element(By.CSS_SELECTOR, ".readout").text
                self.assertRegex(hint, "^Tap a cell" if is_phone else "^Point at a cell")
                scroll = result.find_element(By.CSS_SELECTOR, ".scroll-hint")
                self.wait("the hint to scroll", lambda: scroll.is_displayed() == is_phone)
                if is_phone:
                    self.assertRegex(scroll.text, r"^Swipe the map sideways: it has \d+ columns\.$")

    def test_the_page_opens_with_a_collection_that_can_be_asked(self):
        first = build_collection(self.folder, "another-dimension", ['{"id": "a"}'], dim=64)
        self.open(self.serve([*first, *self.with_questions]))
        names = lambda: [option.text for option in Select(self.find("#collection")).options]
        self.wait("the collections", lambda: names() == ["another-dimension", "demo"])
        selected = lambda: Select(self.find("#collection")).first_selected_option.text
        self.wait("the collection", lambda: selected() == "demo" and self.find("#ask-button").is_enabled())
        # A choice made by hand stays, even if the collection cannot be queried.
        self.choose("#collection", "another-dimension")
        self.assertIn("Load a file", self.text_of("#ask-note"))
        self.assertEqual(selected(), "another-dimension")

    def test_everyone_can_use_it(self):
        server = self.serve(self.with_questions)
        load = Load(server, self.questions, "demo")
        self.addCleanup(load.stop)
        self.open(server)
        results = self.ask_recorded()
        self.why(results[0])
        self.wait("a line", lambda: "L" in (self.find(".chart .line").get_attribute("d") or ""), 30)
        for theme in ("light", "dark"):
            self.emulate(theme)
            for width in (1440, 390):
                self.screenshot(f"console-{theme}-{width}", width)
        for element in self.find_all("details"):
            self.driver.execute_script("arguments[0].open = true", element)
        self.assertEqual(accessibility.names(self.driver), [])
        for theme in ("light", "dark"):
            self.emulate(theme)
            for width in (1440, 390):
                with self.subTest(theme=theme, width=width):
                    self.resize(width)
                    self.assertEqual(accessibility.contrast(self.driver), [])
                    self.assertEqual(accessibility.overflow(self.driver), [])
                    self.assertEqual(accessibility.cut_text(self.driver), [])
        self.resize(1440)
        self.assertEqual(accessibility.keyboard(self.driver), [])
        # The user's choice takes precedence over the system's.
        ground = lambda: self.driver.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
        dark = ground()
        Select(self.find("#theme")).select_by_visible_text("Light")
        self.assertNotEqual(ground(), dark)
        self.driver.refresh()
        self.assertNotEqual(ground(), dark)
        self.driver.execute_script("localStorage.clear()")
