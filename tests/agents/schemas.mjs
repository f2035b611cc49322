// Reads what the bridge said with the parsers that the TypeScript SDKs use on the wire: `node schemas.mjs FILE`, a line
// of JSON for each message: {revision, kind, method, message}, where `method` is the one a result answers. Prints who
// read each line, and what was wrong with it. `tests/schemas.rs` collects the messages and knows what must be there.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import * as v1 from '@modelcontextprotocol/sdk/types.js';
import * as core from '@modelcontextprotocol/core';
import { parseJSONRPCMessage, ProtocolError } from '@modelcontextprotocol/client';

// The second line has a codec for each revision, which it does not export under a name of its own.
const client = dirname(fileURLToPath(import.meta.resolve('@modelcontextprotocol/client')));
const inner = await Promise.all(
    readdirSync(client)
        .filter((file) => /^src-.*\.mjs$/.test(file))
        .map((file) => import(pathToFileURL(join(client, file)))),
);
const codecForVersion = inner.flatMap(Object.values).find((value) => value?.name === 'codecForVersion');

const RESULTS = {
    initialize: 'InitializeResult',
    ping: 'EmptyResult',
    'logging/setLevel': 'EmptyResult',
    'resources/subscribe': 'EmptyResult',
    'resources/unsubscribe': 'EmptyResult',
    'server/discover': 'DiscoverResult',
    'tools/list': 'ListToolsResult',
    'prompts/list': 'ListPromptsResult',
    'resources/list': 'ListResourcesResult',
    'resources/templates/list': 'ListResourceTemplatesResult',
    'tools/call': 'CallToolResult',
    'prompts/get': 'GetPromptResult',
    'resources/read': 'ReadResourceResult',
    'completion/complete': 'CompleteResult',
    'subscriptions/listen': 'SubscriptionsListenResult',
};
const SAID = {
    'notifications/progress': 'ProgressNotification',
    'notifications/message': 'LoggingMessageNotification',
    'notifications/tools/list_changed': 'ToolListChangedNotification',
    'notifications/prompts/list_changed': 'PromptListChangedNotification',
    'notifications/resources/list_changed': 'ResourceListChangedNotification',
    'notifications/resources/updated': 'ResourceUpdatedNotification',
    'notifications/subscriptions/acknowledged': 'SubscriptionsAcknowledgedNotification',
    'elicitation/create': 'ElicitRequest',
    'sampling/createMessage': 'CreateMessageRequest',
    'roots/list': 'ListRootsRequest',
};
// MCP has given the argument of a prompt a title since 2025-06-18; both SDKs leave it out.
const FORGETS = {
    ListPromptsResult: (result) => {
        for (const argument of result.prompts.flatMap((prompt) => prompt.arguments ?? [])) delete argument.title;
        return result;
    },
};

/** Reads `value` with the schema of this name; what comes out must be what went in, but for what an SDK forgets. */
function reads(schemas, name, value) {
    const schema = schemas[`${name}Schema`];
    if (!schema) throw new Error(`no schema for ${name}`);
    const forgets = FORGETS[name] ?? ((all) => all);
    same(schema.parse(value), forgets(structuredClone(value)));
}

function same(after, before) {
    if (!isDeepStrictEqual(after, before)) throw new Error(`became ${JSON.stringify(after)}`);
}

/** A request or notification without its envelope, as an SDK's handlers are given it. */
function bare({ method, params }) {
    return params === undefined ? { method } : { method, params };
}

function first(revision, method, message) {
    same(v1.JSONRPCMessageSchema.parse(message), message);
    if (message.error) {
        reads(v1, 'JSONRPCErrorResponse', message);
        const { code, message: words, data } = message.error;
        const error = v1.McpError.fromError(code, words, data);
        if (error.code !== code || !error.message.endsWith(words)) throw new Error(`became ${error}`);
    } else if (message.result) {
        reads(v1, 'JSONRPCResultResponse', message);
        reads(v1, RESULTS[method], message.result);
    } else {
        reads(v1, SAID[message.method], bare(message));
    }
}

function second(revision, method, message) {
    const codec = codecForVersion(revision);
    if (codec.era !== revision) throw new Error(`a codec of ${codec.era} for ${revision}`);
    same(parseJSONRPCMessage(message), message);
    if (message.error) {
        reads(core, 'JSONRPCErrorResponse', message);
        const { code, message: words, data } = message.error;
        const error = ProtocolError.fromError(code, words, data);
        if (error.code !== code || error.message !== words) throw new Error(`became ${error}`);
        same(error.data, data);
    } else if (message.result?.resultType === 'input_required') {
        const { kind, inputRequests, requestState, error } = codec.decodeResult(method, message.result);
        if (kind !== 'input_required') throw new Error(`taken for ${kind}: ${error}`);
        same(inputRequests, message.result.inputRequests);
        same(requestState, message.result.requestState);
        for (const request of Object.values(inputRequests)) valid(codec.validateInputRequest(request.method, request));
    } else if (message.result) {
        reads(core, 'JSONRPCResultResponse', message);
        const { kind, result, error } = codec.decodeResult(method, message.result);
        if (kind !== 'complete') throw new Error(`taken for ${kind}: ${error}`);
        reads(core, RESULTS[method], result);
        const checked = codec.validateResult(method, result);
        // A subscription's result is outside the registry of results; its own schema is all there is.
        if (method !== 'subscriptions/listen') valid(checked);
    } else {
        reads(core, SAID[message.method], bare(message));
        const check = message.id === undefined ? codec.validateNotification : codec.validateRequest;
        valid(check(message.method, bare(message)));
    }
}

function valid({ ok, reason, message }) {
    if (!ok) throw new Error(`${reason}: ${message}`);
}

const lines = readFileSync(process.argv[2], 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
const read = lines.map(({ revision, kind, method, message }) => {
    const readers = { second };
    if (revision < '2026' || message.error) readers.first = first; // the first line knows nothing of 2026 but its errors
    const line = { revision, kind, readers: [], troubles: [] };
    for (const [name, reader] of Object.entries(readers)) {
        try {
            reader(revision, method, message);
            line.readers.push(name);
        } catch (error) {
            line.troubles.push(`${name}: ${error.message}`);
        }
    }
    return line;
});
console.log(JSON.stringify({ read }));
