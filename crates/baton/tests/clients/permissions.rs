//! What an unattended agent may do with just the rules that an install adds, in each permission mode that can be tried
//! here. `auto`, the client's default, is decided on its vendor's server.

use anyhow::Result;
use baton_testkit::clients::claude::Claude;
use baton_testkit::model::{Script, shell, text, tool};
use baton_testkit::wait::LONG;
use serde_json::json;

use super::scene::{self, Scene};

/// The newest handoff.
fn newest(scene: &Scene<Claude>) -> Result<String> {
    let list = scene.json(&["handoffs", "--json"])?;
    match list[0]["id"].as_str() {
        Some(id) => scene.baton(&["handoffs", "show", id]),
        None => Ok("none was sealed".to_owned()),
    }
}

/// Writes the handoff to the requested place and runs the command, as the request says.
#[test]
fn an_agent_hands_over_in_every_permission_mode_with_nothing_else_allowed() -> Result<()> {
    for mode in ["default", "acceptEdits", "dontAsk"] {
        let script = Script::new()
            .turn(tool("Write", json!({ "file_path": ".baton/handoff-app.md", "content": "# WRITTEN\n" })))
            .turn(shell("baton handoff .baton/handoff-app.md"))
            .turn(text("Handed over."));
        let Some(scene) = scene::claude(script)? else { return Ok(()) };
        scene.baton(&["install", "--yes"])?;
        std::fs::create_dir_all(scene.place.project().join(".baton"))?;
        let done = scene.client.launch().args(&["--permission-mode", mode, "-p", "--", "Go."]).run(LONG)?;
        assert_eq!(done.code, Some(0), "{mode}: {done:?}");
        let sealed = newest(&scene)?;
        assert!(sealed.contains("WRITTEN"), "{mode}: {sealed}\n{}", scene.asked().last().unwrap().text());
    }
    Ok(())
}

/// The same when it is called `sm`, and when nothing needs permission. As root the client accepts that mode only in a
/// declared sandbox.
#[test]
fn an_agent_hands_over_with_sm_and_where_every_permission_is_bypassed() -> Result<()> {
    for (mode, command) in [
        ("default", "sm handoff .baton/handoff-app.md"),
        ("dontAsk", "sm handoff .baton/handoff-app.md"),
        ("bypassPermissions", "baton handoff .baton/handoff-app.md"),
    ] {
        let script = Script::new()
            .turn(tool("Write", json!({ "file_path": ".baton/handoff-app.md", "content": "# WRITTEN\n" })))
            .turn(shell(command))
            .turn(text("Handed over."));
        let Some(scene) = scene::claude(script)? else { return Ok(()) };
        scene.baton(&["install", "--yes", "--sm"])?;
        std::fs::create_dir_all(scene.place.project().join(".baton"))?;
        let launch = scene.client.launch().env("IS_SANDBOX", "1");
        let done = launch.args(&["--permission-mode", mode, "-p", "--", "Go."]).run(LONG)?;
        assert_eq!(done.code, Some(0), "{mode}: {done:?}");
        let sealed = newest(&scene)?;
        assert!(sealed.contains("WRITTEN"), "{mode}: {sealed}\n{}", scene.asked().last().unwrap().text());
    }
    Ok(())
}

/// Plan mode cannot write files, so the text goes to the command itself.
#[test]
fn in_plan_mode_the_text_goes_to_the_command() -> Result<()> {
    for mode in ["plan", "default", "dontAsk"] {
        let script = Script::new()
            .turn(shell("baton handoff - <<'EOF'\n# SPOKEN: it's \"done\"\nEOF"))
            .turn(text("Handed over."));
        let Some(scene) = scene::claude(script)? else { return Ok(()) };
        scene.baton(&["install", "--yes"])?;
        let done = scene.client.launch().args(&["--permission-mode", mode, "-p", "--", "Go."]).run(LONG)?;
        assert_eq!(done.code, Some(0), "{mode}: {done:?}");
        let sealed = newest(&scene)?;
        assert!(sealed.contains("SPOKEN"), "{mode}: {sealed}\n{}", scene.asked().last().unwrap().text());
    }
    Ok(())
}

/// Without the rules it would have waited at a dialog: this shows why they exist.
#[test]
fn without_the_rules_the_client_asks() -> Result<()> {
    let script = Script::new()
        .turn(tool("Write", json!({ "file_path": ".baton/handoff-app.md", "content": "# WRITTEN\n" })))
        .turn(shell("baton handoff -"))
        .turn(text("Stuck."));
    let Some(scene) = scene::claude(script)? else { return Ok(()) };
    scene.baton(&["install", "--yes", "--no-permission"])?;
    let done = scene.client.launch().args(&["-p", "--", "Go."]).run(LONG)?;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!scene.place.project().join(".baton/handoff-app.md").exists());
    let last = scene.asked().last().unwrap().text();
    assert!(last.contains("requested permissions to write") && last.contains("requires approval"), "{last}");
    Ok(())
}
