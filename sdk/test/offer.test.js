/**
 * What is offered, and how its changes reach the bridge.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { eachInAWorld, settled } from "./support/world.js";

const worlds = eachInAWorld();
const tool = (name, more = {}) => ({ name, execute: () => name, ...more });
const names = (register) => register.tools.map(({ name }) => name);

test("the first register has everything that was there by then, and only what has JSON", async () => {
  const world = worlds.current;
  const client = await world.dials({
    server: { name: "kitchen", version: "1" },
    instructions: "Be brief.",
    ttlMs: 5000,
    subscribe: true,
    complete: () => [],
    tools: [tool("a", { title: "A", outputSchema: { type: "object" }, annotations: { readOnlyHint: true } })],
    prompts: [],
    resources: [{ uri: "k://1", name: "one", read: () => "1" }],
  });
  client.registerTool(tool("b", { inputSchema: { type: "object", required: ["x"] }, _meta: { m: 1 } }));
  client.registerResource({ uriTemplate: "k://{id}", name: "many", read: () => "" });
  await world.socket.opens();
  assert.deepEqual(world.socket.sent, [
    {
      type: "register",
      server: { name: "kitchen", version: "1" },
      instructions: "Be brief.",
      completions: true,
      subscribe: true,
      ttlMs: 5000,
      tools: [
        {
          inputSchema: { type: "object" },
          name: "a",
          title: "A",
          outputSchema: { type: "object" },
          annotations: { readOnlyHint: true },
        },
        { name: "b", inputSchema: { type: "object", required: ["x"] }, _meta: { m: 1 } },
      ],
      prompts: [],
      resources: [{ uri: "k://1", name: "one" }],
      resourceTemplates: [{ uriTemplate: "k://{id}", name: "many" }],
    },
  ]);
});

test("a hundred changes in one go are one register", async () => {
  const world = worlds.current;
  const client = await world.joins();
  for (let n = 0; n < 100; n++) client.registerTool(tool(`t${n}`));
  await settled();
  assert.equal(world.socket.of("register").length, 2);
  assert.equal(world.socket.sent.at(-1).tools.length, 100);
});

test("changes while a register is under way go in the next one, all in one", async () => {
  const world = worlds.current;
  const client = await world.joins();
  for (let n = 0; n < 100; n++) {
    client.registerTool(tool(`t${n}`));
    await settled();
  }
  assert.equal(world.socket.of("register").length, 2, "one is not answered yet");
  await world.socket.registered();
  assert.equal(world.socket.of("register").length, 3);
  assert.equal(world.socket.sent.at(-1).tools.length, 100);
  await world.socket.registered();
  assert.equal(world.socket.of("register").length, 3);
});

test("a change that changes nothing is not sent", async () => {
  const world = worlds.current;
  const client = await world.joins({ tools: [tool("a")] });
  client.registerTool(tool("b"))();
  await settled();
  assert.equal(world.socket.of("register").length, 1);
});

test("a signal takes a tool back, and one that was aborted already offers none", async () => {
  const world = worlds.current;
  const client = await world.joins({ tools: [tool("a")] });
  const controller = new AbortController();
  client.registerTool(tool("b"), { signal: controller.signal });
  await settled();
  await world.socket.registered();
  assert.deepEqual(names(world.socket.sent.at(-1)), ["a", "b"]);
  controller.abort();
  await settled();
  await world.socket.registered();
  assert.deepEqual(names(world.socket.sent.at(-1)), ["a"]);
  client.registerTool(tool("c"), { signal: AbortSignal.abort() });
  await settled();
  assert.deepEqual(names(world.socket.sent.at(-1)), ["a"]);
});

test("what took a tool back cannot take back its successor of the same name", async () => {
  const world = worlds.current;
  const client = await world.joins();
  const remove = client.registerTool(tool("a"));
  remove();
  client.registerTool(tool("a", { title: "second" }));
  remove();
  await settled();
  assert.deepEqual(names(world.socket.sent.at(-1)), ["a"]);
});

test("a name that is taken, and an execute that is none, are refused where they stand", async () => {
  const client = await worlds.current.dials({ tools: [tool("a")] });
  assert.throws(() => client.registerTool(tool("a")), /"a" already/);
  assert.throws(() => client.registerTool({ name: "b" }), /execute/);
});

test("definitions that the bridge refused reach the console and an event, by name", async () => {
  const world = worlds.current;
  const client = await world.dials({ tools: [tool("a"), tool("b", { inputSchema: { type: "string" } })] });
  const heard = [];
  client.addEventListener("definitionsrefused", ({ detail }) => heard.push(...detail));
  await world.socket.opens();
  const refused = [{ path: "tools[1].inputSchema.type", message: "expected object" }];
  await world.socket.registered({ refused });
  assert.deepEqual(heard, [{ ...refused[0], name: "b" }]);
  assert.match(world.warnings.join(), /b is not offered: tools\[1\].inputSchema.type: expected object/);
  assert.equal(client.status.state, "online");
});

test("after a loss the offer of that moment is registered, not that of before", async () => {
  const world = worlds.current;
  const client = await world.joins({ tools: [tool("a")] });
  await world.socket.closes(1006);
  client.registerTool(tool("b"));
  await world.passes(1000);
  await world.accepts();
  assert.equal(world.socket.of("register").length, 1);
  assert.deepEqual(names(world.socket.sent[0]), ["a", "b"]);
});

test("a first register over the limit is not sent but said; a later one leaves the connection alone", async () => {
  const world = worlds.current;
  const huge = (n) => tool("huge", { description: "x".repeat(n) });
  const client = await world.dials({ tools: [huge(4 << 20)] });
  await world.socket.opens();
  assert.deepEqual(world.socket.sent, []);
  assert.equal(client.status.state, "refused");
  assert.match(client.status.reason, /419\d{4} bytes/);

  const other = await world.joins({}, { maxMessageBytes: 1000 });
  other.registerTool(huge(2000));
  await settled();
  assert.equal(world.socket.of("register").length, 1);
  assert.match(world.warnings.join(), /bytes/);
  assert.equal(other.status.state, "online");
});

test("an updated resource is told, and only while online", async () => {
  const world = worlds.current;
  const client = await world.joins({ subscribe: true });
  client.resourceUpdated("k://1");
  const told = { type: "notify", method: "notifications/resources/updated", params: { uri: "k://1" } };
  assert.deepEqual(world.socket.sent.at(-1), told);
  await world.socket.closes(1006);
  client.resourceUpdated("k://1");
  assert.equal(world.socket.of("notify").length, 1);
});
