/**
 * Offers the tools that a page registered with its browser (W3C WebMCP, `document.modelContext`).
 *
 * Knows the consumer's half of that interface: `getTools`, `executeTool`, `toolchange`. Browsers
 * differ in whether a tool's input and schema are objects or JSON texts; both are served.
 */

/**
 * An object for browsers that take an object; one that turns into its JSON for those that take a
 * string (Chrome before 155). Trying one after the other could run a tool twice.
 * @param {any} input
 */
const asEither = (input) =>
  Object.defineProperty({ ...input }, "toString", { value: () => JSON.stringify(input) });

/** @param {any} value */
function parsed(value) {
  try {
    return typeof value === "string" ? JSON.parse(value) : value;
  } catch {
    return value;
  }
}

/**
 * @param {import("./client.js").Client} client
 * @param {any} modelContext
 * @param {{ filter?: (tool: any) => boolean, signal?: AbortSignal }} [options]
 * @returns {() => void} stops offering them
 */
export function bridgeModelContext(client, modelContext, { filter, signal } = {}) {
  if (!modelContext?.getTools || !modelContext.executeTool) {
    console.warn("clientmcp: this modelContext cannot list or run its tools");
    return () => {};
  }
  /** @type {Map<string, () => void>} What we offer, by its definition's JSON. */
  let offered = new Map();
  let isStopped = false;
  let latest = 0;

  const follow = async () => {
    const turn = ++latest;
    const found = await modelContext.getTools();
    // An older list may come later.
    if (isStopped || turn !== latest) return;
    /** @type {Map<string, () => void>} */
    const kept = new Map();
    const added = [];
    for (const tool of found) {
      const { name, title, description, annotations } = tool;
      const inputSchema = parsed(tool.inputSchema || undefined);
      const definition = { name, title, description, inputSchema, annotations };
      if (filter && !filter({ ...definition, origin: tool.origin })) continue;
      const key = JSON.stringify(definition);
      const remove = offered.get(key);
      if (remove) {
        // The browser's handle may be another one now.
        handles.set(key, tool);
        kept.set(key, remove);
      } else added.push({ key, tool, definition });
    }
    for (const [key, remove] of offered) if (!kept.has(key)) remove();
    for (const { key, tool, definition } of added) {
      handles.set(key, tool);
      const execute = async (/** @type {any} */ input, /** @type {any} */ { signal }) =>
        parsed(await modelContext.executeTool(handles.get(key), asEither(input), { signal }));
      try {
        kept.set(key, client.registerTool({ ...definition, execute }));
      } catch (error) {
        console.warn(`clientmcp: ${/** @type {any} */ (error).message}`);
      }
    }
    offered = kept;
  };
  /** @type {Map<string, any>} */
  const handles = new Map();
  const changed = () => {
    follow().catch((error) => console.warn("clientmcp: no list of the page's tools:", error));
  };

  const stop = () => {
    isStopped = true;
    modelContext.removeEventListener?.("toolchange", changed);
    for (const remove of offered.values()) remove();
    offered.clear();
  };
  if (signal?.aborted) return () => {};
  signal?.addEventListener("abort", stop, { once: true });
  modelContext.addEventListener?.("toolchange", changed);
  changed();
  return stop;
}
