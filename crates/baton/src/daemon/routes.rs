//! The table of everything that can be asked. The API's description is made from it.

use hyper::{Method, StatusCode};

use super::api::Reply;
use super::auth::Proof;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Health,
    Description,
    Sessions,
    Session,
    Handoff,
    Send,
    Messages,
    ContextUsage,
    Events,
    Code,
    Login,
    Stop,
}

impl Operation {
    /// Whether a proof is enough for it.
    pub fn is_open_to(self, proof: Proof) -> bool {
        match self {
            Self::Stop => proof == Proof::Owner,
            // A page has its cookie already; another one asks the user.
            Self::Code => matches!(proof, Proof::Owner | Proof::Token),
            Self::Login => true,
            _ => proof != Proof::Nobody,
        }
    }
}

/// Reading or changing; there is nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    Post,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// One thing that can be asked, with what is sent and what may come back: names of schemas in `openapi.rs`.
pub struct Route {
    pub method: Verb,
    /// `{id}` stands for one segment.
    pub path: &'static str,
    pub operation: Operation,
    pub summary: &'static str,
    pub takes: Option<&'static str>,
    pub query: &'static [(&'static str, &'static str)],
    pub gives: &'static [(u16, &'static str)],
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

pub const ROUTES: &[Route] = &[
    Route { gives: &[(200, "Health")], ..get("/health", Operation::Health, "That it runs, and since when") },
    Route {
        gives: &[(200, "Description")],
        ..get("/openapi.json", Operation::Description, "This description")
    },
    Route { gives: &[(200, "Sessions")], ..get("/sessions", Operation::Sessions, "All agents") },
    Route {
        gives: &[(200, "Session"), (404, "Error")],
        ..get(
            "/sessions/{id}",
            Operation::Session,
            "One agent, by its name or the id of any of its conversations",
        )
    },
    Route {
        gives: &[(200, "Scheduled"), (403, "Error"), (404, "Error"), (409, "Error"), (422, "Error")],
        ..post(
            "/sessions/{id}/handoff",
            Operation::Handoff,
            Some("Handoff"),
            "An agent hands over its own work; carried out when its turn ends, the last one counts",
        )
    },
    Route {
        gives: &[(200, "Sent"), (404, "Error"), (413, "Error"), (422, "Error")],
        ..post(
            "/sessions/{id}/messages",
            Operation::Send,
            Some("Letter"),
            "Leave a message; the answer means it is on disk",
        )
    },
    Route {
        query: &[("limit", "at most so many, the newest"), ("state", "only those in this state")],
        gives: &[(200, "Messages"), (404, "Error")],
        ..get(
            "/sessions/{id}/messages",
            Operation::Messages,
            "An agent's messages and where they stand, oldest first",
        )
    },
    Route {
        gives: &[(200, "UsageNoted"), (422, "Error")],
        ..post(
            "/hooks/context-usage",
            Operation::ContextUsage,
            Some("Usage"),
            "How full an agent is, or that its client compacts, told by a script",
        )
    },
    Route {
        query: &[("agent", "only of this agent")],
        gives: &[(200, "Events"), (503, "Error")],
        ..get(
            "/events",
            Operation::Events,
            "What happens, as it happens; Last-Event-ID goes on where a reader was",
        )
    },
    Route {
        gives: &[(200, "Code")],
        ..post(
            "/codes",
            Operation::Code,
            None,
            "A code that one page may exchange for its cookie, once, within a minute",
        )
    },
    Route {
        gives: &[(200, "LoggedIn"), (403, "Error"), (422, "Error")],
        ..post("/login", Operation::Login, Some("Login"), "The cookie of a page that was given a code")
    },
    Route {
        gives: &[(200, "Stopping")],
        ..post("/stop", Operation::Stop, None, "Stop; through the unix socket only")
    },
];

/// The operation of a request, and the segment that stands for `{id}`.
pub fn find(method: &Method, path: &str) -> Result<(Operation, String), Reply> {
    let mut known = false;
    for route in ROUTES {
        let Some(id) = matches(route.path, path) else { continue };
        if route.method.as_str() == method.as_str() {
            return Ok((route.operation, id.to_owned()));
        }
        known = true;
    }
    Err(if known {
        Reply::error(StatusCode::METHOD_NOT_ALLOWED, "this path takes another method; see /openapi.json")
    } else {
        Reply::error(StatusCode::NOT_FOUND, "there is no such path; see /openapi.json")
    })
}

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
