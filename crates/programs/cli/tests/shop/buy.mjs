// Buys a book as a person does, in Debian's Chromium, in a wide and in a narrow window: node buy.mjs http://HOST:PORT
// Leaves a picture of each page in the current folder.
import { chromium } from 'playwright-core';
import { existsSync } from 'node:fs';

const [, , shop] = process.argv;
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });

function check(isTrue, message) {
  if (!isTrue) throw new Error(message);
}

for (const [width, height] of [[1280, 1000], [400, 800]]) {
  const context = await browser.newContext({ viewport: { width, height } });
  const page = await context.newPage();
  const failed = [];
  page.on('response', (response) => {
    if (response.status() >= 400) failed.push(`${response.status()} ${response.url()}`);
  });
  page.on('console', (message) => {
    if (message.type() === 'error') failed.push(message.text());
  });
  const picture = async (name) => {
    const path = `${name}-${width}.png`;
    await page.screenshot({ path, fullPage: true });
    const beyond = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    check(beyond <= 0, `${name} is ${beyond} px wider than ${width} px`);
  };

  await page.goto(shop);
  await picture('home');
  await page.getByRole('link', { name: 'best sellers' }).first().click();
  await picture('best-sellers');
  await page.locator('.books a').first().click();
  const title = await page.locator('h1').innerText();
  await picture('book');
  await page.getByRole('button', { name: 'Add to cart' }).click();
  await page.getByLabel('Copies').fill('2');
  await page.getByRole('button', { name: 'Update' }).click();
  check((await page.locator('table').innerText()).includes(title), `the cart lacks ${title}`);
  await picture('cart');
  await page.getByRole('link', { name: 'Check out' }).click();
  await picture('register');
  await page.getByLabel('First name').fill('Ada');
  await page.getByLabel('Last name').fill('Reader');
  await page.getByLabel('Street').fill('1 Harbour Road');
  await page.getByLabel('City').fill('Port');
  await page.getByLabel('Postal code').fill('12345');
  await page.getByLabel('E-mail').fill('ada@example.com');
  await page.getByLabel('Password').last().fill('correct horse');
  await page.getByRole('button', { name: 'Register' }).click();
  await picture('check-out');
  await page.getByLabel('Card number').fill('4111111111111111');
  await page.getByLabel('Name on the card').fill('Ada Reader');
  await page.getByLabel('Valid until').fill('12/40');
  await page.getByRole('button', { name: 'Buy' }).click();
  const order = await page.locator('main').innerText();
  check(/Order \d+/.test(order) && order.includes(title), `no order of ${title}: ${order}`);
  await picture('order');
  check(failed.length === 0, failed.join('\n'));
  console.log(`bought at ${width} px`);
  await context.close();
}
await browser.close();
