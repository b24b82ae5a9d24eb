//! A home with history: transcripts of both clients in their own format, with baton's records of them.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use crate::rng::Rng;

/// Writes `sessions` transcripts of about `size` bytes below `home`, in fifty projects, every tenth a rollout. Returns
/// their total size in bytes.
pub fn generate(home: &Path, sessions: usize, size: usize) -> u64 {
    let mut rng = Rng::new(7);
    let mut total = 0;
    let mut history = String::new();
    for n in 0..sessions {
        let project = home.join(format!("work/project-{}", n % 50));
        if n < 50 {
            std::fs::create_dir_all(project.join(".claude")).expect("a home takes a new folder");
        }
        let id = format!("{n:08x}-0000-4000-8000-{:012x}", rng.pick(0..1 << 40));
        let cwd = project.display().to_string();
        let (path, text) = if n % 10 == 9 {
            let day = home.join(format!(".codex/sessions/2026/10/{:02}", n / 10 % 28 + 1));
            (
                day.join(format!("rollout-2026-10-01T00-00-00-{id}.jsonl")),
                rollout(&mut rng, n, &id, &cwd, size),
            )
        } else {
            let slug: String = cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            (
                home.join(".claude/projects").join(slug).join(format!("{id}.jsonl")),
                claude(&mut rng, n, &id, &cwd, size),
            )
        };
        total += text.len() as u64;
        write(&path, &text);
        let record = json!({
            "id": id, "provider": if n % 10 == 9 { "codex" } else { "claude" }, "agent": format!("project-{}-1", n % 50),
            "channel": format!("project-{}", n % 50), "cwd": cwd, "transcript": path,
            "started": "2026-10-01T00:00:00Z", "source": "startup",
            "ended": { "at": "2026-10-01T01:00:00Z", "reason": "prompt_input_exit" },
        });
        write(&home.join(format!(".local/state/baton/sessions/{id}.json")), &record.to_string());
        if n % 5 == 0 {
            let entry = json!({
                "id": format!("HO-20261001-{:06}-{}", n % 240_000, &id[..8]), "session_id": id,
                "created_at": "2026-10-01T00:30:00Z", "created_by_pid": 1, "working_dir": cwd, "type": "auto",
                "status": "consumed", "consumed_at": "2026-10-01T00:31:00Z", "consumed_by_session": id,
            });
            let _ = writeln!(
                history,
                "{}",
                json!({ "at": "2026-10-01T00:31:00Z", "what": "consumed", "entry": entry })
            );
        }
    }
    write(&home.join(".claude/handoff/project.history.jsonl"), &history);
    write(&home.join(".claude/handoff/project.manifest.json"), r#"{"channel":"project","current":null}"#);
    // This is history: nothing has begun within the last hour.
    let records =
        std::fs::File::open(home.join(".local/state/baton/sessions")).expect("records were written");
    let past = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    records.set_modified(past).expect("the folder is ours");
    total
}

fn write(path: &Path, text: &str) {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).expect("a home takes a new folder");
    }
    std::fs::write(path, text).expect("a home takes a new file");
}

/// A time stamp `n` minutes into October, plus `second`.
fn stamp(n: usize, second: usize) -> String {
    let minute = n % (28 * 24 * 60);
    format!(
        "2026-10-{:02}T{:02}:{:02}:{:02}.000Z",
        minute / 1440 + 1,
        minute / 60 % 24,
        minute % 60,
        second % 60
    )
}

fn claude(rng: &mut Rng, n: usize, id: &str, cwd: &str, size: usize) -> String {
    let mut text = format!("{}\n", json!({ "type": "mode", "mode": "normal", "sessionId": id }));
    let mut turn = 0;
    while text.len() < size {
        let head = |kind: &str, uuid: String| {
            json!({ "parentUuid": null, "isSidechain": false, "type": kind, "uuid": uuid, "timestamp": stamp(n, turn),
                "cwd": cwd, "sessionId": id, "version": "2.1.325", "gitBranch": "main" })
        };
        let mut asked = head("user", format!("{id}-u{turn}"));
        asked["message"] =
            json!({ "role": "user", "content": format!("Request {turn} of session {n}: {}", rng.text(200)) });
        let mut answered = head("assistant", format!("{id}-a{turn}"));
        answered["message"] = json!({ "id": format!("msg_{n}_{turn}"), "role": "assistant", "model": "claude-opus-5-5",
            "content": [{ "type": "text", "text": rng.text(1500) }],
            "usage": { "input_tokens": 1000 + turn * 900, "output_tokens": 100 } });
        let _ = writeln!(text, "{asked}\n{answered}");
        turn += 1;
    }
    text
}

fn rollout(rng: &mut Rng, n: usize, id: &str, cwd: &str, size: usize) -> String {
    let line = |kind: &str, payload: serde_json::Value| json!({ "timestamp": stamp(n, 0), "type": kind, "payload": payload });
    let meta = json!({ "id": id, "cwd": cwd, "base_instructions": rng.text(20_000) });
    let mut text = format!("{}\n", line("session_meta", meta));
    let mut turn = 0;
    while text.len() < size {
        let said = |role: &str, text: String| json!({ "type": "message", "id": format!("{id}-{role}{turn}"), "role": role, "content": [{ "type": "text", "text": text }] });
        let asked = line("response_item", said("user", format!("Request {turn} of session {n}")));
        let answered = line("response_item", said("assistant", rng.text(1500)));
        let counted =
            json!({ "type": "token_count", "info": { "last_token_usage": { "total_tokens": 1000 + turn } } });
        let (counted, done) =
            (line("event_msg", counted), line("event_msg", json!({ "type": "task_complete" })));
        let _ = writeln!(text, "{asked}\n{answered}\n{counted}\n{done}");
        turn += 1;
    }
    text
}
