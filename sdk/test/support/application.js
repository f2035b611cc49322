/**
 * The application of the recorded transcripts: `tests/data/transcripts/README.md` says what it does.
 */

const NAME = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };

const TOOLS = {
  echo: ({ text }) => text,
  add: ({ a, b }) => ({ sum: a + b }),
  fail: () => {
    throw new Error("it failed, as asked");
  },
  wait: () => new Promise(() => {}),
  steps: ({ n }, ctx) => {
    for (let step = 1; step <= n; step++) {
      ctx.progress(step, n);
      ctx.log("info", `step ${step}`);
    }
    return "done";
  },
  big: ({ bytes }) => "x".repeat(bytes),
  greet: async (_, ctx) => {
    const { action, content } = await ctx.elicit("What is your name?", NAME);
    return action === "accept" ? `Hello, ${content.name}.` : "No name.";
  },
};

const withTool = (tool) => ({ ...tool, execute: TOOLS[tool.name] });

/** The options of a client that offers what this register says. */
export function optionsFor({ type, completions, ...register }) {
  const { tools = [], prompts, resources, resourceTemplates } = register;
  return {
    ...register,
    tools: tools.map(withTool),
    prompts: prompts?.map((prompt) => ({
      ...prompt,
      get: ({ guests }) => `Plan a dinner for ${guests}.`,
    })),
    resources: resources?.map((resource) => ({ ...resource, read: () => "no timers" })),
    resourceTemplates: resourceTemplates?.map((template) => ({
      ...template,
      read: (_, { variables }) => ({ recipe: variables.id }),
    })),
    complete:
      completions &&
      (({ argument }) =>
        ["red", "green", "blue"].filter((color) => color.startsWith(argument.value))),
  };
}

/** Makes the application offer these tools from now on. */
export function offersTools(client, removers, tools) {
  const wanted = new Set(tools.map((tool) => JSON.stringify(tool)));
  for (const [key, remove] of removers) {
    if (wanted.has(key)) continue;
    remove();
    removers.delete(key);
  }
  for (const tool of tools) {
    const key = JSON.stringify(tool);
    if (!removers.has(key)) removers.set(key, client.registerTool(withTool(tool)));
  }
}
