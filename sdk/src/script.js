/**
 * The SDK for a `<script>` tag: what `build.js` makes `dist/clientmcp.js` from.
 *
 * Knows only the global's name.
 */

import { connect } from "./index.js";

/** @type {any} */ (globalThis).clientmcp = { connect };
