//! Every bound of the protocol in one place: its unit, what breaks without it, what the peer sees when
//! it is passed, and why this number. What an operator may change is a flag and only has its default here.

use core::time::Duration;

/// Largest message on the client channel, in bytes, in either direction. Above it: close 1009.
/// 4 MiB: above the largest tool result we saw in the field (1.5 MiB), small enough to hold a few.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Largest JSON-RPC body an agent may post, in bytes. Above it: HTTP 413.
/// The same as a channel message, because a body that is larger could never be forwarded.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// Deepest nesting of arrays and objects in any JSON text. Deeper is malformed JSON (-32700 or 4400).
/// 512: syntax trees in the field reach 200; parsers of agents give up between 128 and a few thousand.
pub const JSON_DEPTH_MAX: usize = 512;

/// Longest token, in characters. Longer: 401 or 4401 without a look at it.
/// 4,096: many proxies cut a header line at 8 KiB.
pub const TOKEN_CHARS_MAX: usize = 4096;

/// Length above which `clientmcp token` warns, in characters: some proxies cut earlier.
pub const TOKEN_CHARS_WARN: usize = 2048;

/// Life of a token that `clientmcp token` mints, by default: a day, so that a leaked one dies soon.
pub const TOKEN_TTL: Duration = Duration::from_secs(24 * 3600);

/// Shortest secret, in bytes: HS256 wants a key as long as its output (RFC 7518 §3.2).
pub const SECRET_BYTES_MIN: usize = 32;

/// Tolerated difference of clocks when a token's times are checked.
pub const TOKEN_LEEWAY: Duration = Duration::from_secs(60);

/// Longest client ID, in characters.
pub const CLIENT_ID_CHARS_MAX: usize = 128;

/// Longest tool or prompt name, in characters (MCP 2025-11-25, Tools, Tool Names).
pub const NAME_CHARS_MAX: usize = 128;

/// Longest request line plus header section, in bytes, by default. Above it: HTTP 431.
pub const HEAD_BYTES_MAX: usize = 16 << 10;

/// Most header fields of a request, by default. Above it: HTTP 431. async-h1 can hold 128.
pub const HEADERS_MAX: usize = 100;

/// Longest size line of one chunk with its extensions, in bytes. Above it: HTTP 400.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;

/// Longest trailer section of a chunked body, in bytes. Above it: HTTP 431.
pub const TRAILER_BYTES_MAX: usize = 4096;

/// Largest register message, in bytes, by default. Above it: fault and close 4400.
pub const REGISTER_BYTES_MAX: usize = 1 << 20;

/// Most definitions of one register over its four lists, by default. Above it: fault and close 4400.
pub const DEFINITIONS_MAX: usize = 1000;

/// Longest reason of a WebSocket close, in bytes (RFC 6455 §5.5: 125 less the code).
pub const CLOSE_REASON_BYTES_MAX: usize = 123;

/// Longest resource URI that can be subscribed, in bytes. Longer: -32602.
/// 4,096: what a URL may have in practice.
pub const URI_BYTES_MAX: usize = 4096;

/// Memory for what 2025-era sessions asked to be remembered, in bytes, overhead included. Above it the
/// oldest sessions are forgotten, as if the bridge had been restarted.
pub const SESSIONS_BYTES_MAX: usize = 16 << 20;

/// What a remembered session takes besides its ID and its URIs, in bytes, about: its places in a map and
/// in a queue. Without it ten thousand sessions of short URIs would take ten times what is allowed.
pub const SESSION_OVERHEAD_BYTES: usize = 256;

/// What a subscribed URI takes besides its text, in bytes, about: its place in a set and in the heap.
pub const URI_OVERHEAD_BYTES: usize = 64;

/// Most elements of a JSON-RPC batch. Above it: HTTP 400 with -32600.
pub const BATCH_MAX: usize = 100;

/// Most rounds of questions to the agent that one call may take in the 2025 era. Beyond: a tool error.
/// 10: what the SDKs of the field allow.
pub const ROUNDS_MAX: usize = 10;

/// Notifications of one call that reach the agent at once; beyond the burst, so many a second. Of what
/// is more, the newest progress is kept and log messages are counted.
pub const NOTES_BURST: u64 = 100;
/// Notifications of one call that reach the agent in a second, once the burst is used up.
pub const NOTES_PER_SECOND: u64 = 20;

/// Notifications of one call that wait for an agent to read, in bytes. More count as too many.
pub const NOTES_QUEUED_BYTES_MAX: usize = 256 << 10;

/// Longest `Mcp-Session-Id` the bridge mints, in bytes.
pub const SESSION_ID_BYTES_MAX: usize = 1023;

/// Most 2025-era sessions whose log level and subscriptions are remembered; the oldest is dropped.
pub const SESSIONS_MAX: usize = 10_000;

/// Most resource URIs one 2025-era session may subscribe, or one `subscriptions/listen` may name. Above
/// it: -32602.
pub const SUBSCRIPTIONS_MAX: usize = 256;

/// Most header fields `--max-headers` may ask for: async-h1 parses into an array of 128, and no more.
pub const HEADERS_CEILING: usize = 128;

/// Largest header section `--max-header-bytes` may ask for, in bytes. 1 MiB: every connection may hold
/// that much before it has shown a token.
pub const HEAD_BYTES_CEILING: usize = 1 << 20;

/// Most connections at once, clients, agents and strangers together, by default. Above it: HTTP 503, or
/// close 4429, before any token is looked at. 200,000: every client of the default above, and an agent
/// for each.
pub const CONNECTIONS_MAX: usize = 200_000;

/// Connections beyond a limit that are told so at once; still more are closed without a word.
/// 256: a round trip each, so thousands a second learn why, and never more than these hold a file.
pub const TURNED_AWAY_MAX: usize = 256;

/// Time for a request of a connection beyond a limit to arrive. After it: closed without a word.
pub const TURNED_AWAY_TIMEOUT: Duration = Duration::from_secs(2);

/// Files kept for listeners, signals and connections that are told of a limit, when the file limit
/// bounds the connections; at most a quarter of that limit.
pub const FILES_OWN: u64 = 64;

/// Most connections of one client ID in a minute, by default: so many at once, and then one each
/// sixtieth of it. Above it: close 4429. 60: a page that reloads each second; the waits of our clients,
/// which double up to 30 s, come to a dozen.
pub const CONNECTS_PER_MINUTE_MAX: usize = 60;

/// Most registers of one connection in a minute, by default, counted in the same way. Above it the
/// bridge reads nothing from this client until the next is due. 120: a developer's every save, or a
/// hundred tools announced one by one; two a second of 1 MiB each cost a hundredth of a processor.
pub const REGISTERS_PER_MINUTE_MAX: usize = 120;

/// Largest rate a flag may ask for, in a minute: a hundred a second, as good as none at all.
pub const PER_MINUTE_CEILING: usize = 6_000;

/// Most clients at once, by default. Above it: close 4429. 100,000: near 200 MB at 2 KB each.
pub const CLIENTS_MAX: usize = 100_000;

/// Files kept free for agents, listeners and the runtime when the file limit bounds the clients; at
/// most half of that limit. 256: a client without an agent is of no use.
pub const FILES_RESERVED: u64 = 256;

/// Most running calls of one client, by default. Above it: a tool error for the agent.
/// 256: far above what one application answers at a time; each holds its agent's connection.
pub const CALLS_PER_CLIENT_MAX: usize = 256;

/// Most bytes queued for one client, by default. Above it: a tool error for the agent.
/// 8 MiB: two messages of the largest size, so that one being written does not refuse the next.
pub const QUEUED_BYTES_PER_CLIENT_MAX: usize = 8 << 20;

/// Most bytes that wait for the reader of one agent's stream, by default. Above it: a notification
/// stream ends, an answer of a batch becomes an error. 8 MiB: two messages of the largest size.
pub const QUEUED_BYTES_PER_STREAM_MAX: usize = 8 << 20;

/// Most open GET and listen streams of one client ID, by default. Above it: HTTP 429.
/// 64: one or two for each agent that shares the client.
pub const STREAMS_PER_CLIENT_MAX: usize = 64;

/// Time for a whole request head to arrive, by default. After it: HTTP 408 and close. Without it,
/// slow heads hold connections for nothing.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a connection to show a good token, by default, however many other requests it makes. After
/// it: closed. 60 s: far longer than an agent needs, so only a stranger is met by it.
pub const TOKEN_TIMEOUT: Duration = Duration::from_secs(60);

/// Time without a byte of progress in a body or a response, by default. After it: close.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Time an idle keep-alive connection stays open, by default. 75 s: above the 60 s of the pools that
/// agents and proxies use, so that it is they who close and no request meets a closed door.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// Time for a client to answer a call, by default. After it: a tool error, and a cancel to it.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Time a call waits for a client that was here a moment ago, by default: a page reload takes 1–3 s.
pub const RECONNECT_WAIT: Duration = Duration::from_secs(5);

/// Time for which the offer of a client that left is kept, by default.
pub const OFFLINE_GRACE: Duration = Duration::from_secs(30);

/// Time for running calls to finish once the bridge is to stop, by default. After it: tool errors.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest timeout a flag takes, and longest life of a minted token. Ten years: as good as for ever,
/// and no sum of it with a clock reading can overflow.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How long a new connection may take to register, by default. After it: close 4408.
pub const REGISTER_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a client with nothing else to say is asked to send `ping` (`pingIntervalMs`).
/// 30 s: below the shortest idle time-out of proxies in the field (60 s), with room for one lost.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Silence after which the bridge sends a WebSocket ping: a background tab answers those even when
/// its timers are throttled.
pub const PING_AFTER: Duration = Duration::from_secs(45);

/// Silence after which a client is taken for gone. After it: close 4408.
pub const SILENT_AFTER: Duration = Duration::from_secs(90);

/// How long the bridge goes on reading, and discarding, after it sent a close, so that the other side
/// sees the close and not a reset.
pub const LINGER: Duration = Duration::from_secs(2);

/// First ceiling of the random wait before a client dials again; it doubles with each failure.
pub const RECONNECT_MIN: Duration = Duration::from_millis(500);

/// Highest ceiling of that wait. 30 s: a bridge that comes back is found within half a minute, and a
/// hundred thousand clients that wait for it dial 7,000 times a second at most.
pub const RECONNECT_MAX: Duration = Duration::from_secs(30);

/// How long a client has to have been online for its next wait to begin at `RECONNECT_MIN` again.
/// 5 s: a bridge that takes a client in and drops it at once is not a bridge that works.
pub const ONLINE_RESET: Duration = Duration::from_secs(5);

/// How long a bridge may stay silent after a client's ping. After it the client dials again.
pub const PONG_TIMEOUT: Duration = Duration::from_secs(15);

/// How long dialling may take: name, TCP, TLS and handshake together. After it the client waits and
/// tries again.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(15);

/// Longest time before its `exp` that a client asks for a fresh token; a fifth of what is left of the
/// token's life if that is less.
pub const RENEW_BEFORE: Duration = Duration::from_secs(300);

/// How long a handler whose call was cancelled may go on to clean up. After it its future is dropped.
pub const CLEAN_UP: Duration = Duration::from_secs(5);

/// How long a call may stay without an answer before its response becomes an event stream, and how
/// often a comment is written there.
/// 1 s: agents' HTTP libraries give up on headers after 5 s at the earliest.
pub const STREAM_AFTER: Duration = Duration::from_secs(1);

/// How often a quiet GET or `subscriptions/listen` stream gets a comment.
/// 15 s: a quarter of the shortest idle time-out of proxies in the field.
pub const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

/// Least time between two `list_changed` of one list on one client ID's streams.
pub const CHANGE_INTERVAL: Duration = Duration::from_millis(100);

/// How long a peer may read nothing while bytes wait for it. After it its connection is dropped.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);

const _: () = assert!(BODY_BYTES_MAX <= MESSAGE_BYTES_MAX, "a body must be able to fit a message");
const _: () = assert!(REGISTER_BYTES_MAX <= MESSAGE_BYTES_MAX, "a register is a message");
const _: () =
    assert!(TOKEN_CHARS_MAX < HEAD_BYTES_MAX, "a token must fit the head that carries it");
const _: () = assert!(CONNECTIONS_MAX > CLIENTS_MAX, "who is no client must find room too");
const _: () = assert!(HEADERS_MAX <= HEADERS_CEILING, "the default is one the flag takes");
