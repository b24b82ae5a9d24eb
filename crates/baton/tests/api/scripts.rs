//! The scripts of the second seed against the daemon.

use std::process::Stdio;

use baton_testkit::Home;
use baton_testkit::daemon::Served;
use baton_testkit::wait::wait_until;
use serde_json::{Value, json};

use super::{queued, started};
use crate::BATON;

const MONITOR: &str = include_str!("../scripts/context_monitor.sh");
const PRECOMPACT: &str = include_str!("../scripts/precompact_notify.sh");
const RECOVERY: &str = include_str!("../scripts/post_compact_recovery.sh");

/// The scripts of the second seed, unchanged except for the token header and the port.
#[test]
fn the_scripts_of_the_second_seed_work_against_it() {
    if !baton_testkit::tools::has(&["bash", "jq", "curl"]) {
        return;
    }
    let home = Home::new(BATON);
    let client = started(&home);
    let served = Served::on_http(&home);
    let at = served.http.clone().unwrap();
    let ours = |script: &str| {
        script
            .replace("http://localhost:8420", &format!("http://{}", at.replace("127.0.0.1", "localhost")))
            .replace(
                "curl -s ",
                &format!(
                    "curl -s -H \"Authorization: Bearer $(cat {})\" ",
                    home.state().join("run/token").display()
                ),
            )
    };
    let run = |script: &str, agent: Option<&str>, input: &Value| {
        let path = home.write("hook.sh", ours(script));
        let mut command = home.command("bash");
        command.arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(agent) = agent {
            command.env("CLAUDE_SESSION_MANAGER_ID", agent);
        }
        baton_testkit::hooks::send(command, input.to_string().as_bytes())
    };
    let line = |percentage: u64| {
        json!({ "session_id": client.session, "context_window": { "total_input_tokens": percentage * 2000,
            "total_output_tokens": 4521, "context_window_size": 200_000, "used_percentage": percentage } })
    };
    // 1: the status line's script.
    let heard = run(MONITOR, Some("app"), &line(52));
    assert_eq!((heard.code, heard.out.as_str()), (Some(0), "52% ctx\n"), "{heard:?}");
    wait_until("the reading arrives", || served.get("/sessions/app")["tokens_used"] == 104_000);
    wait_until("the warning is queued", || queued(&served, "app").len() == 1);
    let mut unknown = line(0);
    unknown["context_window"]["used_percentage"] = Value::Null;
    assert_eq!(run(MONITOR, Some("app"), &unknown).code, Some(0));
    assert_eq!(run(MONITOR, None, &line(99)).out, "99% ctx\n", "a session that nobody manages");
    assert_eq!(served.get("/sessions/app")["used_percentage"], 52);
    // 4: recovery without a handoff says nothing.
    let compact = json!({ "source": "compact" });
    assert_eq!(run(RECOVERY, Some("app"), &compact).out, "");
    // 3: PreCompact.
    client.answers(104_000);
    assert_eq!(run(PRECOMPACT, Some("app"), &json!({ "trigger": "auto" })).code, Some(0));
    assert_eq!(client.kept()["latches"]["warned"], false, "the latches are open again");
    // 4: recovery with one gives it back.
    let words = home.write("handoff.md", "# Words\nThe parser is next.");
    let body = json!({ "requester_session_id": "app", "file_path": words });
    served.post("/sessions/app/handoff", &body);
    client.hook("Stop").ok();
    let recovered = run(RECOVERY, Some("app"), &compact);
    let answer: Value = serde_json::from_str(&recovered.out).unwrap_or_else(|e| panic!("{e}: {recovered:?}"));
    let text = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(text.contains("The parser is next."), "{text}");
    // Edge case: the script copes with a server that is down.
    served.kill();
    assert_eq!(run(MONITOR, Some("app"), &line(53)).out, "53% ctx\n");
    assert_eq!(run(RECOVERY, Some("app"), &compact).code, Some(0));
}
