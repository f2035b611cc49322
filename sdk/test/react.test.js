/**
 * The React hooks, rendered for real, with and without StrictMode.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { StrictMode, createElement } from "react";
import { act, create } from "react-test-renderer";
import { useClientMCP, useTool } from "../src/react.js";
import { eachInAWorld, settled } from "./support/world.js";

globalThis.IS_REACT_ACT_ENVIRONMENT = true;
const worlds = eachInAWorld();
let shown;

function App({ url = "wss://bridge.test", token = "a.b.c", greeting = "hi", description = "" }) {
  const { client, status } = useClientMCP({ url, token });
  const execute = () => greeting;
  useTool(client, { name: "greet", description, execute });
  shown = { client, status };
  return status.state;
}

/** The states that were rendered last, and a way to render again. */
async function mounted(props = {}, strict = true) {
  const element = (props) =>
    strict
      ? createElement(StrictMode, null, createElement(App, props))
      : createElement(App, props);
  let tree;
  await act(async () => void (tree = create(element(props))));
  return {
    tree,
    renders: (props) => act(async () => tree.update(element(props))),
    unmounts: () => act(async () => tree.unmount()),
  };
}

for (const strict of [true, false]) {
  test(`one connection and one tool ${strict ? "under StrictMode" : "without"}`, async () => {
    const world = worlds.current;
    const { tree, unmounts } = await mounted({}, strict);
    await world.passes(1000);
    assert.equal(world.sockets.length, 1);
    assert.equal(tree.toJSON(), "connecting");
    await act(() => world.accepts());
    assert.equal(tree.toJSON(), "online");
    const registers = world.socket.of("register");
    assert.equal(registers.length, 1);
    assert.deepEqual(registers[0].tools.map(({ name }) => name), ["greet"]);
    const { client } = shown;
    await unmounts();
    await world.passes(0);
    assert.equal(client.status.state, "closed");
    assert.equal(world.timers.size, 0);
  });
}

test("execute is that of the latest render, and renders alone register nothing", async () => {
  const world = worlds.current;
  const { renders } = await mounted();
  await act(() => world.accepts());
  await renders({ greeting: "hello" });
  await settled();
  assert.equal(world.socket.of("register").length, 1);
  assert.deepEqual((await world.socket.calls("c1", "greet")).content[0].text, "hello");
  await renders({ greeting: "hello", description: "Greets." });
  await settled();
  assert.equal(world.socket.of("register").length, 2);
  assert.equal(world.socket.sent.at(-1).tools[0].description, "Greets.");
});

test("another url leaves and joins anew; another token function does not", async () => {
  const world = worlds.current;
  const { renders } = await mounted({ token: () => "t.1" });
  await act(() => world.accepts());
  const before = shown.client;
  await renders({ token: () => "t.2" });
  assert.equal(world.sockets.length, 1);
  await act(() => world.socket.closes(1006));
  await act(() => world.passes(1000));
  assert.equal(world.socket.protocols[1], "clientmcp.bearer.t.2", "the latest one is asked");
  await renders({ url: "wss://other.test", token: () => "t.2" });
  await act(() => world.passes(0));
  assert.equal(before.status.state, "closed");
  assert.equal(world.socket.url, "wss://other.test/connect");
  assert.notEqual(shown.client, before);
});

test("a component that comes back later has a connection of its own", async () => {
  const world = worlds.current;
  const first = await mounted();
  await first.unmounts();
  await world.passes(10);
  await mounted();
  assert.equal(world.sockets.length, 2);
  assert.equal(shown.client.status.state, "connecting");
});
