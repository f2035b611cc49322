/**
 * The SDK against a real bridge: the one at CLIENTMCP_TEST_URL, whose secret is in
 * CLIENTMCP_TEST_SECRET. `cargo test --test sdk` starts one and sets both.
 */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { setTimeout as passes } from "node:timers/promises";
import { WebSocket as Injected } from "ws";
import { connect } from "../src/index.js";
import { BRIDGE, META, calls, resultOf, token } from "./support/bridge.js";

/** Resolves when the client is in this state. */
function until(client, state) {
  if (client.status.state === state) return client.status;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`not ${state} but ${JSON.stringify(client.status)}`)),
      10_000,
    );
    client.addEventListener("status", ({ detail }) => {
      if (detail.state !== state) return;
      clearTimeout(timer);
      resolve(detail);
    });
  });
}

const SOCKETS = [["an injected WebSocket", Injected]];
if (globalThis.WebSocket) SOCKETS.push(["the global WebSocket", undefined]);

for (const [what, WebSocket] of SOCKETS) {
  const live = (name, run) =>
    test(`${name}, with ${what}`, { skip: !BRIDGE && "no CLIENTMCP_TEST_URL" }, async () => {
      const sub = `sdk-${randomUUID()}`;
      const clients = [];
      const joins = (options = {}) => {
        const client = connect({
          url: BRIDGE,
          token: () => token(sub, "client"),
          WebSocket,
          ...options,
        });
        clients.push(client);
        return client;
      };
      try {
        await run({ sub, joins });
      } finally {
        for (const client of clients) client.close();
      }
    });

  live("a tool is offered and called", async ({ sub, joins }) => {
    const client = joins({ server: { name: "kitchen", version: "1" } });
    client.registerTool({ name: "add", execute: ({ a, b }) => ({ sum: a + b }) });
    assert.equal((await until(client, "online")).clientId, sub);
    assert.deepEqual((await resultOf(sub, "add", { a: 2, b: 3 })).structuredContent, { sum: 5 });
    client.registerTool({ name: "fail", execute: () => { throw new Error("as asked"); } });
    const failed = await resultOf(sub, "fail", {});
    assert.deepEqual([failed.isError, failed.content[0].text], [true, "as asked"]);
    const { tools } = await resultOf(sub, "", {}, { method: "tools/list" });
    assert.deepEqual(tools.map(({ name }) => name), ["add", "fail"]);
  });

  live("progress and log messages stream", async ({ sub, joins }) => {
    const execute = async (_, ctx) => {
      for (let step = 1; step <= 3; step++) ctx.progress(step, 3);
      ctx.log("info", "halfway");
      return "done";
    };
    await until(joins({ tools: [{ name: "t", execute }] }), "online");
    const meta = { progressToken: "p", [`${META}logLevel`]: "info" };
    const messages = await calls(sub, "t", {}, { meta });
    assert.equal(messages.at(-1).result.content[0].text, "done");
    // Whether the bridge streams them is its own tests' business; that it takes them is ours.
    for (const { method, params } of messages.slice(0, -1)) {
      assert.match(method, /^notifications\/(progress|message)$/);
      if (method.endsWith("progress")) assert.equal(params.progressToken, "p");
    }
  });

  live("an agent that hangs up aborts the signal within 2 s", async ({ sub, joins }) => {
    let aborted;
    const begun = new Promise((begin) => {
      aborted = new Promise((abort) => {
        const execute = (_, { signal }) => {
          signal.addEventListener("abort", () => abort(performance.now()));
          begin();
          return new Promise(() => {});
        };
        joins({ tools: [{ name: "t", execute }] });
      });
    });
    const agent = new AbortController();
    while (true) {
      // The first call may come before the client has joined.
      const call = calls(sub, "t", {}, { signal: agent.signal }).catch(() => "hung up");
      if (await Promise.race([begun.then(() => true), call.then(() => false)])) break;
      await passes(50);
    }
    const at = performance.now();
    agent.abort();
    assert((await aborted) - at <= 2000);
  });

  live("a question goes to the agent and its answer comes back", async ({ sub, joins }) => {
    const execute = async (_, { elicit }) => `Hello, ${(await elicit("Who?")).content.name}.`;
    await until(joins({ tools: [{ name: "greet", execute }] }), "online");
    const capabilities = { elicitation: {} };
    const { resultType, inputRequests, requestState } = await resultOf(sub, "greet", {}, { capabilities });
    assert.equal(resultType, "input_required");
    const [key] = Object.keys(inputRequests);
    const inputResponses = { [key]: { action: "accept", content: { name: "Ada" } } };
    const done = await resultOf(sub, "greet", {}, { capabilities, inputResponses, requestState });
    assert.equal(done.content[0].text, "Hello, Ada.");
  });

  live("two clients of one identity do not fight", async ({ sub, joins }) => {
    const first = joins();
    await until(first, "online");
    const second = joins({ tools: [{ name: "t", execute: () => "second" }] });
    await until(first, "replaced");
    await until(second, "online");
    await passes(1500);
    assert.equal(first.status.state, "replaced");
    assert.equal((await resultOf(sub, "t", {})).content[0].text, "second");
  });

  live("what the bridge refuses is said, in its words", async ({ sub, joins }) => {
    for (const [wrong, code] of [
      [token(sub, "client", -600), 4401],
      [token(sub, "agent"), 4403],
      ["no.token.this", 4401],
    ]) {
      const status = await until(joins({ token: wrong }), "refused");
      assert.equal(status.code, code);
      assert(status.reason.length > 10, status.reason);
    }
    const bad = joins({ tools: /** @type {any} */ ([]), instructions: /** @type {any} */ (5) });
    const { code, path } = await until(bad, "refused");
    assert.deepEqual([code, path], [4400, "instructions"]);
  });

  live("a definition that is refused costs nothing else", async ({ sub, joins }) => {
    const { warn } = console;
    console.warn = () => {};
    try {
      const client = joins();
      const refused = new Promise((resolve) =>
        client.addEventListener("definitionsrefused", ({ detail }) => resolve(detail)),
      );
      client.registerTool({ name: "bad", inputSchema: { type: "string" }, execute: () => "" });
      client.registerTool({ name: "good", execute: () => "good" });
      assert.deepEqual((await refused).map(({ name }) => name), ["bad"]);
      assert.equal((await resultOf(sub, "good", {})).content[0].text, "good");
    } finally {
      console.warn = warn;
    }
  });

  live("a result as large as a message may be passes, a larger one is that call's error", async ({ sub, joins }) => {
    const execute = ({ size }) => "x".repeat(size);
    const client = joins({ tools: [{ name: "big", execute }] });
    await until(client, "online");
    const large = 4 * 1024 * 1024 - 400;
    assert.equal((await resultOf(sub, "big", { size: large })).content[0].text.length, large);
    const over = await resultOf(sub, "big", { size: 4 * 1024 * 1024 });
    assert.equal(over.isError, true);
    assert.equal(client.status.state, "online");
  });
}
