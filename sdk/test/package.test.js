/**
 * The package as others get it: its size, its single file, its types in a fresh project, its README.
 */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import vm from "node:vm";
import { gzipSync } from "node:zlib";

const SDK = fileURLToPath(new URL("..", import.meta.url));
const SCRIPT = readFileSync(join(SDK, "dist/clientmcp.js"), "utf8");
const GZIPPED_MAX = 6 * 1024;

const folder = mkdtempSync(join(tmpdir(), "clientmcp-sdk-"));
after(() => rmSync(folder, { recursive: true }));

/** Runs a program to its end; its output is the failure's words. */
function runs(program, args, cwd) {
  try {
    return execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    assert.fail(`${program} ${args.join(" ")}: ${error.stdout}${error.stderr}`);
  }
}

test("the whole SDK is at most 6 KiB gzipped", () => {
  const size = gzipSync(SCRIPT, { level: 9 }).length;
  assert(size <= GZIPPED_MAX, `${size} bytes`);
});

test("the single file is what the sources make", () => {
  runs(process.execPath, ["build.js", "--check"], SDK);
});

test("the single file works in a script tag, where nothing is a module", () => {
  // Inlined in a page, it must not end the tag that it is in.
  assert(!/<\/script|<!--/i.test(SCRIPT));
  const dialed = [];
  class WebSocket {
    constructor(url) {
      dialed.push(url);
    }
  }
  const page = vm.createContext({
    WebSocket, URL, EventTarget, CustomEvent, AbortController, console, setTimeout: () => 0,
    clearTimeout() {}, queueMicrotask,
  });
  vm.runInContext(SCRIPT, page);
  vm.runInContext('clientmcp.connect({ url: "ws://bridge.test", token: "t" })', page);
  return new Promise((resolve) => setImmediate(resolve)).then(() =>
    assert.deepEqual(dialed, ["ws://bridge.test/connect"]),
  );
});

test("the sources hold to the types", () => {
  runs(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "."], SDK);
});

test("nothing is needed at run time", () => {
  const { dependencies, peerDependenciesMeta } = JSON.parse(readFileSync(join(SDK, "package.json")));
  assert.equal(dependencies, undefined);
  assert.deepEqual(peerDependenciesMeta, { react: { optional: true } });
});

test("npm pack installs and type-checks in a fresh project", () => {
  const packed = JSON.parse(runs("npm", ["pack", "--json", "--pack-destination", folder], SDK));
  const [{ filename, files }] = Array.isArray(packed) ? packed : Object.values(packed);
  const top = new Set(files.map(({ path }) => path.split("/")[0]));
  assert.deepEqual([...top].sort(), ["README.md", "dist", "package.json", "src", "types"]);

  const project = join(folder, "project");
  cpSync(join(SDK, "test/project"), project, { recursive: true });
  runs("npm", ["install", "--offline", "--no-audit", "--no-fund", join(folder, filename)], project);
  // The tools of the SDK's own lock file; the project's own types for React.
  const types = join(project, "node_modules/@types");
  cpSync(join(SDK, "node_modules/@types"), types, { recursive: true });
  for (const name of ["csstype", "undici-types"]) {
    cpSync(join(SDK, "node_modules", name), join(project, "node_modules", name), { recursive: true });
  }
  const tsc = join(SDK, "node_modules/typescript/bin/tsc");
  const check = (...flags) =>
    runs(process.execPath, [tsc, "--strict", "--noEmit", "--jsx", "react-jsx", ...flags], project);
  const node = ["--types", "node", "--lib", "es2023", "--module", "nodenext", "uses.ts"];
  const page = ["--types", "", "--lib", "es2023,dom", "--module", "esnext", "--moduleResolution", "bundler"];
  check(...node);
  check(...page, "uses.ts", "react.tsx");

  const ran = runs(
    process.execPath,
    ["--input-type=module", "-e", 'import { connect } from "clientmcp"; console.log(typeof connect)'],
    project,
  );
  assert.equal(ran.trim(), "function");
});

test("the five lines of the README are five, and offer a tool that adds", async () => {
  const readme = readFileSync(join(SDK, "README.md"), "utf8");
  const [, lines] = /```js\n([^]*?)```/.exec(readme);
  assert.equal(lines.trim().split("\n").length, 5);
  const sockets = [];
  globalThis.WebSocket = class {
    readyState = 1;
    sent = [];
    constructor(url, protocols) {
      Object.assign(this, { url, protocols });
      sockets.push(this);
    }
    send(text) {
      this.sent.push(JSON.parse(text));
    }
    close() {}
  };
  globalThis.fetch = async (path) => new Response(`token-of-${path}`);
  const from = pathToFileURL(join(SDK, "src/index.js"));
  const file = join(folder, "lines.mjs");
  writeFileSync(file, lines.replace('"clientmcp"', JSON.stringify(from)) + "\nexport { client };\n");
  const { client } = await import(pathToFileURL(file));
  while (!sockets.length) await new Promise((resolve) => setTimeout(resolve, 1));
  const [socket] = sockets;
  assert.equal(socket.url, "wss://bridge.example/connect");
  assert.equal(socket.protocols[1], "clientmcp.bearer.token-of-/token");
  socket.onopen();
  assert.equal(socket.sent[0].tools[0].name, "add");
  const says = (message) => socket.onmessage({ data: JSON.stringify(message) });
  says({ type: "registered", clientId: "c", refused: [] });
  assert.equal(client.status.state, "online");
  const params = { name: "add", arguments: { a: 2, b: 3 } };
  says({ type: "call", id: "1", method: "tools/call", params, agent: {} });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(socket.sent[1].result, { content: [{ type: "text", text: "5" }] });
  client.close();
});

test("every file opens with what it knows", () => {
  for (const name of readdirSync(join(SDK, "src"))) {
    const text = readFileSync(join(SDK, "src", name), "utf8");
    assert.match(text, /^\/\*\*\n \* [A-Z]/, name);
    const long = text.split("\n").findIndex((line) => line.length > 100);
    assert.equal(long, -1, `${name}:${long + 1} has over 100 characters`);
  }
});
