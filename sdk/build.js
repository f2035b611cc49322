/**
 * Builds `dist/clientmcp.js`: the whole SDK in one script, for `<script src>`; it makes the global
 * `clientmcp`. `node build.js --check` says whether the file that is there is the one it makes.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = (/** @type {string} */ path) => new URL(path, import.meta.url).pathname;
const path = here("dist/clientmcp.js");

const built = await build({
  entryPoints: [here("src/script.js")],
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: "/* clientmcp, a client of ClientMCP bridges. Apache-2.0 OR MIT */" },
});
const text = built.outputFiles[0].text;

if (process.argv.includes("--check")) {
  if (readFileSync(path, "utf8") !== text) {
    console.error("dist/clientmcp.js is not what the sources make: run `npm run build` in sdk/");
    process.exit(1);
  }
} else {
  writeFileSync(path, text);
  const gzipped = gzipSync(text, { level: 9 }).length;
  console.log(`dist/clientmcp.js: ${text.length} bytes, ${gzipped} gzipped`);
}
