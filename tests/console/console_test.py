#!/usr/bin/env python3
"""Tests the console in headless Chromium, as a user sees it: questions in plain text and recorded questions, the heat
map, the live charts, a server that requires a token, both themes, a narrow window, the keyboard.

  console_test.py --bin FOLDER [--encoder-python PYTHON] [--output FOLDER] [NAME...]

  --bin FOLDER              the folder of maxsimd and maxsim-shard
  --encoder-python PYTHON   a Python with the packages of maxsim-encoder --demo; needed for questions in plain text
  --output FOLDER           the folder for screenshots (default: build/console)
  NAME                      runs only these tests, as unittest names them (ConsoleTest.test_..., LayoutTest.test_...)
"""

import argparse
import json
import pathlib
import sys
import time
import unittest

import accessibility
import console_case
from console_case import QUESTION, ConsoleCase, build_collection, png_url
from console_layout import LayoutTest
from console_pages import PageChecks
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from servers import ROOT, Encoder, Load

ANSWER = "volcano-1"
ANSWER_TITLE = "Why some eruptions are violent"
TOKEN = "a-token-of-the-test"

# unittest finds the test classes by these names.
__all__ = ["ConsoleTest", "LayoutTest"]


class ConsoleTest(PageChecks, ConsoleCase):
    def check_answer(self, results):
        self.assertEqual(results[0].find_element(By.TAG_NAME, "h3").text, ANSWER_TITLE)
        self.assertIn(ANSWER, results[0].find_element(By.CSS_SELECTOR, ".meta").text)
        self.assertIn("sticky its magma is", results[0].find_element(By.CSS_SELECTOR, ".text").text)
        scores = [float(one.text) for one in self.find_all(".result output")]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertIn("generation 1", self.text_of("#answer-status"))
        stages = [one.text for one in self.find_all(".timings dt")]
        for stage in ("queue", "copy", "kernel", "rest", "total"):
            self.assertIn(stage, stages)

    def check_heat_map(self, heat, result):
        """Checks that the heat map explains the score to users of a mouse, a keyboard or a screen reader."""
        question = next(one for one in self.questions if one["text"] == QUESTION)
        rows = heat.find_elements(By.CSS_SELECTOR, "tbody tr")
        self.assertEqual([row.find_element(By.CSS_SELECTOR, ".name").text for row in rows], question["tokens"])
        self.assertEqual(len(heat.find_elements(By.CSS_SELECTOR, ".cell.top")), len(rows))
        best = sum(float(row.find_element(By.CSS_SELECTOR, ".best").text) for row in rows)
        score = float(result.find_element(By.CSS_SELECTOR, "output").text)
        self.assertAlmostEqual(best, score, delta=0.005 * len(rows))
        self.assertEqual(heat.find_element(By.CSS_SELECTOR, ".sum").text, f"{score:.4f}")
        readout = result.find_element(By.CSS_SELECTOR, ".readout")
        # The question's token "volcanoes" matches the passage's token "volcano".
        row = rows[question["tokens"].index("volcanoes")]
        top = row.find_element(By.CSS_SELECTOR, ".cell.top")
        self.assertRegex(top.get_attribute("aria-label"), r"^volcanoes, volcano: 0\.\d\d, best$")
        ActionChains(self.driver).move_to_element(top).perform()
        self.assertRegex(readout.text, r"^volcanoes × volcano = 0\.\d{4} \(best\)$")
        start = heat.find_element(By.CSS_SELECTOR, "[tabindex='0']")
        start.send_keys(Keys.ARROW_DOWN, Keys.END, Keys.ARROW_LEFT)
        focused = self.driver.switch_to.active_element
        self.assertRegex(focused.get_attribute("aria-label"), r"^why, mountain: ")
        self.assertRegex(readout.text, r"^why × mountain = ")
        self.assertEqual(len(heat.find_elements(By.CSS_SELECTOR, "[tabindex='0']")), 1)
        words = [one.text for one in result.find_elements(By.CSS_SELECTOR, ".shaded span")]
        self.assertIn("volcano", words)

    def test_without_an_encoder_a_recorded_question_is_asked(self):
        self.open(self.serve(self.with_questions))
        self.wait("the questions", lambda: len(Select(self.find("#recorded")).options) == len(self.questions))
        self.assertFalse(self.find("#text").is_displayed())
        self.assertIn("has no encoder", self.text_of("#ask-note"))
        results = self.ask_recorded()
        self.check_answer(results)
        self.assertEqual(len(results), 10)
        self.assertNotIn("encode", [one.text for one in self.find_all(".timings dt")])
        heat = self.why(results[0])
        self.check_heat_map(heat, results[0])
        button = results[0].find_element(By.CSS_SELECTOR, ".why")
        self.assertEqual(button.get_attribute("aria-expanded"), "true")
        self.assertRegex(button.text, r"^Hide\b")
        button.click()
        self.assertFalse(heat.is_displayed())
        self.assertRegex(button.text, r"^Why\b")

    def test_with_an_encoder_a_question_is_asked_in_words(self):
        if console_case.arguments.encoder_python is None:
            self.skipTest("there is no --encoder-python")
        encoder = Encoder(console_case.arguments.encoder_python)
        self.addCleanup(encoder.stop)
        self.open(self.serve([*self.with_questions, "--encoder.url", encoder.url]))
        self.wait("the field", lambda: self.find("#text").is_displayed())
        self.find("#text").send_keys(QUESTION, Keys.ENTER)
        results = self.wait_for_answer()
        self.check_answer(results)
        self.assertIn("encode", [one.text for one in self.find_all(".timings dt")])
        self.check_heat_map(self.why(results[0]), results[0])
        self.screenshot("words-light-1440")
        # Asks another question. Shift+Enter must insert a line break and must not send the question.
        self.find("#text").clear()
        self.find("#text").send_keys("How do bees", Keys.SHIFT, Keys.ENTER)
        self.find("#text").send_keys(Keys.NULL, "find their way home?", Keys.ENTER)
        self.wait("the second answer", lambda: "find their way home?" in self.text_of("#answer-status"))
        self.assertNotIn("cut the end", self.text_of("#answer-status"))
        # This question has more tokens than the model reads.
        self.driver.execute_script("arguments[0].value = arguments[1]", self.find("#text"), "lava " * 400)
        self.find("#ask-button").click()
        self.wait("the mark", lambda: "the encoder cut the end of the question" in self.text_of("#answer-status"))

    def test_the_figures_move_under_load(self):
        server = self.serve(self.with_questions)
        self.open(server)
        load = Load(server, self.questions, "demo")
        self.addCleanup(load.stop)

        def value(name):
            chart = self.chart(name)
            text = "" if chart is None else chart.find_element(By.CSS_SELECTOR, ".values dd").text
            return text if text and not text.startswith(("–", "0", "\n")) else None

        for name in ("Requests / s", "Request time", "Queries per batch", "Rejections / s", "CPU busy"):
            self.wait(f"a value of {name}", lambda name=name: value(name), 30)
        lines = self.chart("Requests / s").find_elements(By.CSS_SELECTOR, ".line")
        self.wait("a line", lambda: "L" in (lines[0].get_attribute("d") or ""), 30)
        self.assertRegex(self.chart("Requests / s").find_element(By.TAG_NAME, "svg").get_attribute("aria-label"),
                         r"^Requests / s: now answered [\d.]+, failed [\d.]+\. Largest in ten minutes [\d.]+\.$")
        # A newly opened page also shows the past values.
        self.driver.refresh()
        self.wait("the past", lambda: value("Requests / s"), 4)
        self.find("#live-table").find_element(By.XPATH, "..").find_element(By.TAG_NAME, "summary").click()
        self.assertIn("Request time, p99", self.text_of("#live-table"))
        ActionChains(self.driver).move_to_element(self.chart("Request time").find_element(By.TAG_NAME, "svg")).perform()
        self.wait("the time", lambda: " ago" in self.chart("Request time").find_element(By.CSS_SELECTOR, ".scale").text)

    def test_collections_and_memory_are_shown(self):
        self.open(self.serve([*self.demo, "--memory.budget", "64MiB"]))
        self.wait("the collection", lambda: "9,038" in self.text_of("#collections"))
        for text in ("demo", "ready", "150", "128 × f16", "1 shard in host"):
            self.assertIn(text, self.text_of("#collections"))
        self.wait("the memory", lambda: "of its budget of 64.0 MiB in collections" in self.text_of("#devices"))
        self.wait("the state", lambda: self.text_of("#state") == "ready")

    def test_a_live_collection_shows_its_log_and_why_nothing_can_be_written(self):
        """The page must show the state of a live collection's log, and the error if writes are impossible. The test
        makes up the state that a server would report."""
        self.open(self.serve(self.demo))
        self.wait("the collection", lambda: "9,038" in self.text_of("#collections"))
        show = """
            const [live, seconds] = arguments;
            const { showCollections } = await import("/console/collections.js");
            const now = performance.now.bind(performance);
            performance.now = () => now() + 1000 * seconds;
            const list = (await (await fetch("/v1/collections")).json()).collections;
            showCollections(list.map((collection) => ({ ...collection, live })));
            performance.now = now;
            return document.getElementById("collections").innerText;
        """
        run = lambda *arguments: self.driver.execute_async_script(
            f"const done = arguments[arguments.length - 1]; (async (...arguments) => {{ {show} }})"
            "(arguments[0], arguments[1]).then(done, (error) => done(String(error)));", *arguments)
        live = {"sequence": 1500, "compacted_sequence": 1000, "num_changed_documents": 400, "num_deleted_documents": 321,
                "num_segments": 2, "segment_bytes": 128 << 20, "segment_used_bytes": 3 << 20, "log_bytes": 5 << 20,
                "is_compacting": True}
        first = run(live, 3600)
        for text in ("ready, live", "1,500", "500", "2, 3.00 MiB", "321", "5.00 MiB", "A compaction runs.", "–"):
            self.assertIn(text, first)
        self.assertEqual(accessibility.contrast(self.driver), [])
        broken = {**live, "sequence": 21500, "is_compacting": False, "error": "the disk of the log is full"}
        second = run(broken, 4600)
        self.assertIn("No writes: the disk of the log is full", second)
        self.assertNotIn("A compaction runs.", second)
        self.assertRegex(second, r"\b(19\.\d|20\.0)\b", "20,000 writes in a thousand seconds and what the calls took")
        self.screenshot("live-light-1440")

    def test_a_server_that_requires_a_token_is_given_one(self):
        self.accepted_log = ["401 (Unauthorized)"]
        tokens = self.folder / "tokens"
        tokens.write_text(TOKEN + "\n")
        server = self.serve([*self.with_questions, "--auth.tokens_file", tokens])
        self.open(server)
        dialog = self.find("#token-dialog")
        self.wait("the dialog", dialog.is_displayed)
        self.assertEqual(self.driver.switch_to.active_element.get_attribute("id"), "token")
        self.assertIn("asks for a token", self.text_of("#token-reason"))
        self.assertEqual(accessibility.contrast(self.driver), [])
        self.screenshot("token-light-1440")
        self.find("#token").send_keys("wrong", Keys.ENTER)
        self.wait("the refusal", lambda: "did not accept this token" in self.text_of("#token-reason"))
        self.assertIn("error", self.find("#token-reason").get_attribute("class"))
        self.assertEqual(self.find("#token").get_attribute("aria-invalid"), "true")
        self.assertEqual(accessibility.contrast(self.driver), [])
        self.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.wait("the state", lambda: self.text_of("#state") == "wrong token")
        self.find("#token-button").click()
        self.assertIn("did not accept this token", self.text_of("#token-reason"))
        self.find("#token").send_keys(TOKEN, Keys.ENTER)
        self.wait("the collection", lambda: not dialog.is_displayed() and "9,038" in self.text_of("#collections"))
        self.check_answer(self.ask_recorded())
        self.assertEqual(self.driver.execute_script("return localStorage.length + document.cookie.length"), 0)
        self.driver.refresh()
        self.wait("the collection", lambda: "9,038" in self.text_of("#collections"))
        self.assertFalse(self.find("#token-dialog").is_displayed())
        self.find("#token-button").click()
        self.find("#token-forget").click()
        self.wait("the dialog", self.find("#token-dialog").is_displayed)
        self.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.wait("the state", lambda: self.text_of("#state") == "token needed")
        time.sleep(3)  # the page repeats its calls in this time, and must not open the dialog again
        self.assertFalse(self.find("#token-dialog").is_displayed())

    def test_questions_are_loaded_from_a_file(self):
        self.open(self.serve(self.demo))
        self.wait("the note", lambda: "Load a file" in self.text_of("#ask-note"))
        self.assertFalse(self.find("#ask-button").is_enabled())
        self.find(".ask summary").click()
        wrong = self.folder / "wrong.jsonl"
        wrong.write_text('{"text": "Why?"}\n')
        self.find("#questions-file").send_keys(str(wrong))
        self.wait("the refusal", lambda: "Line 1 is not" in self.text_of("#questions-note"))
        self.find("#questions-file").send_keys(str(self.questions_file))
        self.wait("the questions", lambda: "15 questions" in self.text_of("#questions-note"))
        self.check_answer(self.ask_recorded())

    def test_errors_are_said_and_nothing_of_a_document_is_markup(self):
        markup = '<img src="/nothing" onerror="document.title = \'broken\'"><b>bold</b>'
        large = 9007199254740993
        lines = [json.dumps({"id": large, "title": markup, "text": markup, "tokens": [markup, "b"]}),
                 json.dumps({"id": -5, "note": "neither a title nor a text", "rank": 3}),
                 json.dumps({"id": 7, "image": png_url(40, 60), "grid": {"rows": 1, "columns": 1, "first": 1}})]
        server = self.serve([*build_collection(self.folder, "odd", lines), "--http.console_questions", self.questions_file])
        self.open(server)
        results = self.ask_recorded()
        self.assertEqual(len(results), 3)
        shown = self.text_of("#results")
        for text in (str(large), markup, "note: neither a title nor a text", "rank: 3"):
            self.assertIn(text, shown)
        self.assertEqual(self.find_all("#results img, #results b"), [])
        for result in results:
            if result.find_element(By.CSS_SELECTOR, ".meta .mono").text == "7":
                self.check_page(result)
            else:
                self.assertEqual(len(self.why(result).find_elements(By.CSS_SELECTOR, "thead th")), 4)
        self.assertNotEqual(self.driver.title, "broken")
        self.check_wrong_pages()
        self.find(".ask summary").click()
        self.find("#candidates").send_keys(f"7\n{large}\n8")
        self.find("#ask-button").click()
        self.wait("the unknown id", lambda: "1 unknown id" in self.text_of("#answer-status"))
        self.assertEqual(len(self.find_all(".result")), 2)
        self.accepted_log = ["400 (Bad Request)", "ERR_CONNECTION_REFUSED"]
        self.find("#candidates").clear()
        self.find("#candidates").send_keys("not-a-number\n7")
        self.find("#ask-button").click()
        self.wait("the error", lambda: "documents" in self.text_of("#answer-status"))
        self.assertIn("error", self.find("#answer-status").get_attribute("class"))
        self.assertEqual(self.find_all(".result"), [])
        server.process.terminate()
        self.wait("the state", lambda: self.text_of("#state") == "no answer")

    def test_a_filter_selects_documents_of_a_collection_with_fields(self):
        lines = [json.dumps({"id": f"d{number}", "title": "A title", "lang": lang, "year": 2020 + number})
                 for number, lang in enumerate(["en", "de", "en"])]
        flags = build_collection(self.folder, "filtered", lines, fields="lang:keyword,year:integer")
        flags += build_collection(self.folder, "plain", lines)
        self.open(self.serve([*flags, "--http.console_questions", self.questions_file]))
        self.choose("#collection", "filtered")
        self.wait("the filter", lambda: self.find("#filter").is_displayed())
        self.assertEqual(self.text_of("#filter-fields"), "Fields: lang (keyword), year (integer).")
        self.assertEqual(self.text_of("#filter-example"), 'lang = "…"')
        self.find("#filter").send_keys(' lang = "en" and year >= 2021 ')
        results = self.ask_recorded()
        self.assertEqual(len(results), 1)
        self.assertIn("d2", results[0].find_element(By.CSS_SELECTOR, ".meta").text)
        self.assertIn('filter lang = "en" and year >= 2021', self.text_of("#answer-status"))
        self.accepted_log = ["400 (Bad Request)"]
        self.find("#filter").clear()
        self.find("#filter").send_keys("lang = en")
        self.find("#ask-button").click()
        self.wait("the error", lambda: "position 8" in self.text_of("#answer-status"))
        # If the selected collection has no fields, the page must hide the filter and not send it.
        self.choose("#collection", "plain")
        self.assertFalse(self.find("#filter").is_displayed())
        self.assertEqual(len(self.ask_recorded()), 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--encoder-python")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "console")
    console_case.arguments, names = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *names], verbosity=2)


if __name__ == "__main__":
    main()
