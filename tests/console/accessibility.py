"""Checks that a page can be used by keyboard, with a screen reader, and by people with weak sight. Each function
returns a list with one text per fault."""

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

TABBABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']"

NAMES = """
const wrong = [];
const text = (element) => (element?.textContent ?? '').trim();
const nameOf = (element) => {
  const by = element.getAttribute('aria-labelledby');
  if (by) return by.split(/\\s+/).map((id) => text(document.getElementById(id))).join(' ').trim();
  if (element.getAttribute('aria-label')) return element.getAttribute('aria-label').trim();
  if (element.labels?.length) return text(element.labels[0]);
  return ['BUTTON', 'A', 'SUMMARY'].includes(element.tagName) ? text(element) : '';
};
const say = (element) => element.outerHTML.slice(0, 120);
for (const element of document.querySelectorAll(arguments[0] + ", [role='img'], [role='grid'], [role='gridcell'].cell")) {
  if (nameOf(element) === '') wrong.push('has no name: ' + say(element));
}
for (const section of document.querySelectorAll('section')) {
  if (nameOf(section) === '') wrong.push('a section has no name: ' + say(section));
}
const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
for (const id of new Set(ids)) {
  if (ids.filter((one) => one === id).length > 1) wrong.push('an id appears twice: ' + id);
}
for (const attribute of ['aria-controls', 'aria-labelledby', 'for']) {
  for (const element of document.querySelectorAll(`[${attribute}]`)) {
    for (const id of element.getAttribute(attribute).split(/\\s+/)) {
      if (!document.getElementById(id)) wrong.push(`${attribute} names ${id}, which is not there`);
    }
  }
}
let level = 0;
for (const heading of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
  if (!heading.checkVisibility()) continue;
  const own = Number(heading.tagName[1]);
  if (own > level + 1) wrong.push(`${heading.tagName} "${text(heading)}" follows H${level}`);
  level = own;
}
if (document.querySelectorAll('h1').length !== 1) wrong.push('there is not one h1');
if (document.querySelectorAll('main').length !== 1) wrong.push('there is not one main');
if (!document.documentElement.lang) wrong.push('the page has no language');
return wrong;
"""

# Measures contrast by WCAG 2.2: rule 1.4.3 for text, rule 1.4.11 for the borders of controls.
CONTRAST = """
const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const rgba = (color) => {
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = color;
  context.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const groundOf = (element) => {
  const layers = [];
  for (let one = element; one !== null; one = one.parentElement) {
    const layer = rgba(getComputedStyle(one).backgroundColor);
    if (layer[3] > 0) layers.push(layer);
    if (layer[3] === 1) break;
  }
  let ground = rgba('white');
  for (const layer of layers.reverse()) ground = over(layer, ground);
  return ground;
};
const luminance = (color) => {
  const [r, g, b] = color.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (a, b) => {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};
const wrong = new Set();
let lowest = 100;
const check = (color, ground, wanted, what) => {
  const found = ratio(over(rgba(color), ground), ground);
  if (wanted === 4.5) lowest = Math.min(lowest, found);
  if (found < wanted) wrong.add(`${what}: contrast ${found.toFixed(2)}, and ${wanted} is wanted (${color})`);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let count = 0;
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (walker.currentNode.data.trim() === '' || !element.checkVisibility()) continue;
  if (['NOSCRIPT', 'OPTION', 'SCRIPT'].includes(element.tagName) || element.closest('[disabled]')) continue;
  check(getComputedStyle(element).color, groundOf(element), 4.5,
        `<${element.tagName.toLowerCase()} class="${element.className}"> "${walker.currentNode.data.trim().slice(0, 30)}"`);
  ++count;
}
for (const control of document.querySelectorAll('button, input, select, textarea')) {
  if (!control.checkVisibility() || control.disabled) continue;
  check(getComputedStyle(control).color, groundOf(control), 4.5, control.outerHTML.slice(0, 60));
  check(getComputedStyle(control).borderTopColor, groundOf(control.parentElement), 3, 'the border of ' + control.outerHTML.slice(0, 60));
}
return [[...wrong], count, lowest];
"""

FOCUS = """
const element = document.activeElement;
if (element === null || element === document.body) return null;
const style = getComputedStyle(element);
element.dataset.visited = '1';
return {what: element.outerHTML.slice(0, 80), outline: style.outlineStyle, width: parseFloat(style.outlineWidth),
        color: style.outlineColor};
"""

UNVISITED = """
return [...document.querySelectorAll(arguments[0])]
  .filter((element) => element.checkVisibility() && !element.disabled && element.tabIndex >= 0)
  .filter((element) => element.dataset.visited === undefined)
  .map((element) => element.outerHTML.slice(0, 80));
"""


def names(driver):
    return driver.execute_script(NAMES, TABBABLE)


def contrast(driver):
    wrong, count, _ = driver.execute_script(CONTRAST)
    if count < 20:
        wrong.append(f"only {count} texts were found")
    return wrong


def lowest_contrast(driver):
    return driver.execute_script(CONTRAST)[2]


def keyboard(driver):
    """Moves the focus through the page with the Tab key. Returns the controls that never get the focus, or that do not
    show it."""
    driver.execute_script("document.querySelectorAll('[data-visited]').forEach((one) => delete one.dataset.visited);"
                          "document.activeElement?.blur(); window.scrollTo(0, 0)")
    wrong = []
    # Makes twice as many steps as there are controls, because the focus may start at any control, and returns to the
    # first control after the last.
    for _ in range(10 + 2 * len(driver.find_elements(By.CSS_SELECTOR, TABBABLE))):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        focused = driver.execute_script(FOCUS)
        if focused is None:
            continue  # the focus is on the page itself or on the browser's own controls
        if focused["outline"] == "none" or focused["width"] < 2:
            wrong.append(f"does not show the focus: {focused['what']}")
        if not driver.execute_script(UNVISITED, TABBABLE):
            break
    left = driver.execute_script(UNVISITED, TABBABLE)
    wrong.extend(f"is not reached by Tab: {what}" for what in left)
    return wrong


def overflow(driver):
    """Returns a fault if the page is wider than its window. Users would have to scroll in two directions (WCAG
    1.4.10)."""
    wide, window = driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    return [f"the page is {wide} pixels wide in a window of {window}"] if wide > window else []


CUT_TEXT = """
const wrong = [];
for (const element of document.querySelectorAll('body *')) {
  if (!element.checkVisibility() || element.closest('.visually-hidden, svg')) continue;
  const style = getComputedStyle(element);
  if (element.tagName === 'SELECT' || style.display === 'inline') continue;
  if (style.overflowX === 'auto' && element.matches('.scroll')) continue;
  if (element.scrollWidth > element.clientWidth) {
    const text = element.textContent.trim().slice(0, 60);
    wrong.push(`${element.tagName}.${element.className} "${text}": ${element.scrollWidth} > ${element.clientWidth}`);
  }
}
return wrong;
"""


def cut_text(driver):
    """Returns the elements whose text is wider than the element, so that it is cut off or covers a neighbour. Ignores
    regions that scroll, and drop-down lists: a list shows its long options whole when it is open. Browsers differ in
    the width that they report for a closed one (Chromium 150 that of the longest option, 156 that of the list)."""
    return driver.execute_script(CUT_TEXT)
