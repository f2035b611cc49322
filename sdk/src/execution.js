/**
 * One function of the application at work on a call, and the rounds of questions in between.
 *
 * Knows calls, their context (`ctx`) and which functions wait for an agent's answer; not the
 * socket: each call brings its way back. A function that awaits `ctx.elicit()` outlives its first
 * call: that one is answered with `input_required` (MCP 2026-07-28, Multi Round-Trip Requests), and
 * the function goes on when the agent calls again with the same `requestState`.
 */

import { SUSPENDED_MAX, SUSPENDED_TIME } from "./limits.js";

/** Marks the request states that are ours: a lost one is not taken for the application's. */
const STATE_PREFIX = "clientmcp-";

/**
 * Those that wait for an agent's answer, by request state, oldest first.
 * @typedef {Map<string, Execution>} Suspended
 */

/** A key nobody can guess: whoever has it goes on with the call. */
const newState = () =>
  STATE_PREFIX +
  [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");

/**
 * What a retry must repeat.
 * @param {any} call
 */
const identity = ({ method, params: { name, uri, arguments: args } }) =>
  JSON.stringify([method, name, uri, args]);

/**
 * Hands a call to the function that waits for it; `false` when it answers no question of ours.
 * @param {import("./link.js").Call} call
 * @param {Suspended} suspended
 */
export function resume(call, suspended) {
  const state = call.params.requestState;
  if (typeof state !== "string" || !state.startsWith(STATE_PREFIX)) return false;
  const execution = suspended.get(state);
  if (!execution || execution.identity !== identity(call)) {
    throw new Error("This question is not open any more. Call again without an answer.");
  }
  execution.resume(call);
  return true;
}

/** @param {any} capabilities @param {any} mode */
function canElicit(capabilities, mode) {
  const can = capabilities?.elicitation;
  return can && (mode === "url" ? can.url : can.form || !can.url);
}

/** One run of an application's function. */
export class Execution {
  /** @type {import("./link.js").Call} The one to answer: the agent's latest. */
  #call;
  /** @type {Suspended} */
  #suspended;
  #abort = new AbortController();
  /** @type {any[]} Questions asked and not sent yet. */
  #asked = [];
  /** @type {Map<string, any> | undefined} Questions sent, until their answers come. */
  #open;
  #questions = 0;
  #state = "";
  /** @type {any} */
  #timer;
  /** @type {(() => void) | undefined} Sends the answer of the function that ended. */
  #answer;

  /**
   * @param {import("./link.js").Call} call
   * @param {Suspended} suspended
   */
  constructor(call, suspended) {
    this.#suspended = suspended;
    this.identity = identity(call);
    this.#call = this.#take(call);
  }

  /** The call to answer from now on; its end is ours. @param {import("./link.js").Call} call */
  #take(call) {
    call.stop = (reason) => this.end(reason);
    return (this.#call = call);
  }

  /** The second argument of the application's function. */
  context() {
    const { agent, params } = this.#call;
    return {
      signal: this.#abort.signal,
      agent,
      inputResponses: params.inputResponses,
      requestState: params.requestState,
      /** @param {any} progress @param {number} [total] @param {string} [message] */
      progress: (progress, total, message) =>
        this.#notify(
          "progress",
          typeof progress === "object" ? progress : { progress, total, message },
        ),
      /** @param {any} level @param {any} [data] @param {string} [logger] */
      log: (level, data, logger) =>
        this.#notify(
          "message",
          data === undefined ? { level: "info", data: level } : { level, data, logger },
        ),
      /** @param {any} question @param {any} [requestedSchema] */
      elicit: (question, requestedSchema) =>
        this.#elicit(
          typeof question === "string" ? { message: question, requestedSchema } : question,
        ),
    };
  }

  /** @param {string} name @param {any} params */
  #notify(name, params) {
    if (!this.#open && !this.#abort.signal.aborted) {
      this.#call.notify("notifications/" + name, params);
    }
  }

  /** @param {any} params @returns {Promise<any>} */
  #elicit(params) {
    return new Promise((resolve, reject) => {
      const { method, agent } = this.#call;
      this.#abort.signal.throwIfAborted();
      if (method === "completion/complete") throw new Error("A completion cannot ask back.");
      if (!canElicit(agent?.capabilities, params.mode)) {
        throw new Error("This agent cannot ask its person for input.");
      }
      if (params.mode !== "url") {
        params = {
          mode: "form",
          ...params,
          requestedSchema: params.requestedSchema ?? { type: "object", properties: {} },
        };
      }
      this.#asked.push({ params, resolve, reject });
      // Questions asked together make one round; those asked during one, the next.
      queueMicrotask(() => this.#ask());
    });
  }

  #ask() {
    if (this.#open || !this.#asked.length || this.#abort.signal.aborted) return;
    this.#open = new Map();
    for (const question of this.#asked.splice(0)) {
      this.#open.set("q" + ++this.#questions, question);
    }
    this.#state = newState();
    this.#suspended.set(this.#state, this);
    if (this.#suspended.size > SUSPENDED_MAX) {
      this.#suspended.values().next().value?.end("too many questions are open");
    }
    this.#timer = setTimeout(() => this.end("nobody answered in time"), SUSPENDED_TIME);
    /** @type {Record<string, any>} */
    const inputRequests = {};
    for (const [key, { params }] of this.#open) {
      inputRequests[key] = { method: "elicitation/create", params };
    }
    this.#call.result({ resultType: "input_required", inputRequests, requestState: this.#state });
  }

  /** @param {import("./link.js").Call} call */
  resume(call) {
    this.#settle();
    this.#take(call);
    const open = this.#open ?? new Map();
    this.#open = undefined;
    if (this.#answer) return this.#answer();
    for (const [key, question] of open) {
      const answer = call.params.inputResponses?.[key];
      if (typeof answer?.action === "string") question.resolve(answer);
      // MCP 2026-07-28, MRTR, Error Handling: what is missing is asked again.
      else this.#asked.push(question);
    }
    queueMicrotask(() => this.#ask());
  }

  /** Stops waiting: a state is good once. */
  #settle() {
    this.#suspended.delete(this.#state);
    clearTimeout(this.#timer);
  }

  /** Nobody waits for this any more. @param {string} reason */
  end(reason) {
    this.#settle();
    const error = new DOMException(reason, "AbortError");
    this.#abort.abort(error);
    for (const { reject } of [...this.#asked, ...(this.#open?.values() ?? [])]) reject(error);
  }

  /**
   * Runs the function to its end and answers the call that is there by then.
   * @param {() => any} work makes a finished result
   */
  async run(work) {
    try {
      const result = await work();
      this.#answer = () => this.#call.result(result);
    } catch (error) {
      this.#answer = () => this.#call.fail(error);
    }
    // Nothing is sent for a call that has ended. It may have raced its question against something
    // else: then the agent's next call is answered, the one before was with the question.
    this.#answer();
  }
}
