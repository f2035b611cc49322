/**
 * What an application's function returned, made a proper MCP result.
 *
 * Knows the result shapes of tools/call, prompts/get, resources/read and completion/complete, not
 * calls or sockets. Whatever is a result already is left alone, byte for byte of its JSON.
 */

import { COMPLETIONS_MAX } from "./limits.js";

/** @param {any} value */
const isObject = (value) => value !== null && typeof value === "object";

/** Kinds of content blocks, and the member that each must have. @type {Record<string, string>} */
const BLOCKS = {
  text: "text",
  image: "data",
  audio: "data",
  resource: "resource",
  resource_link: "uri",
};

/** Not only `type`: an application's own objects have types too. @param {any} value */
const isBlock = (value) =>
  isObject(value) &&
  typeof value[BLOCKS[value.type]] === (value.type === "resource" ? "object" : "string");

/** @param {any} value */
const isBinary = (value) =>
  value instanceof Blob || value instanceof ArrayBuffer || ArrayBuffer.isView(value);

/** @param {any} value */
const asBlob = (value) => (value instanceof Blob ? value : new Blob([value]));

/** @param {Blob} blob */
async function base64(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  // In pieces: a function takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(text);
}

/** @param {any} value */
const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? "");

/** @param {string} text */
export const textBlock = (text) => ({ type: "text", text });

/** @param {any} value @returns {Promise<any>} */
async function asBlock(value) {
  if (isBlock(value)) return value;
  if (!isBinary(value)) return textBlock(asText(value));
  const blob = asBlob(value);
  const [mimeType] = (blob.type || "application/octet-stream").split(";");
  const [kind] = mimeType.split("/");
  if (kind === "text") return textBlock(await blob.text());
  const data = await base64(blob);
  if (kind === "image" || kind === "audio") return { type: kind, data, mimeType };
  const uri = "attachment:" + encodeURIComponent(/** @type {any} */ (blob).name || "blob");
  return { type: "resource", resource: { uri, mimeType, blob: data } };
}

/** @param {any} result */
export const isInputRequired = (result) =>
  isObject(result) && result.resultType === "input_required";

/** @param {any} value @param {any} tool @returns {Promise<any>} */
export async function toolResult(value, tool) {
  if (value === undefined) return { content: [] };
  if (isObject(value)) {
    if (isInputRequired(value)) return value;
    if (Array.isArray(value.content) && value.content.every(isBlock)) return value;
    if (!value.content && "structuredContent" in value) {
      return { content: [textBlock(asText(value.structuredContent))], ...value };
    }
    const isList = Array.isArray(value);
    if (isList && value.some((item) => isBlock(item) || isBinary(item))) {
      return { content: await Promise.all(value.map(asBlock)) };
    }
    if (!isBlock(value) && !isBinary(value) && (!isList || tool.outputSchema)) {
      return { content: [textBlock(asText(value))], structuredContent: value };
    }
  }
  return { content: [await asBlock(value)] };
}

/** @param {any} value @returns {Promise<any>} */
export async function promptResult(value) {
  if (isInputRequired(value) || Array.isArray(value?.messages)) return value;
  if (Array.isArray(value)) return { messages: value };
  return { messages: [{ role: "user", content: await asBlock(value) }] };
}

/** @param {any} value @param {any} resource @param {string} uri @returns {Promise<any>} */
export async function resourceResult(value, resource, uri) {
  if (isInputRequired(value) || Array.isArray(value?.contents)) return value;
  let { mimeType } = resource;
  if (isBinary(value)) {
    const blob = asBlob(value);
    mimeType ??= blob.type || "application/octet-stream";
    return { contents: [{ uri, mimeType, blob: await base64(blob) }] };
  }
  mimeType ??= typeof value === "string" ? "text/plain" : "application/json";
  return { contents: [{ uri, mimeType, text: asText(value) }] };
}

/** @param {any} value @returns {any} */
export function completionResult(value) {
  if (isObject(value?.completion)) return value;
  const all = [...(value ?? [])];
  const values = all.slice(0, COMPLETIONS_MAX);
  return { completion: { values, total: all.length, hasMore: all.length > values.length } };
}
