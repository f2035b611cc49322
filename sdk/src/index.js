/**
 * The SDK's front door: `connect`.
 *
 * An application offers tools, prompts and resources through a ClientMCP bridge; agents call them
 * as an MCP server's. The types, and what each option means, are in `types/index.d.ts`.
 */

import { Client } from "./client.js";

/** @type {typeof import("../types/index.d.ts").connect} */
export const connect = (options) => new Client(options);
