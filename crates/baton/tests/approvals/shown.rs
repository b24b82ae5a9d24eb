//! How a request is shown to a person: completely, and in a suitable form.

use super::*;

/// The listing while this request waits.
#[expect(clippy::needless_pass_by_value, reason = "callers write json!(…)")]
fn shown(tool: &str, input: Value, more: Value) -> String {
    let home = home();
    let client = started(&home);
    let mut fields = json!({ "tool_name": tool, "tool_input": input });
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    let hook = ask(&client, fields);
    listed(&home, 1);
    let screen = home.run("approvals").ok();
    client_ends(&client, hook);
    screen
}

#[test]
fn an_edit_is_a_diff_with_all_that_the_client_says_of_it() {
    let edit = |all: bool| {
        json!({ "file_path": "/p/a.rs", "old_string": "one\ntwo\n", "new_string": "one\nthree\n",
            "replace_all": all })
    };
    let screen = shown("Edit", edit(false), json!({}));
    assert!(screen.contains("    /p/a.rs\n      one\n    - two\n    + three\n"), "{screen}");
    assert!(!screen.contains("every occurrence"), "{screen}");
    let screen = shown("Edit", edit(true), json!({}));
    assert!(screen.contains("    (every occurrence)\n      one\n    - two\n    + three\n"), "{screen}");
    let several = json!({ "file_path": "/p/a.rs", "edits": [
        { "old_string": "a", "new_string": "b" }, { "old_string": "c", "new_string": "d", "replace_all": true }] });
    let screen = shown("MultiEdit", several, json!({}));
    assert!(screen.contains("    - a\n    + b\n    (every occurrence)\n    - c\n    + d\n"), "{screen}");
    let mut odd = edit(false);
    odd["replace_all"] = json!("yes");
    assert!(shown("Edit", odd, json!({})).contains("\"replace_all\": \"yes\""));
}

#[test]
fn a_patch_is_shown_line_by_line() {
    let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-old\n+new\n*** End Patch";
    let screen = shown("apply_patch", json!({ "command": patch }), json!({}));
    assert!(screen.contains("    *** Update File: a.rs\n    @@\n    -old\n    +new\n"), "{screen}");
}

#[test]
fn a_question_that_is_not_understood_is_shown_unchanged() {
    let screen = shown("AskUserQuestion", json!({ "questions": "Delete all?" }), json!({}));
    assert!(screen.contains("\"questions\": \"Delete all?\""), "{screen}");
    let preview = json!({ "questions": [{ "question": "Which?", "options": [
        { "label": "Red", "preview": "rm -rf /" }] }] });
    assert!(shown("AskUserQuestion", preview, json!({})).contains("rm -rf /"));
}

#[test]
fn a_lasting_approval_says_what_it_would_grant() {
    let suggestions = json!({ "permission_suggestions": [
        { "type": "addRules", "behavior": "allow", "destination": "localSettings",
          "rules": [{ "toolName": "Bash", "ruleContent": "make:*" }, { "toolName": "Read" }] },
        { "type": "setMode", "mode": "acceptEdits", "destination": "session" },
        { "type": "novelty", "of": "the client" }] });
    let screen = shown("Bash", json!({ "command": "make" }), suggestions);
    let said = "--session and --always also grant: allow Bash(make:*), Read; permission mode acceptEdits; \
                {\"of\":\"the client\",\"type\":\"novelty\"}";
    assert!(screen.contains(said), "{screen}");
    assert!(!shown("Bash", json!({ "command": "make" }), json!({})).contains("also grant"));
}
