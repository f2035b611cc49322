/**
 * Types of `clientmcp/react`. Written by hand; `src/react.js` is checked against them.
 */

import type { Client, ConnectOptions, Status, ToolDescriptor } from "./index.d.ts";

/**
 * Joins a bridge while the component is mounted. Another `url` (or token string) leaves and joins
 * anew; the other options count as they are at the first mount. `client` is undefined until then.
 */
export function useClientMCP(options: ConnectOptions): {
  client: Client | undefined;
  status: Status;
};

/**
 * Offers a tool while the component is mounted. `execute` is always that of the latest render; the
 * definition is registered again only when it changes.
 */
export function useTool<Input = any>(
  client: Client | undefined,
  tool: ToolDescriptor<Input>,
): void;
