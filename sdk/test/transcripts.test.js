/**
 * The recorded channels, replayed with the SDK as the client.
 *
 * The lines are explained in `tests/data/transcripts/README.md`; the bridge is tested with the same.
 */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { offersTools, optionsFor } from "./support/application.js";
import { eachInAWorld, settled, tokenFor } from "./support/world.js";

const FOLDER = new URL("../../tests/data/transcripts/", import.meta.url);
/** What only the bridge's side can do or see. */
const NOT_OURS = ["agent", "gone", "answer", "newcomer"];

const worlds = eachInAWorld();

function parse(text) {
  return text.split("\n").flatMap((line, index) => {
    if (!line.trim() || line.startsWith("#")) return [];
    const [, kind, rest] = /^(\w+): ?(.*)$/.exec(line) ?? assert.fail(`line ${index + 1}: ${line}`);
    return NOT_OURS.includes(kind) ? [] : [{ kind, rest, number: index + 1 }];
  });
}

/** Puts the words that are known in their places; those that are not stand for themselves. */
const spoken = (value, words) =>
  JSON.parse(JSON.stringify(value), (_, member) => words.get(member) ?? member);

/** Learns what the words of `expected` stand for in `actual`. */
function learn(expected, actual, words) {
  if (typeof expected === "string" && /^\$\w+$/.test(expected)) {
    if (typeof actual === "string" && !words.has(expected)) words.set(expected, actual);
  } else if (expected && typeof expected === "object") {
    for (const key of Object.keys(expected)) learn(expected[key], actual?.[key], words);
  }
}

async function replay(lines) {
  const world = worlds.current;
  const words = new Map();
  const removers = new Map();
  let client;
  let life = 3600;
  let dialed = 0;

  for (const [index, { kind, rest, number }] of lines.entries()) {
    const where = `line ${number}`;
    if (kind === "connect") {
      life = parseFloat(rest || "3600");
      const first = lines.slice(index).find((line) => line.kind === "client");
      if (!client) {
        const { tools = [], ...options } = optionsFor(JSON.parse(first.rest));
        client = await world.dials({ ...options, token: () => tokenFor(life) });
        offersTools(client, removers, JSON.parse(first.rest).tools ?? []);
      }
      assert.equal(world.sockets.length, ++dialed, `${where}: it dials, once`);
      await world.socket.opens();
    } else if (kind === "client") {
      const expected = JSON.parse(rest);
      if (expected.type === "register" && client.status.state === "online") {
        offersTools(client, removers, expected.tools);
        await settled();
      }
      const actual = world.socket.unread.shift();
      learn(expected, actual, words);
      assert.deepEqual(actual, spoken(expected, words), where);
    } else if (kind === "bridge") {
      await world.socket.says(spoken(JSON.parse(rest), words));
    } else if (kind === "close") {
      const [, code, reason] = /^(\d+) ?(.*)$/.exec(rest);
      await world.socket.closes(Number(code), reason);
    } else if (kind === "lost") {
      await world.socket.closes(1006);
    } else if (kind === "time") {
      // A little more: timers of the SDK count from when it heard or sent, not from this line.
      await world.passes(parseFloat(rest) * 1000);
    } else assert.fail(`${where}: ${kind} is no kind of line`);
  }
  assert.deepEqual(world.socket.unread, [], "sent and not in the transcript");
  assert.equal(world.sockets.length, dialed, "dialed and not in the transcript");
}

const files = readdirSync(FOLDER).filter((name) => name.endsWith(".txt"));
assert(files.length >= 8, `there are transcripts, got ${files}`);
for (const name of files) {
  test(name, () => replay(parse(readFileSync(new URL(name, FOLDER), "utf8"))));
}
