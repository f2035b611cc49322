/**
 * Types of the SDK: what an application may say to `connect`, and what it hears back.
 *
 * Written by hand. `src/` is checked against them, so they cannot promise what is not there.
 */

/** Joins a bridge, and stays joined until `close()`. Throws at once on a URL that is none. */
export function connect(options: ConnectOptions): Client;

export interface ConnectOptions {
  /** Where the bridge is: `wss://bridge.example`, with `/connect` or without; `https:` too. */
  url: string;
  /**
   * A client token, or a function that gets a fresh one. With a function the connection outlives
   * the token: it is asked at each dial, and again before the token's `exp`. Each time it has
   * 2 minutes.
   */
  token: string | (() => string | Promise<string>);
  /** Who this is to agents; the client ID when absent. */
  server?: Implementation;
  /** For agents, on how to use what is offered. */
  instructions?: string;
  tools?: ToolDescriptor[];
  prompts?: PromptDescriptor[];
  resources?: ResourceDescriptor[];
  resourceTemplates?: ResourceTemplateDescriptor[];
  /** Completes an argument of a prompt or of a resource template. At most 100 values are sent. */
  complete?(
    request: CompletionRequest,
    context: CallContext,
  ): Forgiving<readonly string[] | CompletionResult>;
  /** Set it when `resourceUpdated` will be called: agents may then subscribe. */
  subscribe?: boolean;
  /** How long agents may keep a list, in milliseconds; 0 when absent. */
  ttlMs?: number;
  /** The constructor to use where there is no global one (Node before 22: that of `ws`). */
  WebSocket?: unknown;
}

export interface Client extends EventTarget {
  /** How it stands now. */
  readonly status: Status;
  /**
   * Offers a tool; the shape is that of W3C WebMCP. Returns what takes it back, as does the signal.
   * Throws when the name is taken.
   */
  registerTool<Input = any>(tool: ToolDescriptor<Input>, options?: RegisterOptions): () => void;
  /** Offers a prompt. */
  registerPrompt(prompt: PromptDescriptor, options?: RegisterOptions): () => void;
  /** Offers a resource, or with a `uriTemplate` a family of them. */
  registerResource(
    resource: ResourceDescriptor | ResourceTemplateDescriptor,
    options?: RegisterOptions,
  ): () => void;
  /** Tells the agents that subscribed to this URI. Nothing is sent while offline. */
  resourceUpdated(uri: string): void;
  /**
   * Offers the tools that the page registered with its browser (`document.modelContext`), and
   * follows its changes. Returns what stops it, as does the signal.
   */
  bridgeModelContext(modelContext: unknown, options?: BridgeOptions): () => void;
  /** Dials now: when a person asks for it after `replaced` or `refused`, or for not waiting. */
  reconnect(): void;
  /** Leaves for good. Running functions see their signal abort. */
  close(): void;

  addEventListener<K extends keyof ClientEvents>(
    type: K,
    listener: (event: ClientEvents[K]) => void,
    options?: boolean | { once?: boolean; signal?: AbortSignal },
  ): void;
  addEventListener(...all: Parameters<EventTarget["addEventListener"]>): void;
}

export interface ClientEvents {
  /** After each change of `status`; `detail` is the new one. */
  status: CustomEvent<Status>;
  /** The bridge left definitions out. They were written to `console.warn` too. */
  definitionsrefused: CustomEvent<RefusedDefinition[]>;
}

export type Status =
  /** Dialing, or waiting for the bridge to accept what is offered. */
  | { state: "connecting" }
  /** The bridge accepted the token and what is offered: agents can call. */
  | { state: "online"; clientId: string }
  /** Not there; it dials again by itself at `retryAt` (milliseconds since 1970). */
  | { state: "offline"; code?: number; reason: string; retryAt: number }
  /** A newer connection has this client ID, another tab perhaps. It stays away. */
  | { state: "replaced"; reason: string }
  /** The bridge said no in a way that would not change. It stays away. */
  | { state: "refused"; code: number; reason: string; path?: string }
  /** `close()` was called. */
  | { state: "closed" };

export interface RefusedDefinition {
  /** Where: `tools[2].name`. */
  path: string;
  /** Why. */
  message: string;
  /** The definition's name or URI, where it has one. */
  name?: string;
}

export interface RegisterOptions {
  /** Takes it back when aborted. */
  signal?: AbortSignal;
}

export interface BridgeOptions extends RegisterOptions {
  /** Which of the page's tools to offer; all when absent. */
  filter?(tool: PageTool): boolean;
}

export interface PageTool {
  name: string;
  title?: string;
  description?: string;
  inputSchema?: JsonSchema;
  annotations?: ToolAnnotations;
  origin?: string;
}

/** What a function may return: now, or later. */
export type Forgiving<T> = T | Promise<T>;

export type JsonSchema = { readonly [member: string]: unknown };

export interface Implementation {
  name: string;
  version: string;
  title?: string;
  [member: string]: unknown;
}

export interface ToolAnnotations {
  title?: string;
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
  untrustedContentHint?: boolean;
  [hint: string]: unknown;
}

export interface ToolDescriptor<Input = any> {
  name: string;
  title?: string;
  description?: string;
  /** Of an object; any object when absent. The input is not checked against it here. */
  inputSchema?: JsonSchema;
  outputSchema?: JsonSchema;
  annotations?: ToolAnnotations;
  /**
   * Does the work. A string, an object, content blocks, a `Blob` become a proper result, nothing an
   * empty one; what is thrown becomes a result that says so (`isError`). What is a result already
   * is left as it is.
   */
  execute(input: Input, context: CallContext): unknown;
  [member: string]: unknown;
}

export interface PromptDescriptor {
  name: string;
  title?: string;
  description?: string;
  arguments?: { name: string; title?: string; description?: string; required?: boolean }[];
  /** A string becomes one message of the user, an array the messages. */
  get(input: Record<string, string>, context: CallContext): unknown;
  [member: string]: unknown;
}

export interface ResourceDescriptor {
  uri: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
  /** A string becomes text, a `Blob` or bytes a blob, another value JSON. */
  read(uri: string, context: CallContext): unknown;
  [member: string]: unknown;
}

export interface ResourceTemplateDescriptor {
  /** RFC 6570, level 1: `{name}` stands for one part of a path. `{+name}` stands for any text. */
  uriTemplate: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
  /** As of a resource; the template's variables are in the context. */
  read(uri: string, context: CallContext & { variables: Record<string, string> }): unknown;
  [member: string]: unknown;
}

export interface CompletionRequest {
  ref: { type: "ref/prompt"; name: string } | { type: "ref/resource"; uri: string };
  argument: { name: string; value: string };
  context?: { arguments?: Record<string, string> };
}

export interface CompletionResult {
  completion: { values: string[]; total?: number; hasMore?: boolean };
}

export type LogLevel =
  | "debug"
  | "info"
  | "notice"
  | "warning"
  | "error"
  | "critical"
  | "alert"
  | "emergency";

/** What a function at work knows of its call, and may say meanwhile. */
export interface CallContext {
  /** Aborts when the agent gave the call up, or the connection was lost: nobody waits any more. */
  readonly signal: AbortSignal;
  /** Who calls. */
  readonly agent: {
    protocolVersion: string;
    clientInfo?: Implementation;
    capabilities?: Record<string, any>;
  };
  /** How far it is; `progress` must grow. Agents that did not ask for it get none. */
  progress(progress: number, total?: number, message?: string): void;
  progress(params: { progress: number; total?: number; message?: string }): void;
  /** A message for an agent that asked for this level. */
  log(level: LogLevel, data: unknown, logger?: string): void;
  /** At level `info`. */
  log(data: unknown): void;
  /**
   * Asks the person behind the agent, and waits: at most 5 minutes, in 64 functions at once.
   * Rejects when the agent cannot ask. The call ends with the question, and the function goes on
   * when the agent calls again with the answer: a page that reloads meanwhile has forgotten it. For
   * what must survive that, return an `input_required` result and see `inputResponses`.
   */
  elicit(message: string, requestedSchema?: JsonSchema): Promise<ElicitResult>;
  elicit(params: ElicitParams): Promise<ElicitResult>;
  /** The agent's answers to an `input_required` result that the function returned itself. */
  readonly inputResponses?: Record<string, any>;
  /** The state of that result. An agent may have changed it. */
  readonly requestState?: string;
}

export type ElicitParams =
  | { mode?: "form"; message: string; requestedSchema?: JsonSchema }
  | { mode: "url"; message: string; url: string; [member: string]: unknown };

export interface ElicitResult {
  action: "accept" | "decline" | "cancel";
  content?: Record<string, string | number | boolean | string[]>;
}
