//! `baton answer ID CHOICE|TEXT…`.

use jiff::Timestamp;

use crate::approvals::{self, ApprovalReply};
use crate::cli::args::AnswerArgs;
use crate::cli::{App, Outcome, approve};

pub(super) fn run(app: &App, args: &AnswerArgs) -> anyhow::Result<Outcome> {
    match approvals::find(&app.store(), &args.id, Timestamp::now()) {
        Ok(case) => approve::give(app, &case, args.door, &ApprovalReply::Answer(args.answers.clone())),
        Err(e) => Ok(approve::refused(&e)),
    }
}
