// The TypeScript client of the second line: `node ts-v2.mjs URL MODE [--progress]`, CLIENTMCP_TOKEN set. MODE is how it
// picks an era: `default` (2025 only), `auto` (asks with server/discover first), `pin` (2026-07-28 or nothing).

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { authorization, check, flags, tell, url, watchedFetch } from './story.mjs';

const modes = { default: undefined, auto: { mode: 'auto' }, pin: { mode: { pin: '2026-07-28' } } };
const mode = flags[0];
check(mode in modes, `MODE is one of ${Object.keys(modes)}, not ${mode}`);

let onListChange = () => {};
const contentTypes = new Map();
const client = new Client(
    { name: `ts-v2-${mode}`, version: '1' },
    {
        versionNegotiation: modes[mode],
        // In the 2026 era this opens a `subscriptions/listen` stream by itself.
        listChanged: { tools: { autoRefresh: false, onChanged: (error) => onListChange(error) } },
    },
);
const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { authorization } },
    fetch: watchedFetch(contentTypes),
});

await tell({
    contentTypes,
    connect: async () => {
        await client.connect(transport);
        return { protocol: client.getNegotiatedProtocolVersion(), session: transport.sessionId !== undefined };
    },
    list: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, options),
    nextListChange: () => new Promise((resolve) => { onListChange = resolve; }),
    close: async () => {
        if (transport.sessionId !== undefined) await transport.terminateSession();
        await client.close();
    },
});
