/**
 * Every number the SDK goes by, with its unit and its reason.
 *
 * Knows nothing else. Times are milliseconds, sizes bytes of UTF-8. What the bridge says of itself
 * (`registered`) wins over what stands here.
 */

/** Largest message of the channel (SPEC §4.1), until the bridge names another. */
export const MESSAGE_BYTES_MAX = 4 << 20;
/** A smaller limit is no limit: not even the error that says so would fit. */
export const MESSAGE_BYTES_MIN = 512;
/** How often to send something (SPEC §4.4.1), until the bridge names another. */
export const PING_INTERVAL = 30_000;
/** Largest delay a timer takes; above it, it goes off at once. */
export const TIMER_MAX = 2 ** 31 - 1;

/** Shortest wait before dialing again: also how often a page that "wakes" may dial. */
export const BACKOFF_MIN = 500;
/** Longest wait before dialing again. */
export const BACKOFF_MAX = 30_000;
/** Being online for so long starts the waits from the shortest again. */
export const STEADY = 5_000;

/** For a token function: a person may be logging in, but one that hangs must not end it all. */
export const TOKEN_DEADLINE = 120_000;
/** From dialing to `registered`; the bridge itself gives up after 10 s. */
export const JOIN_DEADLINE = 20_000;
/** For an answer to the probe of a page that wakes. */
export const WAKE_DEADLINE = 2_000;
/** For an answer to a `ping` in between: a slow network is no reason to hang up. */
export const PING_DEADLINE = 15_000;
/** A timer later than this was throttled or asleep: what it measured counts for nothing. */
export const LATE = 1_000;
/** So many late deadlines in a row, with silence all along, count after all. */
export const LATE_DEADLINES_MAX = 2;

/** A token is renewed when a fifth of its life is left, but within these two. */
export const RENEW_LEAD_MIN = 30_000;
export const RENEW_LEAD_MAX = 300_000;

/** Functions that wait for an agent's answer to `ctx.elicit()`; one more ends the oldest. */
export const SUSPENDED_MAX = 64;
/** How long each waits; above it, its `ctx.elicit()` fails. */
export const SUSPENDED_TIME = 300_000;
/** Values in one completion (MCP, completion/complete). */
export const COMPLETIONS_MAX = 100;
