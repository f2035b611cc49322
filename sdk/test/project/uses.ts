// What a project in TypeScript may write, and what it may not. Type-checked, never run.
import { connect, type Client, type Status, type ToolDescriptor } from "clientmcp";

const client: Client = connect({
  url: "wss://bridge.example",
  token: async () => "token",
  server: { name: "kitchen", version: "1" },
  tools: [{ name: "now", execute: () => new Date().toISOString() }],
  prompts: [{ name: "plan", get: ({ guests }) => `for ${guests}` }],
  resourceTemplates: [
    { uriTemplate: "k://{id}", name: "k", read: (_uri, { variables }) => variables.id?.toUpperCase() },
  ],
  complete: ({ argument }) => [argument.value],
});

const add: ToolDescriptor<{ a: number; b: number }> = {
  name: "add",
  inputSchema: { type: "object" },
  execute: async ({ a, b }, ctx) => {
    ctx.progress(1, 2);
    ctx.log("info", { a });
    ctx.signal.throwIfAborted();
    const { action, content } = await ctx.elicit("Sure?", { type: "object" });
    return action === "accept" && content?.sure ? a + b : undefined;
  },
};
const remove: () => void = client.registerTool(add, { signal: new AbortController().signal });
remove();

client.addEventListener("status", ({ detail }) => {
  if (detail.state === "offline") console.log(detail.reason, new Date(detail.retryAt));
  // @ts-expect-error an online client has no reason
  if (detail.state === "online") console.log(detail.reason);
});
client.addEventListener("definitionsrefused", ({ detail }) => {
  for (const { path, message, name } of detail) console.log(path, message, name?.length);
});
const words: Record<Status["state"], string> = {
  connecting: "", online: "", offline: "", replaced: "", refused: "", closed: "",
};
console.log(words[client.status.state]);
client.bridgeModelContext({}, { filter: ({ name }) => name !== "buy" });

// @ts-expect-error a token is missing
connect({ url: "wss://bridge.example" });
// @ts-expect-error there is no such level
add.execute({ a: 1, b: 2 }, { ...({} as any), log: (level: "loud") => {} }).log("loud");
// @ts-expect-error a tool must do something
client.registerTool({ name: "idle" });
// @ts-expect-error the status is read only
client.status = { state: "closed" };
