// Goes through everything one server offers, and prints what came: `node compare.mjs SDK MODE SERVER DIR WAY…`, where
// SDK is `v1` or `v2`, MODE how v2 picks its era (`default` or `pin`; v1 has only one), SERVER one of those below, DIR an
// empty folder for it, and WAY either `http URL` (CLIENTMCP_TOKEN set) or `stdio COMMAND…`. `tests/connect/others.rs`
// compares the outputs. A tool or prompt that is listed and not known here fails the run: nothing is left untried.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [sdk, mode, server, dir, way, ...target] = process.argv.slice(2);

const { CLIENTMCP_TOKEN: token, ...rest } = process.env;
const env = { ...Object.fromEntries(Object.entries(rest).filter(([name]) => !name.startsWith('CLIENTMCP_'))) };

const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const asked = [];
const handlers = {
    'elicitation/create': ({ params }) => {
        asked.push({ method: 'elicitation/create', params });
        if (params.mode === 'url') return { action: 'accept' };
        const content = {};
        for (const [name, schema] of Object.entries(params.requestedSchema.properties)) {
            if (params.requestedSchema.required?.includes(name)) content[name] = schema.default ?? 'Ada';
        }
        return { action: 'accept', content };
    },
    'sampling/createMessage': ({ params }) => {
        asked.push({ method: 'sampling/createMessage', params });
        return { role: 'assistant', content: { type: 'text', text: 'a sample' }, model: 'none', stopReason: 'endTurn' };
    },
    // When it is asked depends on the way: a server may ask at its start.
    'roots/list': () => ({ roots: [{ uri: `file://${dir}`, name: 'dir' }] }),
};

const path = (...parts) => join(dir, ...parts);
const everything = {
    'echo': [{ message: 'hé✓ "quoted" \u2028' }, {}],
    'get-annotated-message': [{ messageType: 'error', includeImage: true }, { messageType: 'debug' }],
    'get-env': [{}],
    'get-resource-links': [{ count: 3 }],
    'get-resource-reference': [{ resourceType: 'Text', resourceId: 1 }, { resourceType: 'Text', resourceId: -1 }],
    'get-structured-content': [{ location: 'Chicago' }],
    'get-sum': [{ a: 0.1, b: 0.2 }, { a: 'x', b: 1 }],
    'get-tiny-image': [{}],
    'gzip-file-as-resource': [
        { name: 'a.gz', data: 'data:text/plain,hello', outputType: 'resource' },
        { name: 'b.gz', data: 'data:text/plain,hello', outputType: 'resourceLink' },
    ],
    'toggle-simulated-logging': [{}, {}],
    'toggle-subscriber-updates': [{}, {}],
    'trigger-long-running-operation': [{ duration: 2, steps: 4 }],
    'get-roots-list': [{}],
    'trigger-elicitation-request': [{}],
    'trigger-url-elicitation': [
        { url: 'https://example.com/a', message: 'open it', elicitationId: 'e-1' },
        { url: 'https://example.com/b', message: 'open it', elicitationId: 'e-2', errorPath: true },
    ],
    'trigger-sampling-request': [{ prompt: 'say', maxTokens: 7 }],
    'simulate-research-query': [{ topic: 'bridges' }],
};
const filesystem = {
    'list_allowed_directories': [{}],
    'write_file': [{ path: path('new.txt'), content: 'one\ntwo\n' }, { path: '/outside', content: '' }],
    'edit_file': [{ path: path('new.txt'), edits: [{ oldText: 'two', newText: 'zwei' }] }],
    'read_file': [{ path: path('new.txt') }],
    'read_text_file': [{ path: path('text.txt'), head: 1 }, { path: path('none.txt') }],
    'read_media_file': [{ path: path('dot.png') }],
    'read_multiple_files': [{ paths: [path('text.txt'), path('none.txt')] }],
    'create_directory': [{ path: path('a/b') }],
    'move_file': [{ source: path('new.txt'), destination: path('a/moved.txt') }],
    'list_directory': [{ path: dir }],
    'list_directory_with_sizes': [{ path: dir, sortBy: 'size' }],
    'directory_tree': [{ path: dir }],
    'search_files': [{ path: dir, pattern: '**/*.txt' }],
    'get_file_info': [{ path: path('text.txt') }],
};
const memory = {
    'create_entities': [{ entities: [{ name: 'A', entityType: 't', observations: ['x'] }, { name: 'B', entityType: 't', observations: [] }] }],
    'create_relations': [{ relations: [{ from: 'A', to: 'B', relationType: 'knows' }] }],
    'add_observations': [{ observations: [{ entityName: 'A', contents: ['y'] }] }, { observations: [{ entityName: 'none', contents: ['y'] }] }],
    'read_graph': [{}],
    'search_nodes': [{ query: 'y' }],
    'open_nodes': [{ names: ['B'] }],
    'delete_observations': [{ deletions: [{ entityName: 'A', observations: ['x'] }] }],
    'delete_relations': [{ relations: [{ from: 'A', to: 'B', relationType: 'knows' }] }],
    'delete_entities': [{ entityNames: ['B'] }],
};
const toolCalls = { everything, filesystem, memory }[server];
const promptArguments = {
    'simple-prompt': [{}],
    'args-prompt': [{ city: 'Bonn', state: 'NRW' }, {}],
    'completable-prompt': [{ department: 'Sales', name: 'Eve' }],
    'resource-prompt': [{ resourceType: 'Text', resourceId: '2' }, { resourceType: 'None', resourceId: '2' }],
};
const templateUris = {
    'demo://resource/dynamic/text/{resourceId}': ['demo://resource/dynamic/text/3'],
    'demo://resource/dynamic/blob/{resourceId}': ['demo://resource/dynamic/blob/4', 'demo://resource/dynamic/blob/x'],
};

if (server === 'filesystem') {
    writeFileSync(path('text.txt'), 'first\nsecond\n');
    writeFileSync(path('dot.png'), Buffer.from('iVBORw0KGgo=', 'base64'));
    mkdirSync(path('empty'));
}
if (server === 'memory') env.MEMORY_FILE_PATH = path('memory.jsonl');

async function connected() {
    const info = { name: 'compare', version: '1' };
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    const stdio = { command: target[0], args: target.slice(1), env, stderr: 'ignore' };
    if (sdk === 'v1') {
        const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
        const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
        const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
        const types = await import('@modelcontextprotocol/sdk/types.js');
        const client = new Client(info, { capabilities });
        client.setRequestHandler(types.ElicitRequestSchema, handlers['elicitation/create']);
        client.setRequestHandler(types.CreateMessageRequestSchema, handlers['sampling/createMessage']);
        client.setRequestHandler(types.ListRootsRequestSchema, handlers['roots/list']);
        const transport = way === 'http' ? new StreamableHTTPClientTransport(new URL(target[0]), { requestInit }) : new StdioClientTransport(stdio);
        await client.connect(transport);
        return { client, call: (params, options) => client.callTool(params, undefined, options) };
    }
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    const versionNegotiation = mode === 'pin' ? { mode: { pin: '2026-07-28' } } : undefined;
    const client = new Client(info, { capabilities, versionNegotiation });
    for (const [method, handler] of Object.entries(handlers)) client.setRequestHandler(method, handler);
    const transport = way === 'http' ? new StreamableHTTPClientTransport(new URL(target[0]), { requestInit }) : new StdioClientTransport(stdio);
    await client.connect(transport);
    return { client, call: (params, options) => client.callTool(params, options) };
}

/** What came of it: the result, or the error as an agent sees it. */
async function outcome(run) {
    try {
        return await run();
    } catch (error) {
        return { error: { name: error.name, code: error.code, message: error.message, data: error.data } };
    }
}

async function all(list, member) {
    const items = [];
    let cursor;
    do {
        const page = await list(cursor === undefined ? undefined : { cursor });
        items.push(...page[member]);
        cursor = page.nextCursor;
    } while (cursor !== undefined);
    return items;
}

const { client, call } = await connected();
// The server adds tools and asks for roots a moment after its start.
await new Promise((resolve) => setTimeout(resolve, 1000));
const can = client.getServerCapabilities();
const seen = { server: client.getServerVersion(), instructions: client.getInstructions(), lists: {}, outcomes: {} };
const lists = seen.lists;
lists.tools = await all((cursor) => client.listTools(cursor), 'tools');
if (can.prompts) lists.prompts = await all((cursor) => client.listPrompts(cursor), 'prompts');
if (can.resources) {
    lists.resources = await all((cursor) => client.listResources(cursor), 'resources');
    lists.resourceTemplates = await all((cursor) => client.listResourceTemplates(cursor), 'resourceTemplates');
}
const ways = (table, name, what) => {
    if (table[name] === undefined) throw new Error(`${what} ${name} is listed and not tried`);
    return table[name].entries();
};
// In the order of the table, because one tool may need what another made.
const listed = new Map(lists.tools.map((tool) => [tool.name, tool]));
for (const name of listed.keys()) ways(toolCalls, name, 'tool');
for (const name of Object.keys(toolCalls).filter((name) => listed.has(name))) {
    for (const [i, args] of ways(toolCalls, name, 'tool')) {
        const progress = [];
        const before = asked.length;
        const result = await outcome(() => call({ name, arguments: args }, { onprogress: (update) => progress.push(update) }));
        seen.outcomes[`tool ${name} ${i}`] = { result, progress, asked: asked.slice(before) };
    }
}
for (const { name } of lists.prompts ?? []) {
    for (const [i, args] of ways(promptArguments, name, 'prompt')) {
        seen.outcomes[`prompt ${name} ${i}`] = await outcome(() => client.getPrompt({ name, arguments: args }));
    }
}
for (const { uri } of lists.resources ?? []) {
    seen.outcomes[`resource ${uri}`] = await outcome(() => client.readResource({ uri }));
}
for (const { uriTemplate } of lists.resourceTemplates ?? []) {
    for (const [, uri] of ways(templateUris, uriTemplate, 'template')) {
        seen.outcomes[`template ${uri}`] = await outcome(() => client.readResource({ uri }));
    }
}
if (can.completions) {
    for (const [ref, argument, context] of [
        [{ type: 'ref/prompt', name: 'completable-prompt' }, { name: 'department', value: 'S' }],
        [{ type: 'ref/prompt', name: 'completable-prompt' }, { name: 'name', value: '' }, { arguments: { department: 'Sales' } }],
        [{ type: 'ref/resource', uri: 'demo://resource/dynamic/text/{resourceId}' }, { name: 'resourceId', value: '7' }],
        [{ type: 'ref/prompt', name: 'none' }, { name: 'department', value: 'S' }],
    ]) {
        const key = `completion ${ref.name ?? ref.uri} ${argument.name}`;
        seen.outcomes[key] = await outcome(() => client.complete({ ref, argument, context }));
    }
}
seen.outcomes['unknown tool'] = await outcome(() => call({ name: 'no-such-tool', arguments: {} }));
if (can.resources) seen.outcomes['unknown resource'] = await outcome(() => client.readResource({ uri: 'none://such' }));
if (can.prompts) seen.outcomes['unknown prompt'] = await outcome(() => client.getPrompt({ name: 'no-such-prompt' }));
await client.close();
process.stdout.write(JSON.stringify(seen), () => process.exit(0));
