/**
 * Rounds of questions: `ctx.elicit()` as an await, and the explicit form.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { eachInAWorld, settled } from "./support/world.js";

const worlds = eachInAWorld();
const agent = { protocolVersion: "2026-07-28", capabilities: { elicitation: {} } };
const accept = (content) => ({ action: "accept", content });
const text = (words) => ({ content: [{ type: "text", text: words }] });
const CLOSED = /not open any more/;

/** A joined client with one tool `t`, and a way to call it. */
async function withTool(execute) {
  const world = worlds.current;
  const client = await world.joins({ tools: [{ name: "t", execute }, { name: "u", execute }] });
  world.answersPings = true;
  let id = 0;
  const call = (params = {}, name = "t", input = { x: 1 }) =>
    world.socket.calls(`c${++id}`, name, input, { agent, ...params });
  return { world, client, call };
}

test("questions asked together make one round, those asked later the next", async () => {
  const { call } = await withTool(async (_, { elicit }) => {
    const [a, b] = await Promise.all([elicit("a?"), elicit({ message: "b?" })]);
    const c = await elicit("c?", { type: "object", properties: { n: { type: "number" } } });
    return [a, b, c].map(({ content }) => content.n).join();
  });
  const first = await call();
  assert.equal(first.resultType, "input_required");
  assert.deepEqual(Object.values(first.inputRequests).map(({ params }) => params.message), ["a?", "b?"]);
  const { q1 } = first.inputRequests;
  assert.deepEqual(q1, {
    method: "elicitation/create",
    params: { mode: "form", message: "a?", requestedSchema: { type: "object", properties: {} } },
  });
  const second = await call({
    requestState: first.requestState,
    inputResponses: { q1: accept({ n: 1 }), q2: accept({ n: 2 }) },
  });
  assert.deepEqual(Object.keys(second.inputRequests), ["q3"]);
  assert.notEqual(second.requestState, first.requestState);
  const third = await call({
    requestState: second.requestState,
    inputResponses: { q3: accept({ n: 3 }), q1: accept({ n: 9 }) },
  });
  assert.deepEqual(third, text("1,2,3"));
});

test("a state goes with its own call only: another tool, other arguments, another state are refused", async () => {
  const { call } = await withTool(async (_, { elicit }) => (await elicit("?")).action);
  const { requestState } = await call();
  const inputResponses = { q1: accept({}) };
  const forged = requestState.slice(0, -1) + (requestState.endsWith("0") ? "1" : "0");
  assert.match((await call({ requestState, inputResponses }, "u")).content[0].text, CLOSED);
  assert.match((await call({ requestState, inputResponses }, "t", { x: 2 })).content[0].text, CLOSED);
  assert.match((await call({ requestState: forged, inputResponses })).content[0].text, CLOSED);
  assert.deepEqual(await call({ requestState, inputResponses }), text("accept"));
  assert.match((await call({ requestState, inputResponses })).content[0].text, CLOSED, "good once");
});

test("states cannot be guessed", async () => {
  const { call } = await withTool((_, { elicit }) => elicit("?"));
  const states = new Set();
  for (let n = 0; n < 20; n++) states.add((await call()).requestState);
  assert.equal(states.size, 20);
  for (const state of states) assert.match(state, /^clientmcp-[0-9a-f]{32}$/);
});

test("a question stays open for five minutes, then its function is told", async () => {
  let failure;
  const { world, call } = await withTool(async (_, { elicit, signal }) => {
    await elicit("?").catch((error) => (failure = [error.message, signal.aborted]));
    return "after";
  });
  const { requestState } = await call();
  await world.passes(299_999);
  assert.equal(failure, undefined);
  await world.passes(1);
  assert.deepEqual(failure, ["nobody answered in time", true]);
  assert.match((await call({ requestState, inputResponses: {} })).content[0].text, CLOSED);
});

test("sixty-four functions wait; one more ends the oldest", async () => {
  const ended = [];
  let n = 0;
  const { call } = await withTool(async (_, { elicit }) => {
    const mine = n++;
    await elicit("?").catch(() => ended.push(mine));
    return `done ${mine}`;
  });
  const states = [];
  for (let calls = 0; calls < 64; calls++) states.push((await call()).requestState);
  assert.deepEqual(ended, []);
  states.push((await call()).requestState);
  assert.deepEqual(ended, [0]);
  const answered = await call({ requestState: states[1], inputResponses: { q1: accept({}) } });
  assert.deepEqual(answered, text("done 1"));
});

test("a question survives a lost connection", async () => {
  const { world, call } = await withTool(async (_, { elicit }) => (await elicit("?")).action);
  const { requestState } = await call();
  await world.socket.closes(1006);
  await world.passes(1000);
  await world.accepts();
  assert.deepEqual(await call({ requestState, inputResponses: { q1: { action: "decline" } } }), text("decline"));
});

test("a resumed call can be cancelled, and a suspended one has nothing to cancel", async () => {
  let aborted;
  const { world, call } = await withTool(async (_, { elicit, signal }) => {
    await elicit("?");
    return new Promise((resolve) =>
      signal.addEventListener("abort", () => resolve((aborted = signal.reason.message))),
    );
  });
  const { requestState } = await call();
  await world.socket.says({ type: "cancel", id: "c1", reason: "too late" });
  await call({ requestState, inputResponses: { q1: accept({}) } });
  assert.equal(aborted, undefined);
  await world.socket.says({ type: "cancel", id: "c2", reason: "hung up" });
  assert.equal(aborted, "hung up");
});

test("progress goes to the call that is running", async () => {
  let ctx;
  const { world, call } = await withTool(async (_, context) => {
    ctx = context;
    await ctx.elicit("?");
    ctx.progress(2);
    return "done";
  });
  const { requestState } = await call();
  ctx.progress(1); // nobody's call is running
  await call({ requestState, inputResponses: { q1: accept({}) } });
  assert.deepEqual(world.socket.of("notify").map(({ id, params }) => [id, params.progress]), [["c2", 2]]);
});

test("a function that answers its own question is heard when the agent calls again", async () => {
  let onThePage;
  const { call } = await withTool((_, { elicit }) =>
    Promise.race([elicit("?").then(() => "agent"), new Promise((resolve) => (onThePage = resolve))]),
  );
  const { requestState } = await call();
  onThePage("page");
  await settled();
  assert.deepEqual(await call({ requestState, inputResponses: {} }), text("page"));
});

test("who cannot ask is not asked, by mode", async () => {
  const rows = [
    [undefined, "form", false],
    [{}, "form", false],
    [{ elicitation: {} }, "form", true],
    [{ elicitation: { form: {} } }, "form", true],
    [{ elicitation: { url: {} } }, "form", false],
    [{ elicitation: {} }, "url", false],
    [{ elicitation: { url: {} } }, "url", true],
  ];
  for (const [capabilities, mode, can] of rows) {
    const { world, client } = await withTool((_, { elicit }) =>
      elicit({ mode, message: "?", ...(mode === "url" && { url: "https://a.test", elicitationId: "e" }) }),
    );
    const answer = await world.socket.calls("c1", "t", {}, { agent: { capabilities } });
    const what = `${JSON.stringify(capabilities)} ${mode}`;
    if (can) assert.equal(answer.inputRequests.q1.params.mode, mode, what);
    else assert.match(answer.content[0].text, /cannot ask/, what);
    client.close();
  }
});

test("a completion cannot ask back", async () => {
  const world = worlds.current;
  await world.joins({ complete: (_, { elicit }) => elicit("?") });
  await world.socket.says({ type: "call", id: "c", method: "completion/complete", params: {}, agent });
  assert.match(world.socket.answer("c").message, /cannot ask back/);
});

test("the explicit form keeps its state with the agent: any page can go on with it", async () => {
  const { call } = await withTool((_, { inputResponses, requestState }) =>
    inputResponses
      ? `${requestState}: ${inputResponses.who.content.name}`
      : {
          resultType: "input_required",
          inputRequests: { who: { method: "elicitation/create", params: { message: "Who?" } } },
          requestState: "mine",
        },
  );
  const asked = await call();
  assert.equal(asked.requestState, "mine");
  const done = await call({ requestState: "mine", inputResponses: { who: accept({ name: "Ada" }) } });
  assert.deepEqual(done, text("mine: Ada"));
});

test("prompts and resources can ask too", async () => {
  const world = worlds.current;
  await world.joins({
    prompts: [{ name: "p", get: async (_, { elicit }) => (await elicit("?")).action }],
    resources: [{ uri: "k://1", name: "r", read: async (_, { elicit }) => (await elicit("?")).action }],
  });
  for (const [method, params, path] of [
    ["prompts/get", { name: "p" }, ({ messages }) => messages[0].content.text],
    ["resources/read", { uri: "k://1" }, ({ contents }) => contents[0].text],
  ]) {
    await world.socket.says({ type: "call", id: method, method, params, agent });
    const { requestState } = world.socket.answer(method);
    const again = { ...params, requestState, inputResponses: { q1: { action: "cancel" } } };
    await world.socket.says({ type: "call", id: method + 2, method, params: again, agent });
    assert.equal(path(world.socket.answer(method + 2)), "cancel");
  }
});

test("close() ends the functions that wait", async () => {
  let failure;
  const { world, client, call } = await withTool((_, { elicit }) =>
    elicit("?").catch((error) => (failure = error.message)),
  );
  await call();
  client.close();
  await settled();
  assert.match(failure, /closed/);
  assert.equal(world.timers.size, 0);
});
