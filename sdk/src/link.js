/**
 * One connection, from dialing to its end: the channel `clientmcp.v1` as SPEC §4 has it.
 *
 * Knows the socket, its silence, its token and the calls that came over it. It never dials twice:
 * when it is over it says so once, and `client` decides what follows. Nothing that a stale socket
 * still says has an effect.
 */

import { textBlock } from "./answers.js";
import * as limits from "./limits.js";

const PING = '{"type":"ping"}';
const OPEN = 1;

/**
 * A call as the application's side sees it.
 * @typedef {object} Call
 * @property {string} method
 * @property {any} params
 * @property {any} agent
 * @property {(method: string, params: any) => void} notify
 * @property {(result: any) => void} result ends it
 * @property {(error: any) => void} fail ends it
 * @property {(reason: string) => void} [stop] set by who works on it: nobody waits any more
 *
 * How a connection ended.
 * @typedef {{ code?: number, reason: string, path?: string }} End
 *
 * @typedef {object} Owner
 * @property {string} url
 * @property {string | (() => string | Promise<string>)} token
 * @property {any} WebSocket
 * @property {() => string} offer the register message of the moment
 * @property {(message: any) => void} joined the first register was accepted
 * @property {(refused: any[]) => void} refused definitions that were left out
 * @property {(call: Call) => void} call
 * @property {(end: End) => void} gone
 */

/** @param {string} text @param {number} max */
function bytesOver(text, max) {
  // No UTF-16 unit takes more than three bytes: most texts need no counting.
  const bytes = text.length * 3 > max ? new TextEncoder().encode(text).length : 0;
  return bytes > max ? bytes : 0;
}

/**
 * When a token must be renewed, in milliseconds since 1970; never, when it does not say.
 * @param {string} token
 */
function renewalOf(token) {
  try {
    const claims = JSON.parse(
      atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/")),
    );
    const now = Date.now();
    let expiry = claims.exp * 1000;
    // A clock here that is behind must not make a fresh token look younger than it can be.
    if (claims.iat) expiry = Math.min(expiry, now + (claims.exp - claims.iat) * 1000);
    const lead = (expiry - now) / 5;
    return (
      expiry - Math.max(limits.RENEW_LEAD_MIN, Math.min(limits.RENEW_LEAD_MAX, lead)) || Infinity
    );
  } catch {
    return Infinity;
  }
}

/** @param {any} error */
const wordsOf = (error) => error?.message || String(error);

export class Link {
  dialedAt = Date.now();
  /** @type {number | undefined} */
  joinedAt;
  isOver = false;
  #messageBytesMax = limits.MESSAGE_BYTES_MAX;
  #pingInterval = limits.PING_INTERVAL;
  /** The register that was sent last, and whether it is not answered yet. */
  #registered = "";
  #isRegistering = false;
  #isRenewing = false;
  #renewAt = Infinity;
  /** When the connection ends unless something is heard; never, while nothing was asked. */
  #due = Infinity;
  /** How many deadlines in a row were late themselves. */
  #late = 0;
  /** @type {any} */
  #deadline;
  /** @type {any} */
  #ticker;
  /** @type {any} */
  #socket;
  /** @type {any} What the bridge said before it closed. */
  #fault;
  /** @type {Map<string, Call>} Calls not ended. */
  #running = new Map();

  /** @type {Owner} */
  #owner;

  /** @param {Owner} owner */
  constructor(owner) {
    this.#owner = owner;
    this.#setDeadline(limits.TOKEN_DEADLINE, "no token came in time");
    this.#freshToken().then(
      (token) => this.#open(token),
      (error) => this.end({ reason: "no token: " + wordsOf(error) }),
    );
  }

  async #freshToken() {
    const { token } = this.#owner;
    return String(typeof token === "function" ? await token() : token).trim();
  }

  /** @param {number} time @param {string} reason */
  #setDeadline(time, reason) {
    clearTimeout(this.#deadline);
    this.#due = Date.now() + time;
    this.#deadline = setTimeout(() => this.end({ reason }), time);
  }

  /** @param {string} token */
  #open(token) {
    if (this.isOver) return;
    this.#renewAt = renewalOf(token);
    this.#setDeadline(limits.JOIN_DEADLINE, "the bridge did not answer in time");
    const { WebSocket, url } = this.#owner;
    let socket;
    try {
      socket = new WebSocket(url, ["clientmcp.v1", "clientmcp.bearer." + token]);
    } catch (error) {
      return this.end({ reason: wordsOf(error) });
    }
    this.#socket = socket;
    socket.onopen = () => this.register();
    socket.onmessage = (/** @type {any} */ { data }) => {
      if (!this.isOver) this.#hear(data);
    };
    socket.onclose = (/** @type {any} */ { code, reason }) => {
      const { message, path } = this.#fault ?? {};
      this.end({ code, reason: message || reason || "connection lost", path });
    };
    // A close follows, in the implementations that follow the standard.
    socket.onerror = () =>
      setTimeout(() => this.end({ code: 1006, reason: "connection failed" }), limits.LATE);
  }

  /** Sends a text, unless it is over the limit: then it says how long. @param {string} text */
  send(text) {
    const bytes = bytesOver(text, this.#messageBytesMax);
    if (!bytes && !this.isOver && this.#socket?.readyState === OPEN) this.#socket.send(text);
    return bytes;
  }

  /** Sends the register of the moment, unless it is there already or another is under way. */
  register() {
    if (this.isOver || this.#isRegistering || this.#socket?.readyState !== OPEN) return;
    const text = this.#owner.offer();
    if (text === this.#registered) return;
    this.#registered = text;
    const bytes = this.send(text);
    if (!bytes) this.#isRegistering = true;
    else {
      const reason = `the register has ${bytes} bytes, the bridge takes ${this.#messageBytesMax}`;
      if (this.joinedAt) console.warn("clientmcp: " + reason);
      else this.end({ code: 1009, reason });
    }
  }

  /** Any message is a sign of life; before it joined, only `registered` is. */
  #isHeard() {
    if (!this.joinedAt) return;
    clearTimeout(this.#deadline);
    this.#due = Infinity;
    this.#late = 0;
  }

  /** @param {any} data */
  #hear(data) {
    this.#isHeard();
    let message;
    try {
      message = JSON.parse(data) ?? {};
    } catch {
      return;
    }
    if (message.type === "registered") this.#isRegisteredBy(message);
    else if (message.type === "call") this.#begin(message);
    else if (message.type === "fault") this.#fault = message;
    else if (message.type === "cancel") {
      const call = this.#running.get(message.id);
      this.#running.delete(message.id);
      call?.stop?.(message.reason || "cancelled");
    }
  }

  /** @param {any} message */
  #isRegisteredBy(message) {
    const { maxMessageBytes, pingIntervalMs, refused } = message;
    this.#isRegistering = false;
    if (maxMessageBytes >= limits.MESSAGE_BYTES_MIN) this.#messageBytesMax = maxMessageBytes;
    if (pingIntervalMs >= limits.LATE) {
      this.#pingInterval = Math.min(pingIntervalMs, limits.TIMER_MAX);
    }
    if (!this.joinedAt) {
      this.joinedAt = Date.now();
      this.#isHeard();
      this.#keepAlive();
      this.#owner.joined(message);
    }
    if (refused?.length) {
      const sent = JSON.parse(this.#registered);
      this.#owner.refused(
        refused.map((/** @type {any} */ { path, message }) => {
          const [, list, index] = /^(\w+)\[(\d+)/.exec(path) ?? [];
          const definition = sent[list]?.[index];
          const name = definition?.name ?? definition?.uri ?? definition?.uriTemplate;
          return { path, message, name };
        }),
      );
    }
    // What changed meanwhile goes in one.
    this.register();
  }

  #keepAlive() {
    this.#ticker = setTimeout(() => {
      this.#keepAlive();
      this.probe(limits.PING_DEADLINE);
      this.renew();
    }, this.#pingInterval);
  }

  /**
   * Asks for a sign of life; ends the connection when none comes in time.
   * @param {number} time
   */
  probe(time) {
    const now = Date.now();
    // Asleep or throttled, a deadline is late, and an answer may be waiting to be read: that proves
    // no silence. Only several in a row do.
    if (now >= this.#due && ++this.#late > limits.LATE_DEADLINES_MAX) return this.#isSilent();
    this.send(PING);
    // A question that is to be answered sooner stands.
    if (now < this.#due && this.#due <= now + time) return;
    clearTimeout(this.#deadline);
    this.#due = now + time;
    this.#deadline = setTimeout(() => {
      if (Date.now() - this.#due > limits.LATE) this.probe(time);
      else this.#isSilent();
    }, time);
  }

  #isSilent() {
    this.end({ reason: "the bridge does not answer" });
  }

  /** Shows the bridge a fresh token when the one it knows is near its end. */
  async renew() {
    if (
      typeof this.#owner.token !== "function" || this.#isRenewing || Date.now() < this.#renewAt
    ) return;
    this.#isRenewing = true;
    try {
      const token = await this.#freshToken();
      this.#renewAt = renewalOf(token);
      this.send(JSON.stringify({ type: "auth", token }));
    } catch (error) {
      console.warn("clientmcp: no fresh token: " + wordsOf(error));
    }
    this.#isRenewing = false;
  }

  /** @param {any} message */
  #begin({ id, method, params, agent }) {
    /** @param {any} message @param {string} name */
    const finish = (message, name) => {
      if (!this.#running.has(id)) return;
      const bytes = this.send(JSON.stringify({ type: name, id, [name]: message }));
      if (bytes) {
        const max = this.#messageBytesMax;
        call.fail(`The result has ${bytes} bytes, and at most ${max} can be sent.`);
      }
      this.#running.delete(id);
    };
    /** @type {Call} */
    const call = {
      method,
      params,
      agent,
      notify: (method, params) => {
        if (!this.#running.has(id)) return;
        if (this.send(JSON.stringify({ type: "notify", id, method, params }))) {
          console.warn(`clientmcp: ${method} is too large to send`);
        }
      },
      result: (result) => {
        try {
          finish(result, "result");
        } catch (error) {
          call.fail(error); // It has no JSON: a circle, a BigInt.
        }
      },
      fail: (error) => {
        const message = wordsOf(error);
        const code = error?.code <= -32000 ? error.code : -32603;
        if (method === "tools/call" && code !== error?.code) {
          finish({ content: [textBlock(message)], isError: true }, "result");
        } else finish({ code, message, data: error?.data }, "error");
      },
    };
    // Known before its function begins: that may end at once.
    this.#running.set(id, call);
    this.#owner.call(call);
  }

  /** @param {End} end */
  end(end) {
    if (this.isOver) return;
    this.isOver = true;
    clearTimeout(this.#deadline);
    clearTimeout(this.#ticker);
    try {
      this.#socket?.close();
    } catch {
      // It was closed, or never opened.
    }
    const running = this.#running;
    this.#running = new Map();
    for (const call of running.values()) call.stop?.(end.reason);
    this.#owner.gone(end);
  }
}
