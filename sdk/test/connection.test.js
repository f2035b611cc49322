/**
 * When the SDK dials, when it does not, and what it says of itself meanwhile.
 */

import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { connect } from "../src/index.js";
import { eachInAWorld, settled, tokenFor, tokenWith } from "./support/world.js";

const worlds = eachInAWorld();
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const states = (client) => client.seen.map(({ state }) => state);
const tool = (name) => ({ name, inputSchema: { type: "object" }, execute: () => name });

test("it is online only after its register was accepted", async () => {
  const world = worlds.current;
  const client = await world.dials({ tools: [tool("a")] });
  assert.deepEqual(client.status, { state: "connecting" });
  await world.socket.opens();
  await world.passes(10 * SECOND);
  assert.deepEqual(world.socket.of("register").length, 1);
  assert.deepEqual(client.status, { state: "connecting" });
  await world.socket.registered();
  assert.deepEqual(client.status, { state: "online", clientId: "kitchen" });
  assert.deepEqual(states(client), ["connecting", "online"]);
});

test("a URL is taken as people have it, and one that is none is refused at once", async () => {
  const world = worlds.current;
  for (const [given, dialed] of [
    ["wss://bridge.test", "wss://bridge.test/connect"],
    ["https://bridge.test/", "wss://bridge.test/connect"],
    ["http://127.0.0.1:8787", "ws://127.0.0.1:8787/connect"],
    ["ws://bridge.test/base/connect/kitchen#part", "ws://bridge.test/base/connect/kitchen"],
  ]) {
    await world.dials({ url: given });
    assert.equal(world.socket.url, dialed, given);
  }
  assert.deepEqual(world.socket.protocols, ["clientmcp.v1", "clientmcp.bearer.a.b.c"]);
  assert.throws(() => connect({ url: "ftp://bridge.test", token: "t" }), /no ws: or http: URL/);
  assert.throws(() => connect({ url: "bridge", token: "t" }), TypeError);
});

test("without a WebSocket it says what to give", () => {
  delete globalThis.WebSocket;
  assert.throws(() => connect({ url: "ws://bridge.test", token: "t" }), /WebSocket/);
});

test("24 hours of failures: it never gives up and never hammers", async () => {
  const world = worlds.current;
  const client = await world.dials({ token: () => "a.b.c" });
  let seen = 0;
  const end = world.now + 24 * HOUR;
  while (world.now < end) {
    // Each new socket fails in one of the ways that are not final.
    if (world.sockets.length > seen) {
      const way = seen++ % 7;
      const { socket } = world;
      if (way === 0) await socket.closes(1006);
      else if (way === 1) await socket.closes(1001);
      else if (way === 2) await socket.closes(4429);
      else if (way === 3) await socket.closes(4408);
      else if (way === 4) await socket.closes(4401); // there is a token function
      else if (way === 5) await socket.closes(1011);
      // The seventh never answers.
    }
    await world.passes(5 * SECOND);
  }
  const dialed = world.sockets.map(({ at }) => at);
  const gaps = dialed.slice(1).map((at, index) => at - dialed[index]);
  const longest = Math.max(...gaps);
  assert(longest <= 60 * SECOND, `it was silent for ${longest} ms`);
  assert(Math.min(...gaps) >= 500, `it dialed again after ${Math.min(...gaps)} ms`);
  // On average 15 s of waiting; this test itself looks every 5 s.
  assert(dialed.length > 24 * 60 && dialed.length < 24 * 360, `${dialed.length} times in a day`);
  assert(["connecting", "offline"].includes(client.status.state));
});

test("the waits grow to 30 s with full jitter, and start again after 5 s of being online", async () => {
  const world = worlds.current;
  for (const [luck, waits] of [
    [0, [500, 500, 500, 500, 500, 500, 500]],
    [0.999999, [1000, 2000, 4000, 8000, 16000, 30000, 30000]],
  ]) {
    Math.random = () => luck;
    const client = await world.joins();
    for (const wait of waits) {
      const from = world.sockets.length;
      await world.socket.closes(1006);
      assert.equal(client.status.state, "offline");
      assert.equal(Math.round(client.status.retryAt - world.now), wait);
      await world.passes(wait - 1);
      assert.equal(world.sockets.length, from, `before ${wait} ms`);
      await world.passes(1);
      assert.equal(world.sockets.length, from + 1, `after ${wait} ms`);
    }
    await world.accepts();
    await world.passes(4999);
    await world.socket.closes(1006);
    assert.equal(Math.round(client.status.retryAt - world.now), luck ? 30000 : 500, "4.999 s");
    await world.passes(30000);
    await world.accepts();
    await world.passes(5000);
    await world.socket.closes(1006);
    assert.equal(Math.round(client.status.retryAt - world.now), luck ? 1000 : 500, "5 s");
    client.close();
  }
});

test("final codes end it, in words, until a person asks for more", async () => {
  const world = worlds.current;
  for (const [code, token, state] of [
    [4400, () => "t", "refused"],
    [4401, "t", "refused"],
    [4403, () => "t", "refused"],
    [1009, () => "t", "refused"],
    [4409, () => "t", "replaced"],
  ]) {
    const client = await world.joins({ token });
    const dialed = world.sockets.length;
    await world.socket.says({ type: "fault", code, message: "the full reason", path: "tools" });
    await world.socket.closes(code, "the full rea");
    assert.equal(client.status.state, state, `${code}`);
    assert.equal(client.status.reason, "the full reason");
    if (state === "refused") assert.deepEqual([client.status.code, client.status.path], [code, "tools"]);
    await world.passes(HOUR);
    for (const event of ["visibilitychange", "pageshow", "online", "resume"]) {
      await world.pageSays(event);
    }
    client.registerTool(tool("late"));
    await settled();
    assert.equal(world.sockets.length, dialed, `${code}: no redial`);
    client.reconnect();
    await settled();
    assert.equal(world.sockets.length, dialed + 1, `${code}: reconnect() dials`);
    client.close();
  }
});

test("two tabs with one identity do not fight", async () => {
  const world = worlds.current;
  world.answersPings = true;
  const first = await world.joins();
  const firstSocket = world.socket;
  const second = await world.joins();
  await firstSocket.closes(4409, "replaced by a newer connection");
  await world.passes(HOUR);
  assert.equal(first.status.state, "replaced");
  assert.equal(world.sockets.length, 2);
  assert.equal(second.status.state, "online");
});

test("a token function that fails or hangs is asked again; a token with white space is trimmed", async () => {
  const world = worlds.current;
  const answers = [
    () => Promise.reject(new Error("no session")),
    () => new Promise(() => {}),
    () => " a.b.c\n",
  ];
  let asked = 0;
  const client = await world.dials({ token: () => answers[asked++]() });
  assert.match(client.status.reason, /no session/);
  await world.passes(3 * SECOND);
  assert.equal(asked, 2);
  await world.passes(2 * MINUTE + 5 * SECOND);
  assert.equal(asked, 3);
  assert.deepEqual(world.socket.protocols[1], "clientmcp.bearer.a.b.c");
});

test("a token function gets the client a fresh token at each dial, 4401 or not", async () => {
  const world = worlds.current;
  let asked = 0;
  const client = await world.joins({ token: () => `t${++asked}` });
  await world.socket.closes(4401, "token expired");
  assert.equal(client.status.state, "offline");
  await world.passes(SECOND);
  await world.accepts();
  assert.equal(world.socket.protocols[1], "clientmcp.bearer.t2");
  assert.equal(client.status.state, "online");
});

test("a token is renewed in-band before it ends, again and again, and no timer overflows", async () => {
  const world = worlds.current;
  world.answersPings = true;
  let asked = 0;
  let life = 3600;
  await world.joins({
    token: () => {
      asked++;
      return tokenFor(life);
    },
  });
  const exps = () =>
    world.socket.of("auth").map(({ token }) => JSON.parse(atob(token.split(".")[1])).exp * 1000);
  let exp = world.now + 3600 * SECOND;
  for (let round = 1; round <= 5; round++) {
    while (exps().length < round) {
      await world.passes(30 * SECOND);
      assert(world.now < exp, "the token ended");
    }
    assert(exp - world.now >= 4 * MINUTE, `renewed ${exp - world.now} ms before its end`);
    assert(exp - world.now <= 6 * MINUTE, `renewed ${exp - world.now} ms before its end`);
    exp = exps().at(-1);
  }
  assert.equal(asked, 6);
  assert.equal(world.sockets.length, 1, "one connection all along");

  life = (Date.UTC(2200, 0) - world.now) / 1000;
  while (exps().length < 6) {
    await world.passes(30 * SECOND);
  }
  for (let minutes = 0; minutes < 120; minutes++) {
    await world.passes(30 * SECOND);
  }
  assert.equal(asked, 7);
});

test("a clock that is behind does not make a fresh token last longer than its life", async () => {
  const world = worlds.current;
  world.answersPings = true;
  let asked = 0;
  const token = () => {
    asked++;
    // The issuer's clock is two hours ahead of ours.
    const iat = world.now / 1000 + 7200;
    return tokenWith({ iat, exp: iat + 600 });
  };
  await world.joins({ token });
  for (let time = 0; time < 10 * MINUTE; time += 30 * SECOND) {
    await world.passes(30 * SECOND);
  }
  assert(asked >= 2, "renewed within its ten minutes");
});

test("a renewal that fails is tried again at the next tick", async () => {
  const world = worlds.current;
  world.answersPings = true;
  const tokens = [() => tokenFor(120), () => Promise.reject(new Error("down")), () => tokenFor(600)];
  await world.joins({ token: () => tokens.shift()() });
  for (let tick = 0; tick < 4; tick++) {
    await world.passes(30 * SECOND);
  }
  assert.equal(world.socket.of("auth").length, 1);
  assert.match(world.warnings.join(), /no fresh token: down/);
});

test("it pings in the exact text, as often as the bridge asked", async () => {
  const world = worlds.current;
  await world.joins({}, { pingIntervalMs: 7000 });
  await world.passes(6999);
  assert.equal(world.socket.of("ping").length, 0);
  await world.passes(1);
  assert.equal(world.socket.texts.at(-1), '{"type":"ping"}');
  await world.socket.says({ type: "pong" });
  await world.passes(7000);
  assert.equal(world.socket.of("ping").length, 2);
  await world.joins({}, { pingIntervalMs: 1e12 }); // the pretend clock refuses what a timer cannot
});

test("a bridge that stopped answering is noticed without any event", async () => {
  const world = worlds.current;
  const client = await world.joins();
  await world.passes(30 * SECOND + 14_999);
  assert.equal(client.status.state, "online");
  await world.passes(1);
  assert.equal(client.status.state, "offline");
  assert.match(client.status.reason, /does not answer/);
});

for (const event of ["visibilitychange", "pageshow", "online", "resume"]) {
  test(`after sleep, ${event} finds a dead connection in 2 s and dials again`, async () => {
    const world = worlds.current;
    const client = await world.joins();
    await world.passes(10 * SECOND);
    world.sleeps(8 * HOUR);
    await world.pageSays(event);
    assert.equal(world.socket.texts.at(-1), '{"type":"ping"}', "it asks");
    await world.passes(1999);
    assert.equal(client.status.state, "online");
    await world.passes(1);
    assert.equal(client.status.state, "offline");
    await world.passes(SECOND);
    assert.equal(world.sockets.length, 2);
  });

  test(`after sleep, ${event} leaves a living connection alone`, async () => {
    const world = worlds.current;
    const client = await world.joins();
    world.sleeps(8 * HOUR);
    world.answersPings = true;
    await world.pageSays(event);
    await world.passes(20 * SECOND);
    assert.equal(client.status.state, "online");
    assert.equal(world.sockets.length, 1);
  });

  test(`while it waits, ${event} dials at once, but a storm of them does not hammer`, async () => {
    const world = worlds.current;
    const client = await world.joins();
    Math.random = () => 0.999;
    for (let failures = 0; failures < 6; failures++) {
      await world.socket.closes(1006);
      await world.passes(30 * SECOND);
    }
    await world.socket.closes(1006);
    await world.passes(SECOND);
    let dialed = world.sockets.length;
    await world.pageSays(event);
    assert.equal(world.sockets.length, dialed + 1);
    for (let storm = 0; storm < 100; storm++) {
      await world.socket.closes(1006);
      await world.pageSays(event);
      await world.passes(10);
    }
    assert(world.sockets.length - dialed <= 4, `${world.sockets.length - dialed} in a second`);
    assert.equal(client.status.state, "offline");
  });
}

test("a hidden page is not probed", async () => {
  const world = worlds.current;
  await world.joins();
  world.page.visibilityState = "hidden";
  await world.pageSays("visibilitychange");
  assert.equal(world.socket.of("ping").length, 0);
});

test("timers throttled to one a minute do not kill a connection that answers", async () => {
  const world = worlds.current;
  const client = await world.joins();
  world.grain = MINUTE;
  for (let minutes = 0; minutes < 120; minutes++) {
    const asked = world.socket.of("ping").length;
    await world.passes(MINUTE);
    // Messages are not throttled: the answer is there long before the late deadline.
    if (world.socket.of("ping").length > asked) await world.socket.says({ type: "pong" });
  }
  assert.equal(client.status.state, "online");
  assert.equal(world.sockets.length, 1);
});

test("timers throttled to one a minute still notice a dead connection", async () => {
  const world = worlds.current;
  const client = await world.joins();
  world.grain = MINUTE;
  await world.passes(10 * MINUTE);
  assert.notEqual(client.status.state, "online");
});

test("a deadline that was asleep itself proves nothing: the answer may be waiting to be read", async () => {
  const world = worlds.current;
  const client = await world.joins();
  await world.passes(30 * SECOND); // a ping is out
  world.sleeps(HOUR);
  await world.passes(0); // the deadline goes off first
  assert.equal(client.status.state, "online");
  world.answersPings = true;
  await world.socket.says({ type: "pong" });
  await world.passes(20 * SECOND);
  assert.equal(client.status.state, "online");
});

test("a socket that was given up has no say any more", async () => {
  const world = worlds.current;
  let ran = 0;
  const client = await world.joins({ tools: [{ name: "a", execute: () => void ran++ }] });
  const old = world.socket;
  await world.pageSays("online");
  await world.passes(3 * SECOND);
  await world.accepts();
  assert.equal(world.sockets.length, 2);
  await old.closes(4409);
  await old.says({ type: "call", id: "x", method: "tools/call", params: { name: "a" } });
  assert.equal(client.status.state, "online");
  assert.equal(old.of("result").length, 0);
  assert.equal(ran, 0);
});

test("late deadlines count only in a row: each answer starts anew", async () => {
  const world = worlds.current;
  const client = await world.joins();
  for (let nights = 0; nights < 5; nights++) {
    world.answersPings = false;
    await world.passes(30 * SECOND); // a ping is out
    world.sleeps(8 * HOUR);
    world.answersPings = true;
    await world.passes(60 * SECOND);
    assert.equal(client.status.state, "online", `night ${nights}`);
  }
  assert.equal(world.sockets.length, 1);
});

test("a page that wakes renews a token that is near its end, at once", async () => {
  const world = worlds.current;
  const lives = [3600, 7200];
  await world.joins({ token: () => tokenFor(lives.shift()) });
  world.sleeps(3590 * SECOND);
  world.answersPings = true;
  await world.pageSays("resume");
  assert.equal(world.socket.of("auth").length, 1);
});

test("a browser that knows it has no network is not made to dial", async () => {
  const world = worlds.current;
  await world.joins();
  await world.socket.closes(1006);
  await world.passes(499);
  world.sleeps(2);
  const dialed = world.sockets.length;
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: { onLine: false }, configurable: true });
  try {
    await world.pageSays("offline");
    assert.equal(world.sockets.length, dialed);
  } finally {
    delete globalThis.navigator;
    if (before) Object.defineProperty(globalThis, "navigator", before);
  }
  await world.pageSays("online");
  assert.equal(world.sockets.length, dialed + 1);
});

test("a socket that fails without a close is a failure all the same", async () => {
  const world = worlds.current;
  const client = await world.dials();
  world.socket.onerror({});
  await world.passes(1000);
  assert.equal(client.status.state, "offline");
});

test("close() is the end of it: no timer, no dial, no word", async () => {
  const world = worlds.current;
  const client = await world.joins();
  client.close();
  assert.equal(world.socket.readyState, 2);
  assert.equal(client.status.state, "closed");
  await world.socket.closes(1000);
  client.reconnect();
  await world.pageSays("online");
  await world.passes(HOUR);
  assert.equal(world.sockets.length, 1);
  assert.equal(world.timers.size, 0);
  for (const name of ["pageshow", "online", "offline"]) {
    assert.deepEqual(getEventListeners(world.window, name), [], name);
  }
  assert.deepEqual(getEventListeners(world.page, "visibilitychange"), []);
  assert.deepEqual(states(client), ["connecting", "online", "closed"]);
});

test("close() while the token is awaited never dials", async () => {
  const world = worlds.current;
  let give;
  const client = await world.dials({ token: () => new Promise((resolve) => (give = resolve)) });
  client.close();
  give("a.b.c");
  await settled();
  assert.equal(world.sockets.length, 0);
});
