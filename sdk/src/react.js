/**
 * React hooks over `connect`.
 *
 * Knows React's rules: rendering has no effects, and StrictMode mounts everything twice. That
 * second mount takes over the connection of the first instead of dialing against it.
 */

import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { connect } from "./index.js";

/** @type {import("../types/index.d.ts").Status} */
const BEFORE = { state: "connecting" };

/** @type {typeof import("../types/react.d.ts").useClientMCP} */
export function useClientMCP(options) {
  const latest = useRef(options);
  latest.current = options;
  const held = useRef(
    /** @type {{ client: any, key: string, leaving: any } | undefined} */ (undefined),
  );
  const [client, setClient] = useState(
    /** @type {import("../types/index.d.ts").Client | undefined} */ (undefined),
  );
  const key = JSON.stringify([
    options.url,
    typeof options.token === "string" ? options.token : null,
  ]);

  useEffect(() => {
    let now = held.current;
    if (now?.key === key) clearTimeout(now.leaving);
    else {
      clearTimeout(now?.leaving);
      now?.client.close();
      const { token } = latest.current;
      now = {
        client: connect({
          ...latest.current,
          // The token function, too, is that of the latest render.
          token:
            typeof token === "string"
              ? token
              : () => /** @type {() => string} */ (latest.current.token)(),
        }),
        key,
        leaving: undefined,
      };
      held.current = now;
    }
    setClient(now.client);
    return () => {
      // A mount that follows at once cancels it.
      now.leaving = setTimeout(() => {
        now.client.close();
        if (held.current === now) held.current = undefined;
      });
    };
  }, [key]);

  const status = useSyncExternalStore(
    (changed) => {
      client?.addEventListener("status", changed);
      return () => client?.removeEventListener("status", changed);
    },
    () => client?.status ?? BEFORE,
    () => BEFORE,
  );
  return { client, status };
}

/** @type {typeof import("../types/react.d.ts").useTool} */
export function useTool(client, tool) {
  const latest = useRef(tool);
  latest.current = tool;
  const definition = JSON.stringify(tool);
  useEffect(
    () =>
      client?.registerTool({
        ...JSON.parse(definition),
        execute: (/** @type {any} */ input, /** @type {any} */ context) =>
          latest.current.execute(input, context),
      }),
    [client, definition],
  );
}
