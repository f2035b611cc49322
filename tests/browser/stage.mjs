/**
 * What the browser tests stand on: Chromium, pages of the demo with an identity each, a network
 * that can be cut between a page and the bridge.
 *
 * Knows `src/demo.html` and its two placeholders, and fills them as `serve --dev` does; a page of
 * its own for each test lets them run in any order. The bridge and its agents are in
 * `sdk/test/support/bridge.js`.
 */

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import net from "node:net";
import { chromium } from "playwright-core";
import { BRIDGE, token } from "../../sdk/test/support/bridge.js";

const root = new URL("../../", import.meta.url);
const read = (path) => readFileSync(new URL(path, root), "utf8");

/** Longest wait for something that should come at once, in ms: several tests may share a machine. */
export const SOON = 15_000;

/** Starts Chromium: Debian's, or the one that CHROMIUM names. */
export const launch = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ],
  });

/** Serves the demo page: `open` gives the address of one for this configuration. */
export async function servePages() {
  const html = read("src/demo.html").replace(
    "/*__CLIENTMCP_SDK__*/",
    () => read("sdk/dist/clientmcp.js"),
  );
  const configs = new Map();
  const server = createServer((request, response) => {
    const config = configs.get(request.url.slice(1));
    response.writeHead(config ? 200 : 404, { "Content-Type": "text/html; charset=utf-8" });
    response.end(config && html.replace("__CLIENTMCP_CONFIG__", () => JSON.stringify(config)));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return {
    open(config) {
      const name = randomUUID();
      configs.set(name, config);
      return `http://127.0.0.1:${server.address().port}/${name}`;
    },
    close: () => server.close(),
  };
}

/** An identity of its own, and what its page has to know. */
export function identity(more = {}) {
  const clientId = `demo-${randomUUID()}`;
  return {
    clientId,
    url: `${BRIDGE}/connect`.replace(/^http/, "ws"),
    token: token(clientId, "client"),
    mcpUrl: `${BRIDGE}/mcp`,
    agentToken: token(clientId, "agent"),
    ...more,
  };
}

/** A line to the bridge that can go dead, as behind a router that forgot it: nothing is closed. */
export async function cuttableLine() {
  const bridge = new URL(BRIDGE);
  const pairs = new Set();
  let isCut = false;
  const server = net.createServer((near) => {
    const far = net.connect(Number(bridge.port), bridge.hostname);
    const pair = [near, far];
    pairs.add(pair);
    for (const [from, to] of [pair, [...pair].reverse()]) {
      from.on("error", () => {});
      from.on("close", () => {
        pairs.delete(pair);
        to.destroy();
      });
      from.on("data", (data) => {
        if (!isCut) to.write(data);
      });
    }
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return {
    url: `ws://127.0.0.1:${server.address().port}/connect`,
    cut() {
      isCut = true;
    },
    /** New connections work again; the old ones stay dead, as behind a router. */
    restore() {
      isCut = false;
      for (const pair of pairs) for (const socket of pair) socket.removeAllListeners("data").pause();
    },
    close() {
      for (const pair of pairs) for (const socket of pair) socket.destroy();
      server.close();
    },
  };
}
