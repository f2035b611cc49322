/**
 * The application's side of a bridge: what it offers, how it stands, when it dials.
 *
 * Knows definitions, status and the back-off; one connection at a time is `link`, one function at
 * work is `execution`, and what functions return is made right in `answers`.
 */

import * as answers from "./answers.js";
import { Execution, resume } from "./execution.js";
import { BACKOFF_MAX, BACKOFF_MIN, STEADY, WAKE_DEADLINE } from "./limits.js";
import { Link } from "./link.js";
import { bridgeModelContext } from "./model-context.js";

/** SPEC §4.6: these say that coming back would end the same way. */
const FINAL = [1009, 4400, 4403];
const REPLACED = 4409;
const TOKEN_REFUSED = 4401;

/** Kinds of definitions, and what makes one unique. */
const KEYS = /** @type {const} */ ({
  tools: "name",
  prompts: "name",
  resources: "uri",
  resourceTemplates: "uriTemplate",
});

/** @param {number} code @param {string} message */
const rpcError = (code, message) => Object.assign(new Error(message), { code });

/** @param {string} text */
function channelUrl(text) {
  const url = new URL(text, globalThis.location?.href);
  url.protocol = url.protocol.replace(/^http/, "ws");
  if (!/^wss?:$/.test(url.protocol)) throw new TypeError(`${text} is no ws: or http: URL`);
  if (url.pathname === "/") url.pathname = "/connect";
  url.hash = ""; // WebSocket refuses one.
  return url.href;
}

/**
 * The variables of a URI that a template fits (RFC 6570, level 1, and `{+all}`).
 * @param {string} template @param {string} uri
 */
function matchTemplate(template, uri) {
  /** @type {string[]} */
  const names = [];
  const pattern = template.replace(/\{(\W?)([^}]*)\}|[^{]/g, (part, operator, name) => {
    if (name === undefined) return part.replace(/[\\^$.*+?()[\]|]/, "\\$&");
    names.push(name);
    return operator ? "(.*)" : "([^/?#]+)";
  });
  const found = new RegExp(`^${pattern}$`).exec(uri);
  return (
    found &&
    Object.fromEntries(names.map((name, at) => [name, decodeURIComponent(found[at + 1])]))
  );
}

export class Client extends EventTarget {
  /** @type {any} */
  #options;
  /** @type {any} */
  #status = { state: "connecting" };
  /** @type {Record<keyof typeof KEYS, Map<string, { text: string, own: any }> | undefined>} */
  #offer = {
    tools: new Map(),
    prompts: undefined,
    resources: undefined,
    resourceTemplates: undefined,
  };
  #isChanging = false;
  /** @type {Link} */
  #link;
  #attempts = 0;
  /** @type {any} */
  #retry;
  /** @type {import("./execution.js").Suspended} */
  #suspended = new Map();
  #closing = new AbortController();

  /** @param {any} options */
  constructor(options) {
    super();
    const WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (!WebSocket) throw new TypeError("no global WebSocket here: give one, { WebSocket }");
    this.#options = { ...options, WebSocket, url: channelUrl(options.url) };
    for (const kind of /** @type {(keyof typeof KEYS)[]} */ (Object.keys(KEYS))) {
      for (const definition of options[kind] ?? []) this.#add(kind, definition);
      if (options[kind]) this.#offer[kind] ??= new Map();
    }
    const { signal } = this.#closing;
    const wake = () => this.#wake();
    const page = globalThis.document;
    for (const name of ["visibilitychange", "resume"]) {
      page?.addEventListener(name, wake, { signal });
    }
    for (const name of ["pageshow", "online", "offline"]) {
      globalThis.addEventListener?.(name, wake, { signal });
    }
    this.#link = this.#dial();
  }

  get status() {
    return this.#status;
  }

  /** @param {any} descriptor @param {{ signal?: AbortSignal }} [options] */
  registerTool(descriptor, options) {
    if (typeof descriptor.execute !== "function") throw new TypeError("execute is no function");
    return this.#add("tools", descriptor, options);
  }

  /** @param {any} descriptor @param {{ signal?: AbortSignal }} [options] */
  registerPrompt(descriptor, options) {
    return this.#add("prompts", descriptor, options);
  }

  /** @param {any} descriptor @param {{ signal?: AbortSignal }} [options] */
  registerResource(descriptor, options) {
    return this.#add("uri" in descriptor ? "resources" : "resourceTemplates", descriptor, options);
  }

  /** @param {string} uri */
  resourceUpdated(uri) {
    const method = "notifications/resources/updated";
    this.#link.send(JSON.stringify({ type: "notify", method, params: { uri } }));
  }

  /** @param {any} modelContext @param {any} [options] */
  bridgeModelContext(modelContext, options) {
    return bridgeModelContext(this, modelContext, options);
  }

  reconnect() {
    if (this.#status.state !== "closed" && this.#link.isOver) this.#dial();
  }

  close() {
    if (this.#status.state === "closed") return;
    clearTimeout(this.#retry);
    this.#closing.abort();
    this.#setStatus({ state: "closed" });
    this.#link.end({ reason: "closed by the application" });
    for (const execution of this.#suspended.values()) execution.end("closed by the application");
  }

  /** @param {any} status */
  #setStatus(status) {
    this.#status = status;
    this.dispatchEvent(new CustomEvent("status", { detail: status }));
  }

  #dial() {
    clearTimeout(this.#retry);
    if (this.#status.state !== "connecting") this.#setStatus({ state: "connecting" });
    const { url, token, WebSocket } = this.#options;
    this.#link = new Link({
      url,
      token,
      WebSocket,
      offer: () => this.#register(),
      joined: ({ clientId }) => this.#setStatus({ state: "online", clientId }),
      refused: (detail) => {
        for (const { path, message, name } of detail) {
          console.warn(`clientmcp: ${name ?? path} is not offered: ${path}: ${message}`);
        }
        this.dispatchEvent(new CustomEvent("definitionsrefused", { detail }));
      },
      call: (call) => this.#begin(call),
      gone: (end) => this.#gone(end),
    });
    return this.#link;
  }

  /** @param {import("./link.js").End} end */
  #gone({ code, reason, path }) {
    if (this.#status.state === "closed") return;
    if (code === REPLACED) return this.#setStatus({ state: "replaced", reason });
    const isFinal =
      code === TOKEN_REFUSED
        ? typeof this.#options.token !== "function"
        : FINAL.includes(code ?? 0);
    if (isFinal) return this.#setStatus({ state: "refused", code, reason, path });
    const { joinedAt } = this.#link;
    if (joinedAt && Date.now() - joinedAt >= STEADY) this.#attempts = 0;
    // Full jitter: a bridge that restarts does not get everybody at once.
    const most = Math.min(BACKOFF_MAX, BACKOFF_MIN * 2 ** ++this.#attempts);
    const wait = BACKOFF_MIN + Math.random() * (most - BACKOFF_MIN);
    this.#retry = setTimeout(() => this.#dial(), wait);
    this.#setStatus({ state: "offline", code, reason, retryAt: Date.now() + wait });
  }

  /** Something says that the network or the page is back, or gone: timers are not to be trusted. */
  #wake() {
    if (globalThis.document?.visibilityState === "hidden") return;
    const link = this.#link;
    if (this.#status.state === "online") {
      link.probe(WAKE_DEADLINE);
      link.renew();
    } else if (
      this.#status.state === "offline" &&
      globalThis.navigator?.onLine !== false &&
      Date.now() - link.dialedAt >= BACKOFF_MIN
    ) this.#dial();
  }

  /**
   * @param {keyof typeof KEYS} kind
   * @param {any} definition
   * @param {{ signal?: AbortSignal }} [options]
   */
  #add(kind, definition, { signal } = {}) {
    const key = definition[KEYS[kind]];
    const list = (this.#offer[kind] ??= new Map());
    if (list.has(key)) throw new TypeError(`${kind} has ${JSON.stringify(key)} already`);
    if (signal?.aborted) return () => {};
    const inputSchema =
      definition.inputSchema ?? (kind === "tools" ? { type: "object" } : undefined);
    // Its functions have no JSON. What is changed in it later has no effect.
    const entry = { text: JSON.stringify({ ...definition, inputSchema }), own: definition };
    list.set(key, entry);
    this.#change();
    const remove = () => {
      if (list.get(key) !== entry) return;
      list.delete(key);
      this.#change();
    };
    signal?.addEventListener("abort", remove, { once: true });
    return remove;
  }

  /** Everything that changes in one go is registered in one. */
  #change() {
    if (this.#isChanging) return;
    this.#isChanging = true;
    queueMicrotask(() => {
      this.#isChanging = false;
      this.#link.register();
    });
  }

  #register() {
    const { server, instructions, ttlMs, subscribe, complete } = this.#options;
    const completions = complete && true;
    const rest = { type: "register", server, instructions, completions, subscribe, ttlMs };
    let text = JSON.stringify(rest).slice(0, -1);
    for (const [kind, list] of Object.entries(this.#offer)) {
      if (list) text += `,"${kind}":[${[...list.values()].map(({ text }) => text)}]`;
    }
    return text + "}";
  }

  /** @param {import("./link.js").Call} call */
  #begin(call) {
    try {
      if (resume(call, this.#suspended)) return;
      const execution = new Execution(call, this.#suspended);
      execution.run(this.#work(call, execution.context()));
    } catch (error) {
      call.fail(error);
    }
  }

  /** What to do for a call. @param {import("./link.js").Call} call @param {any} context */
  #work({ method, params }, context) {
    const input = params.arguments ?? {};
    const { tools, prompts, resources, resourceTemplates } = this.#offer;
    const { complete } = this.#options;
    if (method === "tools/call") {
      const tool = tools?.get(params.name)?.own;
      if (!tool) throw rpcError(-32602, "Unknown tool: " + params.name);
      return async () => answers.toolResult(await tool.execute(input, context), tool);
    }
    if (method === "prompts/get") {
      const prompt = prompts?.get(params.name)?.own;
      if (!prompt) throw rpcError(-32602, "Unknown prompt: " + params.name);
      return async () => answers.promptResult(await prompt.get(input, context));
    }
    if (method === "resources/read") {
      const { uri } = params;
      let resource = resources?.get(uri)?.own;
      for (const [template, { own }] of resourceTemplates ?? []) {
        if (resource) break;
        context.variables = matchTemplate(template, uri);
        if (context.variables) resource = own;
      }
      if (!resource) throw rpcError(-32602, "Unknown resource: " + uri);
      return async () => answers.resourceResult(await resource.read(uri, context), resource, uri);
    }
    if (method === "completion/complete" && complete) {
      return async () => answers.completionResult(await complete(params, context));
    }
    throw rpcError(-32601, method + " is not served");
  }
}
