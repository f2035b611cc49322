/**
 * A real bridge, seen from both its sides: tokens, and an agent of the 2026 era.
 *
 * Knows the bridge by its address and secret alone, and nothing of the SDK.
 */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";

/** Where the bridge is; undefined when the tests were started without one. */
export const BRIDGE = process.env.CLIENTMCP_TEST_URL;
const SECRET = process.env.CLIENTMCP_TEST_SECRET;
const VERSION = "2026-07-28";
export const META = "io.modelcontextprotocol/";

const base64 = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A token of this client ID and scope, good for so many seconds. */
export function token(sub, scope, life = 3600) {
  const exp = Math.floor(Date.now() / 1000) + life;
  const signed = `${base64({ alg: "HS256" })}.${base64({ sub, scope, exp })}`;
  return `${signed}.${createHmac("sha256", SECRET).update(signed).digest("base64url")}`;
}

/** An agent's call of a tool, in the 2026 era: the JSON-RPC messages of the answer. */
export async function calls(sub, name, args, more = {}) {
  const { signal, capabilities = {}, meta = {}, method = "tools/call", ...params } = more;
  const response = await fetch(`${BRIDGE}/mcp`, {
    method: "POST",
    signal,
    headers: {
      Authorization: `Bearer ${token(sub, "agent")}`,
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": VERSION,
      "Mcp-Method": method,
      ...(name && { "Mcp-Name": name }),
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method,
      params: {
        ...(name && { name, arguments: args }),
        ...params,
        _meta: {
          [`${META}protocolVersion`]: VERSION,
          [`${META}clientCapabilities`]: capabilities,
          ...meta,
        },
      },
    }),
  });
  const text = await response.text();
  if (!response.headers.get("content-type").startsWith("text/event-stream")) {
    return [JSON.parse(text)];
  }
  return [...text.matchAll(/^data: ?(.*)$/gm)].map(([, data]) => JSON.parse(data));
}

/** The result of a call that has one. */
export const resultOf = async (...all) => {
  const message = (await calls(...all)).at(-1);
  assert(message.result, JSON.stringify(message));
  return message.result;
};
