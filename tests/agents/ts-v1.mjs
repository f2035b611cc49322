// The TypeScript SDK of the 2025 era, as its README shows it: `node ts-v1.mjs URL [--progress]`, CLIENTMCP_TOKEN set.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { authorization, tell, url, watchedFetch } from './story.mjs';

const contentTypes = new Map();
const client = new Client({ name: 'ts-v1', version: '1' });
const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { authorization } },
    fetch: watchedFetch(contentTypes),
});

await tell({
    contentTypes,
    connect: async () => {
        await client.connect(transport);
        return { protocol: transport.protocolVersion, session: transport.sessionId !== undefined };
    },
    list: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    nextListChange: () =>
        new Promise((resolve) => client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve())),
    close: async () => {
        await transport.terminateSession();
        await client.close();
    },
});
