/**
 * What becomes of a call: results of every shape, errors, limits, cancelling.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { eachInAWorld, settled } from "./support/world.js";

const worlds = eachInAWorld();
const text = (words) => ({ content: [{ type: "text", text: words }] });
const error = (words) => ({ ...text(words), isError: true });
const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47]);
const IMAGE = { type: "image", data: "iVBORw==", mimeType: "image/png" };
const LINK = { type: "resource_link", uri: "k://1", name: "one" };

/** The answer to one call of a tool that does this. */
async function resultOf(execute, more = {}, joined = {}) {
  const client = await worlds.current.joins({ tools: [{ name: "t", execute, ...more }] }, joined);
  const answer = await worlds.current.socket.calls("c1", "t", {});
  client.close();
  return answer;
}

const ROWS = [
  ["nothing", undefined, { content: [] }],
  ["null", null, text("null")],
  ["a string", "hé😀", text("hé😀")],
  ["an empty string", "", text("")],
  ["a number", 5, text("5")],
  ["false", false, text("false")],
  ["an object", { sum: 5 }, { ...text('{"sum":5}'), structuredContent: { sum: 5 } }],
  ["an object with a type of its own", { type: "text", size: 1 },
    { ...text('{"type":"text","size":1}'), structuredContent: { type: "text", size: 1 } }],
  ["an object named like a prototype's member", { type: "constructor" },
    { ...text('{"type":"constructor"}'), structuredContent: { type: "constructor" } }],
  ["a document with content that is no block", { content: ["a"] },
    { ...text('{"content":["a"]}'), structuredContent: { content: ["a"] } }],
  ["a list", [1, 2], text("[1,2]")],
  ["an empty list", [], text("[]")],
  ["a block", IMAGE, { content: [IMAGE] }],
  ["blocks", [IMAGE, LINK], { content: [IMAGE, LINK] }],
  ["blocks, strings and blobs", ["see:", new Blob([PNG], { type: "image/png" })],
    { content: [{ type: "text", text: "see:" }, IMAGE] }],
  ["a result", { content: [IMAGE], isError: true, _meta: { m: 1 } },
    { content: [IMAGE], isError: true, _meta: { m: 1 } }],
  ["a result of structured content alone", { structuredContent: { a: 1 } },
    { ...text('{"a":1}'), structuredContent: { a: 1 } }],
  ["a blob image", new Blob([PNG], { type: "image/png" }), { content: [IMAGE] }],
  ["a blob of sound", new Blob([PNG], { type: "audio/wav;rate=1" }),
    { content: [{ type: "audio", data: "iVBORw==", mimeType: "audio/wav" }] }],
  ["a blob of text", new Blob(["hé"], { type: "text/csv" }), text("hé")],
  ["another blob", new File([PNG], "a b.bin", { type: "application/x" }),
    { content: [{ type: "resource", resource: { uri: "attachment:a%20b.bin", mimeType: "application/x", blob: "iVBORw==" } }] }],
  ["bytes", PNG,
    { content: [{ type: "resource", resource: { uri: "attachment:blob", mimeType: "application/octet-stream", blob: "iVBORw==" } }] }],
  ["a question of its own", { resultType: "input_required", requestState: "s" },
    { resultType: "input_required", requestState: "s" }],
];
for (const [name, returned, expected] of ROWS) {
  test(`${name} becomes a result`, async () => {
    assert.deepEqual(await resultOf(() => returned), expected);
    assert.deepEqual(await resultOf(async () => returned), expected, "as a promise");
  });
}

test("a list is structured where the tool says what its output is", async () => {
  const result = await resultOf(() => [1], { outputSchema: { type: "array" } });
  assert.deepEqual(result, { ...text("[1]"), structuredContent: [1] });
});

test("a large blob keeps every byte", async () => {
  const bytes = Uint8Array.from({ length: 100_001 }, (_, at) => at % 251);
  const { content } = await resultOf(() => new Blob([bytes], { type: "image/png" }));
  assert.deepEqual(Buffer.from(content[0].data, "base64"), Buffer.from(bytes));
});

for (const [name, thrown, expected] of [
  ["an error", new Error("no such row"), "no such row"],
  ["a string", "no such row", "no such row"],
  ["an error without words", new RangeError(), "RangeError"],
  ["nothing", undefined, "undefined"],
]) {
  test(`${name} that is thrown becomes an isError result`, async () => {
    assert.deepEqual(await resultOf(() => { throw thrown; }), error(expected));
    assert.deepEqual(await resultOf(async () => { throw thrown; }), error(expected));
  });
}

test("an error with a JSON-RPC code is that error", async () => {
  const thrown = Object.assign(new Error("bad"), { code: -32602, data: { at: 1 } });
  assert.deepEqual(await resultOf(() => { throw thrown; }), { code: -32602, message: "bad", data: { at: 1 } });
  const dom = new DOMException("stop", "AbortError"); // it has a code of its own, 20
  assert.deepEqual(await resultOf(() => { throw dom; }), error("stop"));
});

test("what has no JSON is an error of that call alone", async () => {
  const circle = {};
  circle.self = circle;
  assert.match((await resultOf(() => circle)).content[0].text, /circular/i);
  assert.equal((await resultOf(() => ({ n: 1n }))).isError, true);
});

test("a result at the limit is sent, one above is an error of that call before it is sent", async () => {
  const world = worlds.current;
  const max = 2000;
  const envelope = JSON.stringify({ type: "result", id: "c1", result: text("") }).length;
  for (const [bytes, filler] of [[max - 1, "x"], [max, "x"], [max + 1, "x"], [max, "é"], [max + 2, "é"]]) {
    const words = filler.repeat((bytes - envelope) / Buffer.byteLength(filler));
    const client = await world.joins(
      { tools: [{ name: "t", execute: () => words }, { name: "ok", execute: () => "ok" }] },
      { maxMessageBytes: max },
    );
    const answer = await world.socket.calls("c1", "t", {});
    const sent = Buffer.byteLength(world.socket.texts.at(-1));
    if (bytes <= max) {
      assert.deepEqual(answer, text(words), `${bytes} of ${filler}`);
      assert(sent <= max && sent >= max - 2);
    } else {
      assert.equal(answer.isError, true, `${bytes} of ${filler}`);
      assert.match(answer.content[0].text, new RegExp(`has ${Math.floor(bytes)} bytes, and at most ${max}`));
    }
    assert.deepEqual(await world.socket.calls("c2", "ok", {}), text("ok"), "the connection lives");
    client.close();
  }
});

test("progress and log messages go to their call, and not after its end", async () => {
  const world = worlds.current;
  let ctx;
  let finish;
  const execute = (_, context) => {
    ctx = context;
    return new Promise((resolve) => (finish = resolve));
  };
  await world.joins({ tools: [{ name: "t", execute }] });
  await world.socket.calls("c1", "t", {});
  ctx.progress(1);
  ctx.progress(2, 4, "half");
  ctx.progress({ progress: 3, total: 4 });
  ctx.log("words");
  ctx.log("warning", { at: 1 }, "oven");
  ctx.log("error", null);
  const notes = world.socket.of("notify");
  assert(notes.every(({ id }) => id === "c1"));
  assert.deepEqual(notes.map(({ method, params }) => [method.slice(14), params]), [
    ["progress", { progress: 1 }],
    ["progress", { progress: 2, total: 4, message: "half" }],
    ["progress", { progress: 3, total: 4 }],
    ["message", { level: "info", data: "words" }],
    ["message", { level: "warning", data: { at: 1 }, logger: "oven" }],
    ["message", { level: "error", data: null }],
  ]);
  finish("done");
  await settled();
  ctx.progress(4);
  assert.equal(world.socket.of("notify").length, notes.length);
});

test("a message over the limit is dropped with a warning, and the call goes on", async () => {
  const world = worlds.current;
  const execute = (_, ctx) => {
    ctx.log("info", "x".repeat(3000));
    return "done";
  };
  await world.joins({ tools: [{ name: "t", execute }] }, { maxMessageBytes: 2000 });
  assert.deepEqual(await world.socket.calls("c1", "t", {}), text("done"));
  assert.match(world.warnings.join(), /too large/);
});

test("a function hears who calls, its input, and the end of the agent's interest", async () => {
  const world = worlds.current;
  const seen = [];
  const execute = (input, ctx) => {
    seen.push({ input, ctx });
    return new Promise((resolve) => ctx.signal.addEventListener("abort", () => resolve("late")));
  };
  await world.joins({ tools: [{ name: "t", execute }] });
  const agent = { protocolVersion: "2025-11-25", clientInfo: { name: "a", version: "1" } };
  await world.socket.calls("c1", "t", { x: 1 }, { agent });
  await world.socket.calls("c2", "t", undefined, { agent });
  assert.deepEqual(seen[0].input, { x: 1 });
  assert.deepEqual(seen[0].ctx.agent, agent);
  assert.deepEqual(seen[1].input, {});
  await world.socket.says({ type: "cancel", id: "c1", reason: "the agent hung up" });
  assert.equal(seen[0].ctx.signal.aborted, true);
  assert.equal(seen[0].ctx.signal.reason.message, "the agent hung up");
  assert.equal(seen[1].ctx.signal.aborted, false, "only that call");
  assert.equal(world.socket.answer("c1"), undefined, "nothing is sent for it any more");
  await world.socket.closes(1006);
  assert.equal(seen[1].ctx.signal.aborted, true, "a lost connection ends the calls it brought");
  await world.passes(1000);
  await world.accepts();
  assert.deepEqual(world.socket.of("result"), []);
});

test("a tool's execute keeps its `this`", async () => {
  class Tool {
    name = "t";
    greeting = "hi";
    execute() {
      return this.greeting;
    }
  }
  const world = worlds.current;
  const client = await world.joins();
  client.registerTool(new Tool());
  await settled();
  assert.deepEqual(await world.socket.calls("c1", "t", {}), text("hi"));
});

test("what is not offered is refused as MCP has it", async () => {
  const world = worlds.current;
  await world.joins();
  for (const [method, params, code] of [
    ["tools/call", { name: "x" }, -32602],
    ["prompts/get", { name: "x" }, -32602],
    ["resources/read", { uri: "x" }, -32602],
    ["completion/complete", { ref: {} }, -32601],
    ["other/thing", {}, -32601],
  ]) {
    await world.socket.says({ type: "call", id: method, method, params, agent: {} });
    assert.equal(world.socket.answer(method).code, code, method);
  }
});

test("prompts and resources are forgiving too, and their errors are errors", async () => {
  const world = worlds.current;
  const messages = [{ role: "assistant", content: { type: "text", text: "a" } }];
  await world.joins({
    prompts: [
      { name: "words", get: ({ a }) => `words ${a}` },
      { name: "list", get: () => messages },
      { name: "whole", get: () => ({ description: "d", messages }) },
      { name: "bad", get: () => { throw new Error("no"); } },
    ],
    resources: [
      { uri: "k://text", name: "t", mimeType: "text/csv", read: () => "a,b" },
      { uri: "k://blob", name: "b", read: () => new Blob([PNG], { type: "image/png" }) },
      { uri: "k://bytes", name: "b", read: () => PNG.buffer },
      { uri: "k://json", name: "j", read: () => [1] },
      { uri: "k://whole", name: "w", read: () => ({ contents: [] }) },
      { uri: "k://bad", name: "b", read: () => { throw new Error("no"); } },
    ],
    resourceTemplates: [
      { uriTemplate: "k://p/{a}/{b}", name: "t", read: (uri, { variables }) => variables },
      { uriTemplate: "k://(x)/{+rest}", name: "t", read: (uri, { variables }) => variables },
    ],
  });
  const asks = async (method, params) => {
    const id = JSON.stringify(params);
    await world.socket.says({ type: "call", id, method, params, agent: {} });
    return world.socket.answer(id);
  };
  const get = (name) => asks("prompts/get", { name, arguments: { a: "1" } });
  assert.deepEqual(await get("words"), { messages: [{ role: "user", content: { type: "text", text: "words 1" } }] });
  assert.deepEqual(await get("list"), { messages });
  assert.deepEqual(await get("whole"), { description: "d", messages });
  assert.deepEqual(await get("bad"), { code: -32603, message: "no" });
  const read = async (uri) => (await asks("resources/read", { uri })).contents?.[0];
  assert.deepEqual(await read("k://text"), { uri: "k://text", mimeType: "text/csv", text: "a,b" });
  assert.deepEqual(await read("k://blob"), { uri: "k://blob", mimeType: "image/png", blob: "iVBORw==" });
  assert.deepEqual(await read("k://bytes"), { uri: "k://bytes", mimeType: "application/octet-stream", blob: "iVBORw==" });
  assert.deepEqual(await read("k://json"), { uri: "k://json", mimeType: "application/json", text: "[1]" });
  assert.deepEqual(await asks("resources/read", { uri: "k://whole" }), { contents: [] });
  assert.deepEqual(await asks("resources/read", { uri: "k://bad" }), { code: -32603, message: "no" });
  assert.equal((await read("k://p/x%2Fy/z")).text, '{"a":"x/y","b":"z"}');
  assert.equal((await read("k://(x)/q/r?s")).text, '{"rest":"q/r?s"}');
  assert.equal((await asks("resources/read", { uri: "k://p/x" })).code, -32602);
});

test("a completion sends the first hundred values and says that there are more", async () => {
  const world = worlds.current;
  const complete = () => Array.from({ length: 101 }, (_, n) => `v${n}`);
  await world.joins({ complete });
  await world.socket.says({ type: "call", id: "c", method: "completion/complete", params: {}, agent: {} });
  const { completion } = world.socket.answer("c");
  assert.deepEqual([completion.values.length, completion.total, completion.hasMore], [100, 101, true]);
});

test("what is no message of the channel is passed over", async () => {
  const world = worlds.current;
  const client = await world.joins();
  for (const odd of ["{", "null", "[]", '"x"', '{"type":"later"}', '{"type":"cancel","id":"?"}']) {
    await world.socket.says(odd);
  }
  assert.equal(client.status.state, "online");
});
