//! The table of all routes. The API's description is generated from it.

use hyper::{Method, StatusCode, header};

use crate::daemon::api::HttpReply;
use crate::daemon::auth::Proof;

/// The operation of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Health,
    Description,
    Sessions,
    Session,
    Conversation,
    Levels,
    Log,
    Chain,
    Draft,
    Document,
    Rotate,
    Undo,
    Retire,
    Cancel,
    Spawn,
    Handoff,
    Send,
    Messages,
    ContextUsage,
    Approvals,
    Approve,
    Events,
    Hop,
    Tasks,
    Search,
    AnyConversation,
    Subagents,
    Inbox,
    Reply,
    Read,
    Backups,
    Fleet,
    Doctor,
    Config,
    Code,
    Login,
    Confirmation,
    Page,
    Confirm,
    Unconfirm,
    Listen,
    Stop,
}

impl Operation {
    /// Whether this proof suffices for it.
    pub(crate) fn is_open_to(self, proof: Proof) -> bool {
        match self {
            Self::Stop | Self::Listen => proof == Proof::Owner,
            // A page has its cookie; whether to open another page, and what a page may do, is the user's decision.
            Self::Code | Self::Confirmation => matches!(proof, Proof::Owner | Proof::Token),
            Self::Confirm | Self::Unconfirm => matches!(proof, Proof::Cookie { .. }),
            Self::Login => true,
            _ => proof != Proof::Anonymous,
        }
    }

    /// Whether it changes something of the user's or of an agent's. A page may do that only if the user says so.
    pub(crate) fn is_change(self) -> bool {
        match self {
            Self::Rotate
            | Self::Undo
            | Self::Retire
            | Self::Cancel
            | Self::Spawn
            | Self::Handoff
            | Self::Send
            | Self::ContextUsage
            | Self::Reply
            | Self::Read
            | Self::Approve => true,
            Self::Health
            | Self::Description
            | Self::Sessions
            | Self::Session
            | Self::Conversation
            | Self::Levels
            | Self::Log
            | Self::Chain
            | Self::Draft
            | Self::Document
            | Self::Messages
            | Self::Approvals
            | Self::Events
            | Self::Hop
            | Self::Tasks
            | Self::Search
            | Self::AnyConversation
            | Self::Subagents
            | Self::Inbox
            | Self::Backups
            | Self::Fleet
            | Self::Doctor
            | Self::Config
            | Self::Code
            | Self::Login
            | Self::Confirmation
            | Self::Page
            | Self::Confirm
            | Self::Unconfirm
            | Self::Listen
            | Self::Stop => false,
        }
    }
}

/// The methods in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// One route. `takes` and `gives` name schemas in `openapi.rs`.
pub(crate) struct Route {
    pub(crate) method: Verb,
    /// `{id}` stands for one segment.
    pub(crate) path: &'static str,
    pub(crate) operation: Operation,
    pub(crate) summary: &'static str,
    pub(crate) takes: Option<&'static str>,
    pub(crate) query: &'static [(&'static str, &'static str)],
    pub(crate) gives: &'static [(u16, &'static str)],
}

const fn get(path: &'static str, operation: Operation, summary: &'static str) -> Route {
    Route { method: Verb::Get, path, operation, summary, takes: None, query: &[], gives: &[] }
}

const fn post(
    path: &'static str,
    operation: Operation,
    takes: Option<&'static str>,
    summary: &'static str,
) -> Route {
    Route { method: Verb::Post, path, operation, summary, takes, query: &[], gives: &[] }
}

pub(crate) const ROUTES: &[Route] = &[
    Route {
        gives: &[(200, "Health")],
        ..get("/health", Operation::Health, "That the daemon runs, and since when")
    },
    Route {
        gives: &[(200, "Description")],
        ..get("/openapi.json", Operation::Description, "This description")
    },
    Route {
        query: &[("all", "true: include agents that ended more than a day ago")],
        gives: &[(200, "Sessions"), (422, "Error")],
        ..get("/sessions", Operation::Sessions, "All agents")
    },
    Route {
        gives: &[(200, "Session"), (404, "Error")],
        ..get("/sessions/{id}", Operation::Session, "One agent, by its name or the id of any of its sessions")
    },
    Route {
        query: &[
            ("before", "older entries than the one with this cursor"),
            ("after", "newer ones; to see how a running tool ends, ask from the last entry before it"),
            ("limit", "so many; 100 by itself, 500 at most"),
            ("session", "of an earlier session of the agent"),
        ],
        gives: &[(200, "Conversation"), (404, "Error"), (422, "Error")],
        ..get(
            "/sessions/{id}/conversation",
            Operation::Conversation,
            "The conversation, by default its newest entries; secrets are masked",
        )
    },
    Route {
        query: &[("since", "a time stamp; by default a day ago")],
        gives: &[(200, "Levels"), (404, "Error"), (422, "Error")],
        ..get(
            "/sessions/{id}/levels",
            Operation::Levels,
            "How full its context was over time, and what happened to it",
        )
    },
    Route {
        query: &[("limit", "how many of the newest; 200 by default")],
        gives: &[(200, "LogLines"), (404, "Error"), (422, "Error")],
        ..get("/sessions/{id}/log", Operation::Log, "The log's lines about it of the last day, oldest first")
    },
    Route {
        gives: &[(200, "Chain"), (404, "Error")],
        ..get("/sessions/{id}/chain", Operation::Chain, "Its sessions, and the handoffs between them")
    },
    Route {
        gives: &[(200, "Draft"), (404, "Error")],
        ..get(
            "/sessions/{id}/draft",
            Operation::Draft,
            "The handoff as it would be sealed now, and what the last one had that this one lacks",
        )
    },
    Route {
        gives: &[(200, "Document"), (404, "Error")],
        ..get("/handoffs/{id}", Operation::Document, "A sealed handoff, by its id")
    },
    Route {
        gives: &[(200, "Hop"), (404, "Error")],
        ..get(
            "/handoffs/{id}/hop",
            Operation::Hop,
            "What a handoff took over from the one before it, what it left out and what it added",
        )
    },
    Route {
        query: &[
            ("since", "a time stamp; by default seven days ago"),
            ("limit", "how many of the newest; 100 by default"),
        ],
        gives: &[(200, "Tasks"), (422, "Error")],
        ..get("/tasks", Operation::Tasks, "Each agent's chain of contexts over days, and how each ended")
    },
    Route {
        query: &[
            ("q", "words and \"phrases\""),
            ("regex", "true: `q` is a regular expression"),
            ("role", "only this speaker: user, assistant, tool"),
            ("tool", "only calls of this tool and their results"),
            ("file", "only calls about this file; the end of its path is enough"),
            ("since", "not before: 2026-11-01, a time stamp, or 3h, 7d ago"),
            ("until", "before"),
            ("project", "only of the project with this name"),
            ("context", "lines around each hit"),
            ("limit", "so many; 50 by itself, 500 at most"),
        ],
        gives: &[(200, "Found"), (422, "Error")],
        ..get("/search", Operation::Search, "Searches all conversations; secrets are masked")
    },
    Route {
        query: &[
            ("before", "older entries than the one with this cursor"),
            ("after", "newer ones"),
            ("limit", "so many; 100 by itself, 500 at most"),
            ("subagent", "of the subagent with this name"),
        ],
        gives: &[(200, "Conversation"), (404, "Error"), (422, "Error")],
        ..get(
            "/conversations/{id}",
            Operation::AnyConversation,
            "The conversation of any session, by its whole id; secrets are masked",
        )
    },
    Route {
        gives: &[(200, "Subagents"), (404, "Error")],
        ..get("/conversations/{id}/subagents", Operation::Subagents, "The subagents of a session")
    },
    Route {
        gives: &[(200, "Messages")],
        ..get("/inbox", Operation::Inbox, "The user's own messages, oldest first")
    },
    Route {
        gives: &[
            (200, "Replied"),
            (403, "Error"),
            (404, "Error"),
            (409, "Error"),
            (413, "Error"),
            (422, "Error"),
        ],
        ..post("/inbox/{id}/reply", Operation::Reply, Some("Answer"), "Answers a message of the user's inbox")
    },
    Route {
        gives: &[(200, "Read"), (403, "Error"), (404, "Error"), (422, "Error")],
        ..post("/inbox/{id}/read", Operation::Read, None, "The user has read it")
    },
    Route {
        gives: &[(200, "Backups")],
        ..get(
            "/backups",
            Operation::Backups,
            "Mirrored conversations: how much, verified when, how to restore",
        )
    },
    Route {
        gives: &[(200, "Fleet")],
        ..get("/fleet", Operation::Fleet, "The other machines of the fleet and their agents, as last heard")
    },
    Route {
        gives: &[(200, "Doctor")],
        ..get("/doctor", Operation::Doctor, "What `baton doctor` finds in the home folder")
    },
    Route {
        query: &[("agent", "the settings that apply in its folder")],
        gives: &[(200, "Config"), (404, "Error"), (422, "Error")],
        ..get("/config", Operation::Config, "Every setting, its value and where that comes from")
    },
    Route {
        gives: &[(200, "Done"), (403, "Error"), (404, "Error"), (409, "Error")],
        ..post(
            "/sessions/{id}/rotate",
            Operation::Rotate,
            None,
            "A fresh context now, with a handoff sealed first",
        )
    },
    Route {
        gives: &[(200, "Done"), (403, "Error"), (404, "Error")],
        ..post(
            "/sessions/{id}/undo",
            Operation::Undo,
            None,
            "Back to the conversation before the last rotation",
        )
    },
    Route {
        gives: &[(200, "Done"), (403, "Error"), (404, "Error")],
        ..post("/sessions/{id}/retire", Operation::Retire, None, "Stops it for good")
    },
    Route {
        gives: &[(200, "Done"), (403, "Error"), (404, "Error")],
        ..post(
            "/sessions/{id}/cancel",
            Operation::Cancel,
            None,
            "Takes back a handoff that is pending, or the request for a fresh context",
        )
    },
    Route {
        gives: &[(200, "Session"), (403, "Error"), (404, "Error"), (409, "Error"), (422, "Error")],
        ..post(
            "/spawn",
            Operation::Spawn,
            Some("Spawn"),
            "Starts an agent in a new tmux pane, in the daemon's environment",
        )
    },
    Route {
        gives: &[(200, "Scheduled"), (403, "Error"), (404, "Error"), (409, "Error"), (422, "Error")],
        ..post(
            "/sessions/{id}/handoff",
            Operation::Handoff,
            Some("Handoff"),
            "An agent hands over its own work. Carried out when its turn ends; the last one counts",
        )
    },
    Route {
        gives: &[
            (200, "Sent"),
            (403, "Error"),
            (404, "Error"),
            (409, "Error"),
            (413, "Error"),
            (422, "Error"),
        ],
        ..post(
            "/sessions/{id}/messages",
            Operation::Send,
            Some("Letter"),
            "Leave a message. The answer means that it is on disk",
        )
    },
    Route {
        query: &[("limit", "the newest so many"), ("state", "only those in this state")],
        gives: &[(200, "Messages"), (404, "Error"), (422, "Error")],
        ..get(
            "/sessions/{id}/messages",
            Operation::Messages,
            "An agent's messages and their states, oldest first",
        )
    },
    Route {
        gives: &[(200, "UsageNoted"), (422, "Error")],
        ..post(
            "/hooks/context-usage",
            Operation::ContextUsage,
            Some("Usage"),
            "A script reports how full an agent is, or that its client compacts. Of a session that is not ours the \
             answer is `unknown_session`",
        )
    },
    Route {
        gives: &[(200, "Approvals")],
        ..get(
            "/approvals",
            Operation::Approvals,
            "What agents wait for, oldest first. /events tells of each: approval-asked, -answered, -settled",
        )
    },
    Route {
        gives: &[(200, "Approval"), (403, "Error"), (404, "Error"), (409, "Error"), (422, "Error")],
        ..post(
            "/approvals/{id}",
            Operation::Approve,
            Some("Verdict"),
            "Answers a request. The first answer counts; `hash` is the id of what was shown",
        )
    },
    Route {
        query: &[
            ("agent", "only those of this agent"),
            (
                "changes",
                "true: also agent-changed with an agent as /sessions/{id} shows it, agent-gone, and agents-changed for \
                 a reader that fell behind; without ids, so ask for all agents after connecting",
            ),
        ],
        gives: &[(200, "Events"), (404, "Error"), (422, "Error"), (503, "Error")],
        ..get("/events", Operation::Events, "The log as it grows. Last-Event-ID resumes where a reader was")
    },
    Route {
        gives: &[(200, "Code"), (403, "Error")],
        ..post(
            "/codes",
            Operation::Code,
            None,
            "A code that a page may exchange for a cookie, once, within a minute",
        )
    },
    Route {
        gives: &[(200, "LoggedIn"), (403, "Error"), (422, "Error")],
        ..post("/login", Operation::Login, Some("Login"), "Exchanges a code for a cookie")
    },
    Route {
        gives: &[(200, "Confirmation"), (403, "Error")],
        ..post(
            "/confirmations",
            Operation::Confirmation,
            None,
            "Eight digits that let one page change things; typed there within three minutes",
        )
    },
    Route {
        gives: &[(200, "Page")],
        ..get("/page", Operation::Page, "What the caller may do here: look, or also change things")
    },
    Route {
        gives: &[(200, "Page"), (403, "Error"), (422, "Error")],
        ..post(
            "/page/confirm",
            Operation::Confirm,
            Some("Login"),
            "From a page: the user confirms by a code of /confirmations that it may change things",
        )
    },
    Route {
        gives: &[(200, "Page"), (403, "Error")],
        ..post("/page/look", Operation::Unconfirm, None, "From a page: it is read-only from now on")
    },
    Route {
        gives: &[(200, "Listening"), (403, "Error"), (409, "Error")],
        ..post(
            "/listen",
            Operation::Listen,
            None,
            "Opens the HTTP port, or the next one that is free; only through the unix socket",
        )
    },
    Route {
        gives: &[(200, "Stopping")],
        ..post("/stop", Operation::Stop, None, "Stops the daemon; only through the unix socket")
    },
];

/// A request's operation, and the segment in place of `{id}`.
pub(crate) fn find(method: &Method, path: &str) -> Result<(Operation, String), HttpReply> {
    ROUTES
        .iter()
        .filter(|route| route.method.as_str() == method.as_str())
        .find_map(|route| Some((route.operation, matches(route.path, path)?.to_owned())))
        .ok_or_else(|| not_allowed(path))
}

/// The answer when this path does not accept the request's method.
pub(crate) fn not_allowed(path: &str) -> HttpReply {
    let methods: Vec<&str> = ROUTES
        .iter()
        .filter(|route| matches(route.path, path).is_some())
        .map(|route| route.method.as_str())
        .collect();
    if methods.is_empty() {
        return HttpReply::error(StatusCode::NOT_FOUND, "there is no such path; see /openapi.json");
    }
    HttpReply::error(StatusCode::METHOD_NOT_ALLOWED, "this path takes another method; see /openapi.json")
        .with_header(header::ALLOW, &methods.join(", "))
}

/// The segment of `path` in place of `{id}`, empty if the pattern has none. `None` if the path does not match.
fn matches<'a>(pattern: &str, path: &'a str) -> Option<&'a str> {
    let (mut theirs, mut id) = (path.split('/'), "");
    for ours in pattern.split('/') {
        let segment = theirs.next()?;
        if ours == "{id}" && !segment.is_empty() {
            id = segment;
        } else if ours != segment {
            return None;
        }
    }
    theirs.next().is_none().then_some(id)
}
