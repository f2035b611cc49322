// The hooks, from a project in TypeScript. Type-checked, never run.
import { useClientMCP, useTool } from "clientmcp/react";

export function State() {
  const { client, status } = useClientMCP({ url: "wss://bridge.example", token: "token" });
  useTool<{ text: string }>(client, { name: "echo", execute: ({ text }) => text });
  // @ts-expect-error a tool has a name
  useTool(client, { execute: () => "" });
  return <button onClick={() => client?.reconnect()}>{status.state}</button>;
}
