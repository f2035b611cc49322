/**
 * The demo page in a real browser, against a real bridge, with agents that call it.
 *
 * Run by `cargo test --test browser`, which starts the bridge and says where it is. With
 * CLIENTMCP_SCREENSHOTS set, screenshots are written to that folder.
 */

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as passes } from "node:timers/promises";
import { calls, resultOf, token } from "../../sdk/test/support/bridge.js";
import { SOON, cuttableLine, identity, launch, servePages } from "./stage.mjs";

let browser;
let pages;
before(async () => {
  browser = await launch();
  pages = await servePages();
});
after(async () => {
  await browser?.close();
  pages?.close();
});

const words = (page) => page.locator("#status").textContent();
const becomes = (page, state) =>
  page.locator(`#status[data-state="${state}"]`).waitFor({ timeout: SOON });

/** Opens the demo in a window of its own; `errors` gathers what its console complained of. */
async function opens(config, options = {}) {
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(SOON);
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  const address = pages.open(config);
  await page.goto(address);
  return { context, page, address, errors };
}

/** The demo, online; closed when the test is over. */
async function online(t, more = {}, options = {}) {
  const config = identity(more);
  const opened = await opens(config, options);
  t.after(() => opened.context.close());
  await becomes(opened.page, "online");
  return { ...opened, config, sub: config.clientId };
}

const textOf = (result) => result.content[0].text;
const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

test("an agent's call changes the page", async (t) => {
  const { page, sub, errors } = await online(t);
  assert.match(await words(page), /^Online as demo-/);
  assert.match(textOf(await resultOf(sub, "set_background", { color: "rgb(1, 2, 3)" })), /now/);
  await page.waitForFunction(() => getComputedStyle(document.body).backgroundColor === "rgb(1, 2, 3)");

  await page.getByLabel("City").fill("Köln");
  await page.getByLabel("newsletter").check();
  const { structuredContent } = await resultOf(sub, "read_form", {});
  const form = { name: "Ada", city: "Köln", lunch: "soup", newsletter: true, remarks: "" };
  assert.deepEqual(structuredContent, form);

  await resultOf(sub, "add_note", { text: "<b>hé</b>" });
  assert.equal(await page.locator("#notes li").textContent(), "<b>hé</b>");

  const wrong = await resultOf(sub, "set_background", { color: "no such" });
  assert.equal(wrong.isError, true);
  const log = await page.locator("#log li").allTextContents();
  assert.equal(log.length, 4);
  assert.match(log[0], /set_background.*failed.*no such.*is no CSS color/);
  assert.match(log[3], /set_background.*done/);
  const { tools } = await resultOf(sub, "", {}, { method: "tools/list" });
  const names = ["set_background", "read_form", "ask_the_person", "add_note"];
  assert.deepEqual(tools.map(({ name }) => name), names);
  assert.deepEqual(errors, []);
});

test("a person who takes 70 s is waited for, and the agent's stream stays alive", async (t) => {
  const { page, sub } = await online(t);
  const started = Date.now();
  const asked = calls(sub, "ask_the_person", { question: "Is lunch at noon?", choices: ["yes", "no"] }, {
    meta: { progressToken: "p" },
  });
  const dialog = page.getByRole("dialog", { name: "An agent asks you" });
  await dialog.waitFor();
  assert.equal(await page.locator("#question-text").textContent(), "Is lunch at noon?");
  await passes(70_000);
  await dialog.getByRole("button", { name: "yes", exact: true }).click();
  const messages = await asked;
  assert(Date.now() - started >= 70_000);
  assert.equal(textOf(messages.at(-1).result), "yes");
  // The page tells every 5 s that it still waits: an agent that hears that keeps waiting.
  const told = messages.slice(0, -1).map(({ method, params }) => [method, params.progressToken]);
  assert(told.length >= 12, `told ${told.length} times`);
  for (const each of told) assert.deepEqual(each, ["notifications/progress", "p"]);
  await dialog.waitFor({ state: "hidden" });
});

test("questions wait in line, and one that the agent gives up goes away", async (t) => {
  const { page, sub } = await online(t);
  const agent = new AbortController();
  const first = calls(sub, "ask_the_person", { question: "First?" }, { signal: agent.signal });
  await page.getByText("First?", { exact: true }).waitFor();
  const second = resultOf(sub, "ask_the_person", { question: "Second?" });
  agent.abort();
  await assert.rejects(first);
  await page.locator("#question-text", { hasText: "Second?" }).waitFor();
  await page.getByRole("button", { name: "I would rather not say" }).click();
  assert.match(textOf(await second), /rather not say/);
  await page.locator('#log li[data-end="given up"]').waitFor();
});

test("all of it goes by keyboard", async (t) => {
  const { page, sub } = await online(t);
  await page.locator("#self-tool").focus();
  await page.keyboard.type("add_note");
  await page.keyboard.press("Tab"); // the arguments
  await page.keyboard.press("Tab"); // the button
  await page.keyboard.press("Enter");
  await page.locator("#self-answer", { hasText: "Notes on the page: 1." }).waitFor();

  const asked = resultOf(sub, "ask_the_person", { question: "Your name?" });
  await page.getByRole("dialog").waitFor();
  await page.keyboard.type("Ada"); // the answer has the focus
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(textOf(await asked), "Ada");

  const again = resultOf(sub, "ask_the_person", { question: "Your age?" });
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  assert.match(textOf(await again), /rather not say/);
});

test("a call that arrives while the page reloads is answered by the new page", async (t) => {
  const { page, address, sub } = await online(t);
  await page.goto("about:blank");
  await passes(300); // the bridge has seen it go
  const called = resultOf(sub, "add_note", { text: "for the new page" });
  await passes(300);
  await page.goto(address);
  assert.equal(textOf(await called), "Noted. Notes on the page: 1.");
  assert.equal(await page.locator("#notes li").textContent(), "for the new page");
});

test("a call that was sent before the page reloaded ends saying that it may have run", async (t) => {
  const { page, sub } = await online(t);
  const asked = resultOf(sub, "ask_the_person", { question: "Still there?" });
  await page.getByRole("dialog").waitFor();
  await page.reload();
  const result = await asked;
  assert.equal(result.isError, true);
  assert.match(textOf(result), /may have run/);
  await becomes(page, "online");
});

test("two tabs with one identity do not fight: one is replaced and says so", async (t) => {
  const { page, context, address, sub } = await online(t);
  let dialed = 0;
  page.on("websocket", () => dialed++);
  const other = await context.newPage();
  await other.goto(address);
  await becomes(other, "online");
  await becomes(page, "replaced");
  assert.match(await words(page), /another tab/);
  await page.bringToFront();
  await page.evaluate(() => {
    window.dispatchEvent(new Event("online"));
    window.dispatchEvent(new PageTransitionEvent("pageshow"));
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await passes(3000);
  assert.equal(dialed, 0, "no redial");
  await becomes(page, "replaced");
  await becomes(other, "online");
  await resultOf(sub, "add_note", { text: "to the newer one" });
  assert.equal(await other.locator("#notes li").count(), 1);

  await page.getByRole("button", { name: "Take it back" }).click();
  await becomes(page, "online");
  await becomes(other, "replaced");
});

test("a network that goes dead and comes back is noticed and survived without a hand", async (t) => {
  const line = await cuttableLine();
  t.after(() => line.close());
  const { page, context, sub } = await online(t, { url: line.url });
  line.cut();
  await context.setOffline(true);
  await becomes(page, "offline");
  assert.match(await words(page), /Not connected \(.+\)\. Trying again in \d+ s\./);
  await passes(3000);
  line.restore();
  await context.setOffline(false);
  await becomes(page, "online");
  assert.match(textOf(await resultOf(sub, "set_background", { color: "red" })), /red/);
});

test("a dead line is found when the page is woken, in about 2 s, without any offline event", async (t) => {
  const line = await cuttableLine();
  t.after(() => line.close());
  const { page } = await online(t, { url: line.url });
  line.cut();
  line.restore(); // the old connection stays dead, a new one works
  const started = Date.now();
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await page.locator('#status:not([data-state="online"])').waitFor();
  await becomes(page, "online");
  assert(Date.now() - started < 6000, `${Date.now() - started} ms`);
});

test("a refusal is shown in words, and nothing is dialed again", async (t) => {
  const clientId = "demo-refused";
  const { page, context } = await opens(identity({ token: token(clientId, "client", -600) }));
  t.after(() => context.close());
  await becomes(page, "refused");
  assert.match(await words(page), /^Refused by the bridge: .*expired.* \(4401\)\.$/);
  let dialed = 0;
  page.on("websocket", () => dialed++);
  await passes(3000);
  assert.equal(dialed, 0);
  await page.getByRole("button", { name: "Try again" }).waitFor();
});

test("what it says to paste is what works", async (t) => {
  const { page, config } = await online(t);
  const claude = await page.locator("#claude").textContent();
  assert(claude.includes(config.mcpUrl) && claude.includes(`Bearer ${config.agentToken}`), claude);
  const file = JSON.parse(await page.locator("#config-file").textContent());
  const { url, headers } = file.mcpServers[config.clientId];
  const response = await fetch(url, {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
  });
  assert.equal((await response.json()).result.tools.length, 4);
  // The terminal's command, as a shell would take it apart.
  const curl = (await page.locator("#curl").textContent()).replaceAll("\\\n", " ");
  const body = /-d '(.*)'/.exec(curl)[1];
  const called = await fetch(config.mcpUrl, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${config.agentToken}`,
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
    },
    body,
  });
  assert.match(await called.text(), /palegreen/);
  assert.equal(await background(page), "rgb(152, 251, 152)");
});

const VIEWS = [
  ["phone", { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true }],
  ["desktop", { viewport: { width: 1280, height: 800 } }],
];
for (const [name, view] of VIEWS) {
  for (const colorScheme of ["light", "dark"]) {
    test(`it fits a ${name}, in ${colorScheme}, and can be read`, async (t) => {
      const { page, sub } = await online(t, {}, { ...view, colorScheme });
      await resultOf(sub, "read_form", {});
      await resultOf(sub, "add_note", { text: "Lunch is at noon." });
      await resultOf(sub, "set_background", { color: "no such" });
      const problems = await page.evaluate(() => {
        const found = [];
        if (document.documentElement.scrollWidth > innerWidth) found.push("it scrolls sideways");
        const channels = (color) => color.match(/[\d.]+/g).map(Number);
        const luminance = (color) => {
          const [r, g, b] = channels(color).map((c) => {
            c /= 255;
            return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = (element) => {
          for (let at = element; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if (channels(color)[3] !== 0) return color;
          }
          return "rgb(255, 255, 255)";
        };
        for (const element of document.querySelectorAll("main *")) {
          const hasText = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
          if (!hasText || !element.offsetParent) continue;
          const pair = [luminance(getComputedStyle(element).color), luminance(ground(element))];
          const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
          if (contrast < 4.5) found.push(`${element.outerHTML.slice(0, 80)}: ${contrast.toFixed(2)}`);
        }
        for (const control of document.querySelectorAll("button, select, textarea, input")) {
          if (control.offsetParent && control.type !== "checkbox" && control.offsetHeight < 44) {
            found.push(`${control.outerHTML.slice(0, 60)}: ${control.offsetHeight} px high`);
          }
        }
        return found;
      });
      assert.deepEqual(problems, []);
      const folder = process.env.CLIENTMCP_SCREENSHOTS;
      if (folder) {
        // The real identity and its tokens are nobody's business, and the same picture twice is one.
        await page.evaluate(() => {
          for (const element of document.querySelectorAll("pre, #status")) {
            element.textContent = element.textContent
              .replace(/demo-[0-9a-f-]{36}/g, "demo")
              .replace(/eyJ[\w-]+\.[\w-]+\.[\w-]+/g, "eyJhbGciOiJIUzI1NiJ9.…")
              .replace(/127\.0\.0\.1:\d+/g, "127.0.0.1:8787");
          }
          document.querySelectorAll("#log li").forEach((entry) => {
            entry.childNodes[1].data = " at 12:00:00: ";
          });
        });
        const path = (what) => join(folder, `demo-${name}-${colorScheme}${what}.png`);
        await page.screenshot({ path: path(""), fullPage: true });
        const asked = resultOf(sub, "ask_the_person", { question: "Is lunch at noon?", choices: ["yes", "no"] });
        await page.getByRole("dialog").waitFor();
        if (colorScheme === "light") await page.screenshot({ path: path("-question") });
        await page.keyboard.press("Escape");
        await asked;
      }
    });
  }
}
