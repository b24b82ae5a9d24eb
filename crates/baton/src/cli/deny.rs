//! `baton deny ID "reason"`.

use jiff::Timestamp;

use crate::approvals::{self, ApprovalReply};
use crate::cli::args::DenyArgs;
use crate::cli::{App, Outcome, approve};

pub(super) fn run(app: &App, args: &DenyArgs) -> anyhow::Result<Outcome> {
    match approvals::find(&app.store(), &args.id, Timestamp::now()) {
        Ok(case) => {
            approve::give(app, &case, args.door, &ApprovalReply::Deny { reason: args.reason.clone() })
        }
        Err(e) => Ok(approve::refused(&e)),
    }
}
