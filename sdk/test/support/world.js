/**
 * A pretend world for the SDK: a clock that is moved by hand, sockets that a test holds the other
 * end of, a page that can be hidden and woken.
 *
 * It stands in for the globals that the SDK uses, in this process; each test file has its own.
 */

import assert from "node:assert/strict";
import { afterEach, beforeEach } from "node:test";
import { connect } from "../../src/index.js";

const real = { setImmediate, setTimeout, clearTimeout, now: Date.now, random: Math.random };
const START = Date.UTC(2026, 10, 30, 12);

/** Lets everything happen that needs no time. */
export const settled = async () => {
  for (let turn = 0; turn < 3; turn++) await new Promise((next) => real.setImmediate(next));
};

export class World {
  now = START;
  timers = new Map();
  nextTimer = 1;
  /** Background tabs: timers go off at multiples of this only, in ms. */
  grain = 1;
  sockets = [];
  /** Whether the bridge answers pings by itself. */
  answersPings = false;
  warnings = [];
  clients = [];

  install() {
    this.page = new EventTarget();
    this.page.visibilityState = "visible";
    this.window = new EventTarget();
    globalThis.setTimeout = (run, delay = 0, ...args) => {
      assert(delay <= 2 ** 31 - 1, `a timer of ${delay} ms goes off at once`);
      const due = Math.ceil((this.now + delay) / this.grain) * this.grain;
      this.timers.set(this.nextTimer, { due, run: () => run(...args) });
      return this.nextTimer++;
    };
    globalThis.clearTimeout = (id) => void this.timers.delete(id);
    Date.now = () => this.now;
    globalThis.document = this.page;
    globalThis.addEventListener = (...args) => this.window.addEventListener(...args);
    const world = this;
    globalThis.WebSocket = class extends FakeSocket {
      constructor(...args) {
        super(...args);
        this.at = world.now;
        this.world = world;
        world.sockets.push(this);
      }
    };
    this.warn = console.warn;
    console.warn = (...words) => this.warnings.push(words.join(" "));
  }

  remove() {
    for (const client of this.clients) client.close();
    globalThis.setTimeout = real.setTimeout;
    globalThis.clearTimeout = real.clearTimeout;
    Date.now = real.now;
    Math.random = real.random;
    console.warn = this.warn;
    delete globalThis.document;
    delete globalThis.addEventListener;
  }

  /** The newest socket. */
  get socket() {
    return this.sockets.at(-1);
  }

  /** Time passes: each timer goes off when it is due, and what follows from it happens. */
  async passes(ms) {
    const end = this.now + ms;
    for (;;) {
      const next = [...this.timers].sort(([, a], [, b]) => a.due - b.due)[0];
      if (!next || next[1].due > end) break;
      this.timers.delete(next[0]);
      this.now = Math.max(this.now, next[1].due);
      next[1].run();
      await settled();
    }
    this.now = end;
    await settled();
  }

  /** The machine sleeps: time passes, and nothing goes off until it wakes. */
  sleeps(ms) {
    this.now += ms;
  }

  async pageSays(type) {
    (type === "visibilitychange" || type === "resume" ? this.page : this.window).dispatchEvent(
      new Event(type),
    );
    await settled();
  }

  /** A client that is dialing. */
  async dials(options = {}) {
    const client = connect({ url: "wss://bridge.test", token: "a.b.c", ...options });
    this.clients.push(client);
    client.seen = [client.status];
    client.addEventListener("status", ({ detail }) => client.seen.push(detail));
    await settled();
    return client;
  }

  /** A client whose first register was accepted. */
  async joins(options = {}, registered = {}) {
    const client = await this.dials(options);
    await this.accepts(registered);
    assert.equal(client.status.state, "online");
    return client;
  }

  /** The bridge completes the handshake of the newest socket and accepts its register. */
  async accepts(registered = {}) {
    await this.socket.opens();
    await this.socket.registered(registered);
  }
}

class FakeSocket {
  readyState = 0;
  /** Every message sent, parsed. */
  sent = [];
  /** Those that the test did not look at yet. */
  unread = [];

  constructor(url, protocols) {
    this.url = url;
    this.protocols = protocols;
  }

  send(text) {
    assert.equal(typeof text, "string");
    assert.equal(this.readyState, 1, "sent while not open");
    const message = JSON.parse(text);
    this.texts = [...(this.texts ?? []), text];
    this.sent.push(message);
    this.unread.push(message);
    if (message.type === "ping" && this.world.answersPings) {
      queueMicrotask(() => this.onmessage({ data: '{"type":"pong"}' }));
    }
  }

  close() {
    if (this.readyState < 2) this.readyState = 2;
  }

  async opens() {
    this.readyState = 1;
    this.onopen?.({});
    await settled();
  }

  async says(message) {
    this.onmessage?.({ data: typeof message === "string" ? message : JSON.stringify(message) });
    await settled();
  }

  registered(more = {}) {
    return this.says({
      type: "registered",
      clientId: "kitchen",
      maxMessageBytes: 4194304,
      pingIntervalMs: 30000,
      refused: [],
      ...more,
    });
  }

  /** Calls, and returns the answer if it is there already. */
  async calls(id, name, input, more = {}) {
    const { agent = { protocolVersion: "2026-07-28" }, ...params } = more;
    await this.says({
      type: "call",
      id,
      method: "tools/call",
      params: { name, arguments: input, ...params },
      agent,
    });
    return this.answer(id);
  }

  /** The result or error of a call, if it was sent. */
  answer(id) {
    const answers = this.sent.filter(({ type, id: of }) => of === id && type !== "notify");
    assert(answers.length <= 1, "answered twice");
    return answers[0]?.result ?? answers[0]?.error;
  }

  of(type) {
    return this.sent.filter((message) => message.type === type);
  }

  async closes(code, reason = "") {
    this.readyState = 3;
    this.onclose?.({ code, reason });
    await settled();
  }
}

/** A world for each test of the file. @returns {{ current: World }} */
export function eachInAWorld() {
  const holder = { current: /** @type {any} */ (undefined) };
  beforeEach(() => {
    holder.current = new World();
    holder.current.install();
  });
  afterEach(() => holder.current.remove());
  return holder;
}

/** A token that nobody checks, with these claims. */
export const tokenWith = (claims) =>
  ["{}", JSON.stringify(claims), "signature"]
    .map((part) => Buffer.from(part).toString("base64url"))
    .join(".");

/** A token good for so many seconds from now. */
export const tokenFor = (seconds) =>
  tokenWith({ sub: "kitchen", exp: Math.floor(Date.now() / 1000) + seconds });
