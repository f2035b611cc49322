//! The names and versions of MCP that the bridge has to know, both eras.
//!
//! Only what is decided on here; everything else passes as the raw JSON it came as.

/// The one revision of the 2026 era this bridge serves; `supportedVersions` and -32022 list it.
pub const MODERN: &str = "2026-07-28";

/// The revisions of the 2025 era (and before), oldest first.
pub const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// What `initialize` answers when it asks for something that is not in [`LEGACY`].
pub const LEGACY_NEWEST: &str = "2025-11-25";

/// The revision that a 2025-era request without any version is taken for (MCP 2025-06-18, Transports).
pub const LEGACY_ASSUMED: &str = "2025-03-26";

/// Members of `_meta` that MCP 2026-07-28 reserves.
pub mod meta {
    /// The revision that a request follows: the claim that makes it one of the 2026 era.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// The agent's `Implementation`.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// What the agent can be asked back; every request must have it.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The least severe log message that the agent wants of this request.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The server's `Implementation`, in every result.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// The ID of the listen request that a notification belongs to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// What the agent knows a request's progress by, in both eras.
    pub const PROGRESS_TOKEN: &str = "progressToken";
}

/// Which of the two lifecycles a request follows; decided for each request anew (SPEC, Eras).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25 and before: `initialize`, sessions, GET streams.
    Legacy,
    /// 2026-07-28: every request stands alone.
    Modern,
}

/// A method that is forwarded to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// `tools/call`: its result has `isError`, so that trouble can be told in it.
    CallTool,
    /// `prompts/get`.
    GetPrompt,
    /// `resources/read`: the one whose result is cacheable.
    ReadResource,
    /// `completion/complete`: the one whose result may not ask back.
    Complete,
}

impl Forwarded {
    /// The method of that name, if it is one of the four.
    pub fn parse(method: &str) -> Option<Forwarded> {
        Some(match method {
            "tools/call" => Forwarded::CallTool,
            "prompts/get" => Forwarded::GetPrompt,
            "resources/read" => Forwarded::ReadResource,
            "completion/complete" => Forwarded::Complete,
            _ => return None,
        })
    }

    /// The method as it is on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Forwarded::CallTool => "tools/call",
            Forwarded::GetPrompt => "prompts/get",
            Forwarded::ReadResource => "resources/read",
            Forwarded::Complete => "completion/complete",
        }
    }

    /// The member of `params` that `Mcp-Name` mirrors.
    pub fn mirrored(self) -> Option<&'static str> {
        match self {
            Forwarded::CallTool | Forwarded::GetPrompt => Some("name"),
            Forwarded::ReadResource => Some("uri"),
            Forwarded::Complete => None,
        }
    }
}

/// Severity of a log message, least severe first (RFC 5424 as MCP Logging uses it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For finding faults in a program.
    Debug,
    /// A normal step.
    Info,
    /// Normal, but worth knowing.
    Notice,
    /// May become a fault.
    Warning,
    /// Something failed.
    Error,
    /// A part of the application failed.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// The application is of no use.
    Emergency,
}

impl LogLevel {
    /// The names of all levels, for a sentence.
    pub const NAMES: &str = "debug, info, notice, warning, error, critical, alert or emergency";

    /// The level as it is on the wire.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Critical => "critical",
            LogLevel::Alert => "alert",
            LogLevel::Emergency => "emergency",
        }
    }

    /// The level of that name; names have a case.
    pub fn parse(name: &str) -> Option<LogLevel> {
        Some(match name {
            "debug" => LogLevel::Debug,
            "info" => LogLevel::Info,
            "notice" => LogLevel::Notice,
            "warning" => LogLevel::Warning,
            "error" => LogLevel::Error,
            "critical" => LogLevel::Critical,
            "alert" => LogLevel::Alert,
            "emergency" => LogLevel::Emergency,
            _ => return None,
        })
    }
}

/// The three kinds of change an agent can be told about without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Changes(u8);

impl Changes {
    /// No change.
    pub const NONE: Changes = Changes(0);
    /// The list of tools changed.
    pub const TOOLS: Changes = Changes(1);
    /// The list of prompts changed.
    pub const PROMPTS: Changes = Changes(2);
    /// Resources and resource templates share one notification.
    pub const RESOURCES: Changes = Changes(4);
    /// All three.
    pub const ALL: Changes = Changes(7);

    /// Whether nothing changed.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is in either.
    pub fn with(self, other: Changes) -> Changes {
        Changes(self.0 | other.0)
    }

    /// What is in both.
    pub fn and(self, other: Changes) -> Changes {
        Changes(self.0 & other.0)
    }

    /// Whether all of `other` is in this.
    pub fn has(self, other: Changes) -> bool {
        self.0 & other.0 == other.0
    }

    /// The notification methods for what is set.
    pub fn methods(self) -> impl Iterator<Item = &'static str> {
        [
            (Changes::TOOLS, "notifications/tools/list_changed"),
            (Changes::PROMPTS, "notifications/prompts/list_changed"),
            (Changes::RESOURCES, "notifications/resources/list_changed"),
        ]
        .into_iter()
        .filter(move |(bit, _)| self.has(*bit))
        .map(|(_, method)| method)
    }
}

#[cfg(test)]
mod tests;
