// Reads a report as its readers do, in a wide and a narrow window, light and dark: node page.mjs FILE
// Fails if it asks the network, scrolls sideways, hides text behind text, or has text that is hard to read.
import { chromium } from 'playwright-core';
import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const page_url = pathToFileURL(process.argv[2]).href;
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });

// Runs in the page.
function faults() {
  // Lowest contrast of text (WCAG 2.2, criterion 1.4.3), and of large text, from 24 px or bold 18.66 px on.
  const CONTRAST = 4.5, CONTRAST_LARGE = 3;
  const found = [];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true });
  const quoted = (element) => `"${element.textContent.trim().slice(0, 50)}"`;

  for (const details of document.querySelectorAll('details')) details.open = true;
  const words = document.body.innerText;
  for (const word of ['TCP goodput', 'null transport']) if (!words.includes(word)) found.push(`it lacks ${word}`);
  for (const part of ['.fm-chart', 'table', 'nav']) if (!document.querySelector(part)) found.push(`it lacks ${part}`);
  for (const element of document.querySelectorAll('[src^=http], [href^=http]')) found.push(`it names ${element.outerHTML}`);

  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) found.push(`it is ${width} px wide`);

  for (const chart of document.querySelectorAll('svg')) {
    const frame = chart.getBoundingClientRect();
    const texts = [...chart.querySelectorAll('text')].filter((text) => shown(text) && text.textContent.trim());
    const boxes = texts.map((text) => text.getBoundingClientRect());
    boxes.forEach((one, place) => {
      const beyond = Math.max(frame.left - one.left, one.right - frame.right, frame.top - one.top, one.bottom - frame.bottom);
      if (beyond > 1) found.push(`${quoted(texts[place])} is cut off by ${beyond.toFixed(1)} px`);
      boxes.slice(place + 1).forEach((other, behind) => {
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (across > 1 && down > 1) found.push(`${quoted(texts[place])} overlaps ${quoted(texts[place + 1 + behind])}`);
      });
    });
  }

  const rgba = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r, g, b].map((part, i) => a * part + (1 - a) * [R, G, B][i]);
  const luminance = (color) => {
    const [r, g, b] = color.map((part) => part / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ancestors = (element) => (element ? [element, ...ancestors(element.parentElement)] : []);
  const behind = (element) => {
    const layers = ancestors(element).map((layer) => rgba(getComputedStyle(layer).backgroundColor)).reverse();
    return layers.reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
  if (luminance(behind(document.body)) < 0.5 !== isDark) found.push('its colours are not those of the scheme');
  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  let read = 0;
  for (const element of document.body.querySelectorAll('*')) {
    if (element.closest('script, style') || !hasText(element) || !shown(element)) continue;
    read += 1;
    const style = getComputedStyle(element);
    const [r, g, b, a] = rgba(element.closest('svg') ? style.fill : style.color);
    const opacity = ancestors(element).reduce((product, layer) => product * Number(getComputedStyle(layer).opacity), a);
    const under = behind(element);
    const [light, dark] = [luminance(over([r, g, b, opacity], under)), luminance(under)].sort((x, y) => y - x);
    const contrast = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (isLarge ? CONTRAST_LARGE : CONTRAST)) found.push(`${quoted(element)} has a contrast of ${contrast.toFixed(2)}`);
  }
  if (read < 50) found.push(`it has only ${read} texts`);
  return [...new Set(found)];
}

const problems = [];
for (const width of [1280, 400]) {
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ viewport: { width, height: 1000 }, colorScheme });
    const page = await context.newPage();
    const fail = (message) => problems.push(`${width} px, ${colorScheme}: ${message}`);
    page.on('request', (request) => {
      if (request.url() !== page_url) fail(`it asks for ${request.url()}`);
    });
    page.on('console', (message) => fail(`it complains: ${message.text()}`));
    page.on('pageerror', (error) => fail(`its script fails: ${error}`));
    await page.goto(page_url);
    for (const fault of await page.evaluate(faults)) fail(fault);
    // The keys of a legend are switches.
    const key = page.locator('.fm-key').first();
    const series = page.locator(`.fm-chart:has(.fm-key) [data-series="${await key.getAttribute('data-key')}"]`).first();
    await key.click();
    if (await series.isVisible()) fail('a key of a legend does not hide its series');
    await key.click();
    if (!(await series.isVisible())) fail('a key of a legend does not show its series again');
    // A point tells its values within the window.
    await page.locator('.fm-point').first().hover();
    const tip = await page.locator('#tip').boundingBox();
    if (!tip || tip.x < 0 || tip.x + tip.width > width) fail(`the values of a point are not in the window: ${JSON.stringify(tip)}`);
    await context.close();
  }
}
await browser.close();
if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exit(1);
}
console.log('read at 1280 and 400 px, light and dark');
