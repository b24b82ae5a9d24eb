//! Settles requests by the client's later events: the tool ran, or can no longer run.

use baton_core::approval::{Case, CaseInput, CaseState, Closing, Request, RequestId, Writes, settled_by};
use baton_core::session::Session;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::approvals::log;
use crate::sessions::SEAL_PATIENCE;
use crate::store::Store;
use crate::store::approvals::ApprovalError;

/// A tool of this session has run.
#[cold]
pub(crate) fn tool_ran(store: &Store, session: &Session, tool: &str, input: Value, now: Timestamp) {
    let cases = cases(store, session, now);
    let Some(case) = settled_by(&cases, tool, &input) else { return };
    let ran = CaseInput::ToolRan { tool: tool.to_owned(), input, at: now };
    apply(store, case, &ran, now);
    forget(store, session, now);
}

/// Whose requests an event ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker<'a> {
    /// The agent itself; its subagents may still work.
    Agent,
    Subagent(&'a str),
    /// The agent and all its subagents.
    All,
}

/// Closes everything that `asker` asked for in this session.
#[cold]
pub(crate) fn ended(store: &Store, session: &Session, asker: Asker<'_>, because: Closing, now: Timestamp) {
    for case in cases(store, session, now) {
        let is_its = match asker {
            Asker::Agent => case.request.subagent.is_none(),
            Asker::Subagent(id) => case.request.subagent.as_deref() == Some(id),
            Asker::All => true,
        };
        if is_its {
            apply(store, &case, &CaseInput::Ended { because, at: now }, now);
        }
    }
    forget(store, session, now);
}

/// The client itself reports the outcome: the tool ran, or it did not.
pub(crate) fn by_client(store: &Store, id: &RequestId, ran: bool, at: Timestamp) {
    let case = match store.approvals().get(id) {
        Ok(Some(case)) => case,
        Ok(None) => return,
        Err(e) => return store.log().fault(at, "read a permission request", &e),
    };
    let input = if ran {
        let Request { tool, input, .. } = case.request.clone();
        CaseInput::ToolRan { tool, input, at }
    } else {
        CaseInput::Ended { because: Closing::AnsweredAtTerminal, at }
    };
    apply(store, &case, &input, at);
}

fn cases(store: &Store, session: &Session, now: Timestamp) -> Vec<Case> {
    let get = |id| match store.approvals().get(id) {
        Ok(case) => case,
        Err(e) => {
            store.log().fault(now, "read a permission request", &e);
            None
        }
    };
    session.approvals.iter().filter_map(get).collect()
}

/// Writes the consequences of `input`, and decides again if another answer was faster.
fn apply(store: &Store, case: &Case, input: &CaseInput, now: Timestamp) {
    let approvals = store.approvals();
    let mut case = case.clone();
    let settled = (|| -> Result<(), ApprovalError> {
        // Each round either writes everything or learns of the only other answer.
        for _ in 0..3 {
            let Writes { answer, outcome } = case.step(input);
            if let Some(answer) = &answer
                && !approvals.answer(&case.id, answer)?
            {
                match approvals.get(&case.id)? {
                    Some(newer) => case = newer,
                    None => return Ok(()),
                }
                continue;
            }
            if let Some(outcome) = &outcome {
                approvals.settle(&case.id, outcome)?;
            }
            case.answer = case.answer.take().or(answer);
            case.outcome = case.outcome.take().or(outcome);
            return Ok(());
        }
        Ok(())
    })();
    if let Err(e) = settled {
        return store.log().fault(now, "settle a permission request", &e);
    }
    if case.state() != CaseState::Offered {
        log(store, &case, "approval-settled", json!({ "state": case.state().text() }), now);
    }
}

/// Removes settled requests from the session's record.
fn forget(store: &Store, session: &Session, now: Timestamp) {
    let open: Vec<_> = cases(store, session, now)
        .into_iter()
        .filter(|case| matches!(case.state(), CaseState::Waiting | CaseState::Offered))
        .map(|case| case.id)
        .collect();
    let known = &session.approvals;
    let forgotten = store.sessions().update(&session.id, SEAL_PATIENCE, |s| {
        s.approvals.retain(|id| open.contains(id) || !known.contains(id));
    });
    if let Err(e) = forgotten {
        store.log().fault(now, "forget a settled permission request", &e);
    }
}
