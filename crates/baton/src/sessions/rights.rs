//! Names that carry rights: an approver answers under its name, and the user's rules speak of agents by theirs. So only the
//! user gives such a name to an agent, or takes it away.

use baton_core::approval::rules::Rules;
use baton_core::ids::AgentId;

use crate::sessions::caller::Caller;
use crate::store::Store;

/// Refuses an agent that wants to give this name to somebody, or to take it away.
pub(crate) fn refuse_name(store: &Store, rules: &Rules, caller: &Caller, name: &AgentId) -> Option<String> {
    if !caller.is_agent() {
        return None;
    }
    let what = carried_by(store, rules, name)?;
    caller.not_the_user(&format!("give or take the name {name}, {what}"))
}

/// Whether a name carries no rights.
pub(crate) fn is_plain(store: &Store, rules: &Rules, name: &AgentId) -> bool {
    carried_by(store, rules, name).is_none()
}

/// The rights that a name carries, in words that follow it.
fn carried_by(store: &Store, rules: &Rules, name: &AgentId) -> Option<String> {
    if rules.speak_of(name) {
        return Some("of which rules in [approvals] speak".to_owned());
    }
    // A record that cannot be read has no say here, and no request of its agent can be answered by an agent.
    let led = store.agents().all().into_iter().find(|agent| agent.approver.as_ref() == Some(name))?;
    Some(format!("which answers for {}", led.id))
}
