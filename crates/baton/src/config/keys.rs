//! The table of everything that can be set. To add a setting, add a field to [`Config`] and a row here.

use crate::config::Config;
use crate::config::values::{
    Shown as _, answer_budget, budget, channels, command, compaction, count, days, duration, folder, hosts,
    kilobytes, loopback, muted, narrative, percent, percent_or_none, provider, socket, tokens,
    tokens_or_none, wait, wait_for, week, yes_no,
};
use crate::sys::paths::Paths;

/// One setting.
pub struct SettingKey {
    /// `section.key`, or a bare `key`.
    pub name: &'static str,
    pub help: &'static str,
    pub set: fn(&mut Config, &RawSetting, &Paths) -> Result<(), &'static str>,
    pub get: fn(&Config) -> String,
}

/// Who besides the user may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// No project: where files are, what runs on this machine, who is notified, and how long things are kept.
    User,
    /// A project whose folder the user has trusted.
    Accepted,
    /// Any project: it only changes what is shown there.
    Shown,
}

/// A value as written in a file or the environment.
#[derive(Debug, Clone, PartialEq)]
pub enum RawSetting {
    Bool(bool),
    Int(i64),
    Text(String),
    /// A list, a table or a date, which no key accepts.
    Other,
}

impl SettingKey {
    pub fn reach(&self) -> Reach {
        let section = self.name.split_once('.').map_or("", |(section, _)| section);
        match (section, self.name) {
            ("notify" | "mirror" | "serve" | "page" | "approvals" | "fleet", _)
            | (_, "handoff.dir" | "retention_days" | "panes.socket") => Reach::User,
            (_, "memory.announce") => Reach::Shown,
            _ => Reach::Accepted,
        }
    }

    /// `BATON_CONTEXT_WARNING_PERCENTAGE` for `context.warning_percentage`.
    pub(crate) fn env_name(&self) -> String {
        format!("BATON_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// Whether a variable may set it. A project sets the variables of its agents, and one of the agents may start the
    /// daemon.
    pub(crate) fn has_variable(&self) -> bool {
        !matches!(self.name, "page.write" | "serve.hosts" | "fleet.share" | "fleet.hide")
    }
}

macro_rules! row {
    ($name:literal, $help:literal, $parse:ident, $($field:ident).+) => {
        SettingKey {
            name: $name,
            help: $help,
            set: |config, raw, paths| {
                config.$($field).+ = $parse(raw, paths)?;
                Ok(())
            },
            get: |config| config.$($field).+.shown(),
        }
    };
}

pub const KEYS: &[SettingKey] = &[
    row!("context.enabled", "measure how full the agent is, and tell it", yes_no, context.enabled),
    row!(
        "context.early_warning_percentage",
        "early warning from here, in percent of the window",
        percent,
        context.early_warning_percentage
    ),
    row!(
        "context.warning_percentage",
        "warning from here: one quiet sentence to the agent",
        percent,
        context.warning_percentage
    ),
    row!(
        "context.critical_percentage",
        "critical from here: the agent is asked for a handoff",
        percent,
        context.critical_percentage
    ),
    row!(
        "context.early_warning_tokens",
        "the same in tokens; the lower of the two applies",
        tokens_or_none,
        context.early_warning_tokens
    ),
    row!(
        "context.warning_tokens",
        "the same in tokens; the lower of the two applies",
        tokens_or_none,
        context.warning_tokens
    ),
    row!(
        "context.critical_tokens",
        "the same in tokens; the lower of the two applies",
        tokens_or_none,
        context.critical_tokens
    ),
    row!(
        "context.default_window",
        "window to assume if neither the client nor the model says",
        tokens,
        context.default_window
    ),
    row!("context.advise", "say one quiet sentence at the warning", yes_no, context.advise),
    row!("context.request", "ask for a handoff when it is critical", yes_no, context.request),
    row!(
        "context.block_stop",
        "ask once more before a critical turn ends, when a fresh context can follow",
        yes_no,
        context.block_stop
    ),
    row!(
        "context.early_warning_kb",
        "last resort if there is no token count: size of the transcript",
        kilobytes,
        context.early_warning_kb
    ),
    row!("context.warning_kb", "last resort: warning from here", kilobytes, context.warning_kb),
    row!("context.critical_kb", "last resort: critical from here", kilobytes, context.critical_kb),
    row!("handoff.dir", "where handoffs lie", folder, handoff.dir),
    row!("handoff.expiry", "an older handoff is not loaded automatically", duration, handoff.expiry),
    row!(
        "handoff.budget",
        "characters of a loaded handoff put in front of the agent at once",
        budget,
        handoff.budget
    ),
    row!(
        "handoff.answer_budget",
        "characters of the handoff that answers a compaction",
        answer_budget,
        handoff.answer_budget
    ),
    row!(
        "handoff.files",
        "how many files in play to show to a fresh context, most recent first",
        count,
        handoff.files
    ),
    row!(
        "handoff.file_tokens",
        "tokens of one of these files; of a larger one the parts in play are shown",
        tokens,
        handoff.file_tokens
    ),
    row!(
        "handoff.headless",
        "load handoffs into headless runs that baton did not start",
        yes_no,
        handoff.headless
    ),
    row!(
        "handoff.seal",
        "seal an automatic handoff before compaction and at a critical end of turn",
        yes_no,
        handoff.seal
    ),
    row!(
        "handoff.block_compaction",
        "hold back automatic compaction while a rotation is about to happen",
        yes_no,
        handoff.block_compaction
    ),
    row!("run.provider", "what `baton run` starts when nothing is named", provider, run.provider),
    row!("run.grace", "how long a client may take to end before it is killed", wait, run.grace),
    row!("run.background_wait", "how long a rotation waits for background tasks", wait, run.background_wait),
    row!("run.in_place_wait", "how long an idle client's mod may try first", wait, run.in_place_wait),
    row!("run.park", "wait for a usage limit to end, and come back by itself", yes_no, run.park),
    row!(
        "run.ceiling_percentage",
        "rotate in the middle of a turn when the context is this full",
        percent_or_none,
        run.ceiling_percentage
    ),
    row!("run.max_restarts", "rotations in a row without a prompt by a person", count, run.max_restarts),
    row!("mirror.enabled", "copy conversations as they grow, so that none is lost", yes_no, mirror.enabled),
    row!(
        "mirror.keep_days",
        "`baton backup prune` removes what is older; 0 keeps it forever",
        count,
        mirror.keep_days
    ),
    row!(
        "mirror.max_mb",
        "it also removes the oldest while the total exceeds this many megabytes; 0 means no limit",
        count,
        mirror.max_mb
    ),
    row!("memory.announce", "tell a new session about a pending backup", yes_no, memory.announce),
    row!(
        "panes.socket",
        "the tmux server on which spawned agents live: its name, or the path of its socket",
        socket,
        panes.socket
    ),
    row!(
        "panes.attend",
        "start the daemon, which types into the panes, with the first agent that needs it",
        yes_no,
        panes.attend
    ),
    row!(
        "compaction",
        "who answers a compaction: handoff, client, or ask (handoff for /compact, client for the rest)",
        compaction,
        compaction
    ),
    row!(
        "narrative",
        "when the agent wrote none before a compaction: off, or fork (its own model is asked, which costs tokens)",
        narrative,
        narrative
    ),
    row!(
        "notify.parent",
        "mail to an agent's parent, or without one to your inbox: its answer, errors, limits, dialogs, compactions",
        yes_no,
        notify.parent
    ),
    row!(
        "notify.desktop",
        "show on the desktop that an agent is blocked, dead or failed",
        yes_no,
        notify.desktop
    ),
    row!(
        "notify.command",
        "run by sh for each of these, with BATON_NOTICE, BATON_AGENT, BATON_TEXT and BATON_REQUEST set",
        command,
        notify.command
    ),
    row!(
        "notify.mute",
        "muted notices, as agent:kind, agent:kind; * matches all (kinds: idle, error, limit, blocked, \
         compacted, handoff-failed, handoff-pending; a death is always reported)",
        muted,
        notify.mute
    ),
    row!(
        "approvals.wait_for",
        "whose permission requests also wait for `baton approve`: spawned, all or nobody",
        wait_for,
        approvals.wait_for
    ),
    row!(
        "approvals.deadline",
        "how long a request waits; after that only its dialog can answer",
        week,
        approvals.deadline
    ),
    row!(
        "approvals.headless_deadline",
        "the same if nobody is at the client",
        week,
        approvals.headless_deadline
    ),
    row!(
        "serve.http",
        "where the daemon also listens, even if a command starts it: a port or an address of this machine",
        loopback,
        serve.http
    ),
    row!(
        "serve.hosts",
        "names under which your own TLS proxy serves the page, separated by commas; for the next start of the daemon",
        hosts,
        serve.hosts
    ),
    row!(
        "page.write",
        "the page may answer, send, rotate, retire and spawn without a code (`baton page --code`)",
        yes_no,
        page.write
    ),
    row!(
        "fleet.share",
        "channels whose conversations other machines of the fleet may list and fetch, separated by commas",
        channels,
        fleet.share
    ),
    row!(
        "fleet.hide",
        "channels whose agents other machines of the fleet do not see, separated by commas",
        channels,
        fleet.hide
    ),
    row!(
        "retention_days",
        "how many days to keep the log, the archive and records of ended sessions and agents",
        days,
        retention_days
    ),
    row!("checkpoints", "publish a checkpoint with each handoff that has goal and now", yes_no, checkpoints),
];
