// Preloaded with `node --import`: puts the bearer token on every request to this machine, because the official suite
// has no option for headers. Node tells of each request before it is sent; those of fetch and of http differ.

import { subscribe } from 'node:diagnostics_channel';

const authorization = `Bearer ${process.env.CLIENTMCP_TOKEN}`;
const loopback = (host) => ['127.0.0.1', 'localhost', '[::1]', '::1'].includes(host);

subscribe('undici:request:create', ({ request }) => {
    if (loopback(new URL(request.origin).hostname)) request.addHeader('authorization', authorization);
});
subscribe('http.client.request.created', ({ request }) => {
    // By the address connected to: one scenario sends a false `Host`.
    if (loopback(request.host) && !request.headersSent) request.setHeader('authorization', authorization);
});
