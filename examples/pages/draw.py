"""Draws a page as an image: a title, a text in one column, and a bar chart with labels."""

from __future__ import annotations

import base64
import io
import re
import textwrap
from typing import List, Tuple

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 736, 960  # pixels
MARGIN = 48
TITLE_SIZE, TEXT_SIZE, LABEL_SIZE = 34, 24, 20  # pixels
INK, BAR, PAPER = (28, 30, 34), (196, 84, 40), (255, 255, 255)
COLOURS = 16  # of the PNG's palette


def draw_page(title: str, text: str, number: int) -> Image.Image:
    """Returns the page as an RGB image of WIDTH x HEIGHT. The chart of a text with more than about 150 words
    does not fit on the page."""
    page = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    pen = ImageDraw.Draw(page)
    y = _write(pen, title, MARGIN, 34, TITLE_SIZE)
    y = _write(pen, text, y + 20, 52, TEXT_SIZE)
    _draw_chart(pen, text, max(y + 40, 600))
    pen.text((WIDTH // 2, HEIGHT - MARGIN), str(number), INK, ImageFont.load_default(LABEL_SIZE))
    return page


def data_url(page: Image.Image) -> str:
    """Returns the page as a PNG in a data: URL, about 40 KB."""
    file = io.BytesIO()
    page.quantize(COLOURS).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _write(pen: ImageDraw.ImageDraw, text: str, y: int, letters: int, size: int) -> int:
    """Writes a text in lines of at most `letters` letters, from `y` down. Returns where the next line would begin."""
    font = ImageFont.load_default(size)
    for line in textwrap.wrap(text, letters):
        pen.text((MARGIN, y), line, INK, font)
        y += size * 4 // 3
    return y


def _draw_chart(pen: ImageDraw.ImageDraw, text: str, y: int) -> None:
    """Draws a bar for each of the text's four longest words. Its length is the number of the word's letters."""
    font = ImageFont.load_default(LABEL_SIZE)
    longest: List[Tuple[int, str]] = sorted({(-len(word), word.lower()) for word in re.findall("[A-Za-z]+", text)})[:4]
    for row, (size, word) in enumerate(longest):
        top = y + row * 2 * LABEL_SIZE
        pen.text((MARGIN, top), word, INK, font)
        pen.rectangle((WIDTH // 3, top, WIDTH // 3 - size * 24, top + LABEL_SIZE), BAR)
