"""Checks of the console for documents that are pages: an image and a grid of patches."""

import re

import accessibility
from console_case import QUESTION, png_url
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By


class PageChecks:
    """Mixed into a ConsoleCase."""

    def check_page(self, result):
        """Checks the heat map over the image of a page. The document has two vectors, and only the second one is a
        patch."""
        result.find_element(By.CSS_SELECTOR, ".why").click()
        self.wait("the page", lambda: result.find_elements(By.CSS_SELECTOR, ".page-image canvas"))
        one = lambda selector: result.find_element(By.CSS_SELECTOR, selector)
        canvas, readout = one("canvas"), one(".readout")
        self.assertEqual((canvas.get_attribute("width"), canvas.get_attribute("height")), ("40", "60"))
        pixel = "return [...arguments[0].getContext('2d').getImageData(20, 30, 1, 1).data]"
        self.assertEqual(self.driver.execute_script(pixel, canvas), [255, 255, 255, 255])
        self.assertEqual(len(result.find_elements(By.CSS_SELECTOR, ".patches i")), 1)
        buttons = result.find_elements(By.CSS_SELECTOR, ".page-tokens button")
        question = next(one for one in self.questions if one["text"] == QUESTION)
        self.assertEqual([button.text.split()[0] for button in buttons], ["all", *question["tokens"]])
        answers = set()
        for button in buttons[1:]:
            button.click()
            self.assertEqual([one.text for one in result.find_elements(By.CSS_SELECTOR, "[aria-pressed=true]")], [button.text])
            token, best = re.fullmatch(r"(.+); best: (vector 1, which is no patch|row 1, column 1), -?\d\.\d{4}",
                                       readout.text).groups()  # fmt: skip
            self.assertEqual(token, button.text.split()[0])
            marked = "top" in one(".patches i").get_attribute("class")
            self.assertEqual(marked, best == "row 1, column 1")
            answers.add(marked)
        self.assertEqual(answers, {False, True}, "the question's tokens match both vectors")
        ActionChains(self.driver).move_to_element(canvas).perform()
        self.assertRegex(readout.text, r"^lava × row 1, column 1 = -?\d\.\d{4}; best: ")
        buttons[0].click()
        ActionChains(self.driver).move_to_element(canvas).perform()
        self.assertRegex(readout.text, r"^row 1, column 1 adds (\S+ -?\d\.\d{4}(, )?){4} and \d more$")
        self.assertEqual(accessibility.names(self.driver) + accessibility.contrast(self.driver), [])
        self.assertEqual(canvas.get_attribute("aria-label"), "Image of 7")
        self.check_patches()
        one("details summary").click()
        self.wait("the table", lambda: len(result.find_elements(By.CSS_SELECTOR, ".heat thead th")) == 4)

    def check_patches(self):
        """Checks which patch each arrow key selects, and that the canvas of an image of 4,096 pixels is only 2,048
        wide."""
        script = """
            const [image, keys, done] = arguments;
            Promise.all([import("/console/page.js"), import("/console/image.js")]).then(async ([{ pageMap }, { decodeImage }]) => {
              const page = { rows: 2, columns: 2, first: 1 };
              const parts = pageMap({ similarities: [[0, 1, 2, 3, 4]], score: 4 }, page, await decodeImage(image), "a");
              const box = document.createElement("div");
              document.body.append(box);
              box.append(...parts);
              const patches = box.querySelector(".patches");
              patches.focus();
              const seen = keys.map((key) => {
                patches.dispatchEvent(new KeyboardEvent("keydown", { key }));
                return [parts[0].textContent, [...patches.children].findIndex((patch) => patch.classList.contains("on"))];
              });
              const { width, height } = box.querySelector("canvas");
              box.remove();
              done([seen, width, height]);
            }).catch((error) => done(String(error)));
        """
        keys = [None, "ArrowLeft", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"]
        seen, *size = self.driver.execute_async_script(script, png_url(4096, 8), keys)
        self.assertEqual([idx for _, idx in seen], [0, 0, 1, 1, 3, 2, 0])
        self.assertEqual((seen[3][0], seen[4][0]), ("row 1, column 2 adds nothing", "row 2, column 2 adds q1 4.0000"))
        self.assertEqual(size, [2048, 4])

    def check_wrong_pages(self):
        """Checks that the console shows no page for an invalid or hostile payload, and fetches nothing for it."""
        grids = [None, 7, "32x32", [], {}, {"rows": 2, "columns": 2}, {"rows": 2, "columns": 2, "first": 1},
                 {"rows": 0, "columns": 4, "first": 0}, {"rows": 1, "columns": -1, "first": 0},
                 {"rows": 1.5, "columns": 2, "first": 0}, {"rows": "1", "columns": "1", "first": "0"},
                 {"rows": 1, "columns": 1, "first": -1}, {"rows": 1e308, "columns": 1e308, "first": 0}]
        small = png_url(2, 2)
        images = [None, 7, "", "page.png", "/console/icon.svg", f"{self.driver.current_url}console/icon.svg",
                  "http://127.0.0.1:9/x.png", "data:image/svg+xml;base64,PHN2Zy8+", "data:text/html;base64,PGI+", "javascript:1",
                  small.replace("png", "gif", 1), small.replace("png", "jpeg", 1), small.replace(";base64", "", 1), small + "\n",
                  small[:60], png_url(0, 5), "data:image/jpeg;base64,/9j/4A==", png_url(2, 2, padding=787_000),
                  png_url(4097, 4096), png_url(16385, 1), png_url(1, 16385)]  # fmt: skip
        script = """
            const [grids, images, done] = arguments;
            const wrong = [];
            const jpeg = (width, height) => {
              const canvas = Object.assign(document.createElement("canvas"), { width, height });
              canvas.getContext("2d").fillRect(0, 0, 9, 9);
              return canvas.toDataURL("image/jpeg");
            };
            // Decoders ignore the marker RST0 at the beginning, and skip the long APP1 segment after it. A reader that takes
            // the next two bytes for a length of RST0 lands in that segment, on a frame header of 1 x 1.
            const disguised = (url) => {
              const hidden = new Uint8Array(65542);
              hidden.set([0xff, 0xd8, 0xff, 0xd0, 0xff, 0xe1, 0xff, 0xff]);
              hidden.set([0xff, 0xc0, 0, 11, 8, 0, 1, 0, 1, 1], 4 + 0xffe1);
              const letters = Array.from(hidden, (byte) => String.fromCharCode(byte)).slice(0, 6 + 0xffff).join("");
              return "data:image/jpeg;base64," + btoa(letters + atob(url.split(",")[1]).slice(2));
            };
            Promise.all([import("/console/page.js"), import("/console/image.js")]).then(async ([{ pageOf }, { decodeImage }]) => {
              for (const grid of grids) if (pageOf({ grid, image: "x" }, 4) !== null) wrong.push(grid);
              for (const payload of [undefined, null, [], "x"]) if (pageOf(payload, 4) !== null) wrong.push(payload);
              if (pageOf({ grid: { rows: 65, columns: 64, first: 0 } }, 1e6) !== null) wrong.push("65 x 64");
              if (pageOf({ grid: { rows: 64, columns: 64, first: 0 } }, 4096)?.rows !== 64) wrong.push("64 x 64");
              for (const image of [...images, jpeg(4097, 4096), disguised(jpeg(4097, 4096))]) {
                if ((await decodeImage(image)) !== null) wrong.push(String(image).slice(0, 99));
              }
              if ((await decodeImage(jpeg(30, 20)))?.width !== 30) wrong.push("a small JPEG");
              if ((await decodeImage(jpeg(16384, 1)))?.width !== 16384) wrong.push("a wide JPEG");
              const origins = performance.getEntriesByType("resource").map((entry) => new URL(entry.name).origin);
              done([wrong, [...new Set(origins)].filter((origin) => origin !== location.origin)]);
            }).catch((error) => done(String(error)));
        """
        self.assertEqual(self.driver.execute_async_script(script, grids, images), [[], []])
