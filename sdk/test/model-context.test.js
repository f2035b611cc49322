/**
 * The adapter to the browser's own tool registry, against stand-ins for the browsers there are.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { eachInAWorld, settled } from "./support/world.js";

const worlds = eachInAWorld();

/**
 * A browser's `document.modelContext`: as Chrome 154 has it (a string goes in, as WebIDL's DOMString
 * makes one), or 155 and later (an object does).
 */
class Browser extends EventTarget {
  tools = [];
  ran = [];
  constructor(takes) {
    super();
    this.takes = takes;
  }
  async registerTool(tool) {
    this.tools.push(tool);
    this.dispatchEvent(new Event("toolchange"));
  }
  unregister(name) {
    this.tools = this.tools.filter((tool) => tool.name !== name);
    this.dispatchEvent(new Event("toolchange"));
  }
  async getTools() {
    return this.tools.map(({ execute, ...tool }) => ({
      ...tool,
      origin: "https://page.test",
      inputSchema:
        this.takes === "string" ? JSON.stringify(tool.inputSchema) ?? "" : tool.inputSchema,
    }));
  }
  async executeTool({ name }, input, { signal }) {
    let value;
    if (this.takes === "string") {
      try {
        value = JSON.parse(`${input}`);
      } catch {
        throw new DOMException("Failed to parse input arguments", "UnknownError");
      }
    } else {
      if (typeof input !== "object") throw new TypeError("not of type object");
      value = structuredClone(JSON.parse(JSON.stringify(input)));
    }
    this.ran.push(name);
    const tool = this.tools.find((tool) => tool.name === name);
    return JSON.stringify(await tool.execute(value, { signal })) ?? null;
  }
}

const ECHO = {
  name: "echo",
  title: "Echo",
  description: "Says it again.",
  inputSchema: { type: "object", properties: { text: { type: "string" } } },
  annotations: { readOnlyHint: true },
  execute: ({ text }) => text,
};

for (const takes of ["string", "object"]) {
  test(`a page's tool is offered and run once, in a browser that takes an ${takes}`, async () => {
    const world = worlds.current;
    const browser = new Browser(takes);
    await browser.registerTool(ECHO);
    await browser.registerTool({ name: "list", description: "", execute: () => [{ type: "text", text: "b" }] });
    const client = await world.joins();
    client.bridgeModelContext(browser);
    await settled();
    const { execute, ...definition } = ECHO;
    assert.deepEqual(world.socket.sent.at(-1).tools, [
      definition,
      { name: "list", description: "", inputSchema: { type: "object" } },
    ]);
    const text = 'hé "q" \\ 😀';
    const answer = await world.socket.calls("c1", "echo", { text });
    assert.deepEqual(answer, { content: [{ type: "text", text }] });
    assert.deepEqual(await world.socket.calls("c2", "list"), { content: [{ type: "text", text: "b" }] });
    assert.deepEqual(browser.ran, ["echo", "list"]);
  });
}

test("it follows the page's changes, and stops", async () => {
  const world = worlds.current;
  const browser = new Browser("object");
  const client = await world.joins();
  const stop = client.bridgeModelContext(browser);
  const offered = async () => {
    await settled();
    await world.socket.registered();
    return world.socket.of("register").at(-1).tools.map(({ name }) => name);
  };
  await browser.registerTool(ECHO);
  assert.deepEqual(await offered(), ["echo"]);
  await browser.registerTool({ ...ECHO, name: "two" });
  assert.deepEqual(await offered(), ["echo", "two"]);
  browser.unregister("echo");
  assert.deepEqual(await offered(), ["two"]);
  // A tool whose definition changed is another one.
  browser.unregister("two");
  await browser.registerTool({ ...ECHO, name: "two", description: "New." });
  await offered();
  assert.equal(world.socket.of("register").at(-1).tools[0].description, "New.");
  stop();
  assert.deepEqual(await offered(), []);
  await browser.registerTool(ECHO);
  assert.deepEqual(await offered(), []);
});

test("a filter says which, a signal says until when, and own tools go first", async () => {
  const world = worlds.current;
  const browser = new Browser("object");
  for (const name of ["a", "b", "c"]) await browser.registerTool({ ...ECHO, name });
  const client = await world.joins({ tools: [{ name: "c", description: "mine", execute: () => "" }] });
  const controller = new AbortController();
  const seen = [];
  client.bridgeModelContext(browser, {
    filter: (tool) => (seen.push(tool), tool.name !== "b"),
    signal: controller.signal,
  });
  await settled();
  await world.socket.registered();
  const tools = () => world.socket.of("register").at(-1).tools;
  assert.deepEqual(tools().map(({ name }) => name), ["c", "a"]);
  assert.equal(tools()[0].description, "mine");
  assert.equal(seen[0].origin, "https://page.test");
  assert.match(world.warnings.join(), /"c" already/);
  controller.abort();
  await settled();
  assert.deepEqual(tools().map(({ name }) => name), ["c"]);
});

test("an older list that comes late does not undo a newer one", async () => {
  const world = worlds.current;
  const waiting = [];
  const browser = new EventTarget();
  browser.getTools = () => new Promise((resolve) => waiting.push(resolve));
  browser.executeTool = () => {};
  const client = await world.joins();
  client.bridgeModelContext(browser);
  browser.dispatchEvent(new Event("toolchange"));
  waiting[1]([{ name: "new" }]);
  await settled();
  await world.socket.registered();
  waiting[0]([{ name: "old" }]);
  await settled();
  assert.deepEqual(world.socket.sent.at(-1).tools.map(({ name }) => name), ["new"]);
});

test("a list that comes after it was stopped offers nothing", async () => {
  const world = worlds.current;
  let give;
  const browser = new EventTarget();
  browser.getTools = () => new Promise((resolve) => (give = resolve));
  browser.executeTool = () => {};
  const client = await world.joins();
  client.bridgeModelContext(browser)();
  give([{ name: "late" }]);
  await settled();
  assert.deepEqual(world.socket.sent.at(-1).tools, []);
});

test("a cancelled call reaches the page's tool, and its failure the agent", async () => {
  const world = worlds.current;
  const browser = new Browser("object");
  let signal;
  await browser.registerTool({ ...ECHO, execute: (_, options) => new Promise(() => (signal = options.signal)) });
  await browser.registerTool({ ...ECHO, name: "bad", execute: () => Promise.reject(new Error("broke")) });
  const client = await world.joins();
  client.bridgeModelContext(browser);
  await settled();
  await world.socket.calls("c1", "echo", {});
  await world.socket.says({ type: "cancel", id: "c1", reason: "hung up" });
  assert.equal(signal.aborted, true);
  const failed = await world.socket.calls("c2", "bad", {});
  assert.deepEqual(failed, { content: [{ type: "text", text: "broke" }], isError: true });
});

test("a browser without it costs a warning and nothing else", async () => {
  const world = worlds.current;
  const client = await world.joins();
  client.bridgeModelContext(undefined)();
  client.bridgeModelContext({ registerTool() {} })();
  assert.equal(world.warnings.length, 2);
  assert.equal(client.status.state, "online");
});
