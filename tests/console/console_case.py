"""The base class of the console's tests. It starts a browser and servers with the bundled demo collection, and has
functions for a user's actions on the page."""

import base64
import json
import pathlib
import struct
import subprocess
import tempfile
import unittest
import zlib

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait
from servers import ROOT, Server

QUESTION = "Why do some volcanoes explode while others only pour out lava?"
WAIT_S = 20

arguments = None  # command line; set by console_test.py before the tests run


def make_driver():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                 "--window-size=1440,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def png_url(width, height, padding=0):
    """Returns a data: URL of a white PNG, followed by `padding` bytes that browsers ignore."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)  # 8 bits of grey
    data = zlib.compress((b"\0" + b"\xff" * width) * height)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"") + b"\0" * padding
    return "data:image/png;base64," + base64.b64encode(png).decode()


def build_collection(folder, name, lines, dim=128, scale=1, fields="none"):
    """Builds a collection from lines of JSON, one per document. Each document gets two token vectors: the first two
    unit vectors times `scale`."""
    import numpy as np

    tokens = np.zeros((2 * len(lines), dim), dtype=np.float16)
    for row in range(len(tokens)):
        tokens[row, row % 7] = scale
    np.save(folder / f"{name}.npy", tokens)
    np.save(folder / f"{name}-lengths.npy", np.full(len(lines), 2, dtype=np.int32))
    (folder / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))
    subprocess.run([arguments.bin / "maxsim-shard", "build", "--quiet", "--name", name, "--output", folder / name,
                    "--tokens", folder / f"{name}.npy", "--lengths", folder / f"{name}-lengths.npy", "--ids",
                    folder / f"{name}.jsonl", "--fields", fields], check=True)
    return ["--collection", f"{name}={folder / name}"]


class ConsoleCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="console-test-")
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.collection = cls.folder / "demo"
        subprocess.run([ROOT / "demo" / "build.sh", "--bin", arguments.bin, "--output", cls.collection], check=True)
        cls.questions_file = cls.folder / "demo.questions.jsonl"
        cls.questions = [json.loads(line) for line in cls.questions_file.read_text().splitlines()]
        cls.demo = ["--collection", f"demo={cls.collection}"]
        cls.with_questions = [*cls.demo, "--http.console_questions", cls.questions_file]
        cls.driver = make_driver()
        arguments.output.mkdir(parents=True, exist_ok=True)

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        cls.scratch.cleanup()

    def setUp(self):
        self.resize(1440)
        self.emulate("light")
        self.driver.get_log("browser")  # discards the messages of the previous test
        # Messages that the browser's log may contain. Any other message fails the test.
        self.accepted_log = []

    def tearDown(self):
        log = [entry["message"] for entry in self.driver.get_log("browser")]
        self.driver.get("about:blank")
        unexpected = [line for line in log if not any(text in line for text in self.accepted_log)]
        self.assertEqual(unexpected, [], "the browser's console, which has what the policy refused too")

    # Methods that act like a user, and methods that read the page.

    def serve(self, flags):
        server = Server(arguments.bin, flags)
        self.addCleanup(server.stop)
        return server

    def open(self, server):
        self.driver.get(server.url)
        self.driver.execute_script("localStorage.clear()")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text_of(self, selector):
        return self.find(selector).text

    def wait(self, what, condition, seconds=WAIT_S):
        try:
            return WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: condition())
        except TimeoutException:
            self.screenshot("failed")
            self.fail(f"{what} did not come about; the answer says: {self.text_of('#answer-status')!r}")

    def wait_for_answer(self):
        self.wait("an answer", lambda: self.find_all(".result"))
        return self.find_all(".result")

    def resize(self, width, height=900, mobile=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile})

    def emulate(self, theme):
        features = [{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def screenshot(self, name, width=1440):
        self.resize(width)
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        self.resize(width, min(height, 2400))
        self.driver.save_screenshot(str(arguments.output / f"{name}.png"))
        self.resize(width)

    def choose(self, selector, text):
        self.wait(f"{text!r} in {selector}",
                  lambda: any(option.text == text for option in Select(self.find(selector)).options))
        Select(self.find(selector)).select_by_visible_text(text)

    def ask_recorded(self, text=QUESTION):
        self.choose("#recorded", text)
        self.find("#ask-button").click()
        return self.wait_for_answer()

    def why(self, result):
        result.find_element(By.CSS_SELECTOR, ".why").click()
        self.wait("the heat map", lambda: result.find_elements(By.CSS_SELECTOR, ".heat"))
        return result.find_element(By.CSS_SELECTOR, ".heat")

    def chart(self, name):
        for figure in self.find_all(".chart"):
            if figure.find_element(By.TAG_NAME, "figcaption").text == name:
                return figure
        return None
