//! Checkpoints: all instances of a workflow see them, whoever wrote them.

use baton_testkit::Home;
use baton_testkit::hooks::Client;

use crate::BATON;

fn events(home: &Home) -> std::path::PathBuf {
    home.project().join("thoughts/shared/handoffs/events")
}

#[test]
fn a_checkpoint_is_a_file_that_every_status_line_of_the_project_shows() {
    let home = Home::new(BATON);
    let one = Client::new(&home).env("NO_COLOR", "1").env("COLUMNS", "120");
    one.starts("startup").silent();
    home.run("checkpoint --goal parser --now lexer --done tokens --blocker review --next emit --name big")
        .ok();
    let names: Vec<_> = std::fs::read_dir(events(&home)).unwrap().collect();
    assert_eq!(names.len(), 1);
    let name = names[0].as_ref().unwrap().file_name().into_string().unwrap();
    assert!(name.ends_with("Z_manual.md"), "{name}");
    let text = std::fs::read_to_string(events(&home).join(&name)).unwrap();
    for line in ["event_type: handoff", "session_name: big", "goal: parser", "now: lexer", "  - tokens"] {
        assert!(text.lines().any(|l| l == line), "{line} in {text}");
    }
    let two = Client::new(&home).env("NO_COLOR", "1").env("COLUMNS", "120");
    two.starts("startup").silent();
    for client in [&one, &two] {
        let line = client.status_line(Some(20_000));
        assert!(line.contains("goal: parser") && line.contains("now: lexer"), "{line}");
    }
}

/// A teammate's clock runs ahead.
#[test]
fn a_checkpoint_stamped_ahead_does_not_hide_later_ones() {
    let home = Home::new(BATON);
    std::fs::create_dir_all(events(&home)).unwrap();
    let ahead = events(&home).join("2999-01-01T00-00-00.000Z_aaaaaaaa.md");
    std::fs::write(&ahead, "goal: ahead\nnow: x\n").unwrap();
    // A synced folder keeps the other machine's modification time.
    let later = std::time::SystemTime::now() + std::time::Duration::from_hours(48);
    std::fs::File::open(&ahead).unwrap().set_modified(later).unwrap();
    let client = Client::new(&home).env("NO_COLOR", "1").env("COLUMNS", "120");
    client.starts("startup").silent();
    assert!(client.status_line(Some(20_000)).contains("goal: ahead"));
    home.run("checkpoint --goal later --now y").ok();
    assert!(client.status_line(Some(20_000)).contains("goal: later"));
    assert_eq!(home.run("checkpoint latest --json").json()["checkpoint"]["goal"], "later");
    let list = home.run("checkpoint list --json").json();
    assert_eq!(list[1]["checkpoint"]["goal"], "ahead", "{list}");
    assert_eq!(list[1]["checkpoint"]["timestamp"], "2999-01-01T00:00:00Z", "its name tells: {list}");
}

#[test]
fn list_and_latest_know_names_and_take_the_newest_by_file_name() {
    let home = Home::new(BATON);
    std::fs::create_dir_all(events(&home)).unwrap();
    let file = |name: &str, text: &str| std::fs::write(events(&home).join(name), text).unwrap();
    file("2026-01-09T14-00-00.000Z_aaaaaaaa.md", "---\nsession_name: a\n---\n\ngoal: old\nnow: x\n");
    file(
        "2026-01-11T09-30-00.000Z_bbbbbbbb.yaml",
        "goal: \"from yaml: quoted\"\nnow: 'y'\nnext: [one, two]\n",
    );
    file("2026-01-10T00-00-00.000Z_cccccccc.yml", "session_name: a\ngoal: middle\nnow: z\n");
    file("2026-01-12T00-00-00.000Z_dddddddd.md", "nothing that can be understood");
    file("notes.md", "goal: not a checkpoint's name\nnow: -\n");
    let latest = home.run("checkpoint latest --json").json();
    assert_eq!(
        (&latest["checkpoint"]["goal"], &latest["checkpoint"]["now"]),
        (&"from yaml: quoted".into(), &"y".into()),
        "{latest}"
    );
    let named = home.run("checkpoint latest --name a --json").json();
    assert_eq!(named["checkpoint"]["goal"], "middle", "{named}");
    let list = home.run("checkpoint list --json").json();
    let goals: Vec<_> =
        list.as_array().unwrap().iter().map(|c| c["checkpoint"]["goal"].as_str().unwrap()).collect();
    assert_eq!(goals, ["from yaml: quoted", "middle", "old"]);
}

/// Proves that nothing is read: a file changed in place does not show until the folder itself changes.
#[test]
fn a_thousand_checkpoints_cost_the_status_line_one_look_at_their_folder() {
    let home = Home::new(BATON);
    std::fs::create_dir_all(events(&home)).unwrap();
    let name =
        |n: usize| format!("2026-01-{:02}T{:02}-{:02}-00.000Z_{n:08x}.md", n / 100 + 1, n / 60 % 24, n % 60);
    for n in 0..1_000 {
        let text = format!("---\nevent_type: handoff\n---\n\ngoal: goal {n}\nnow: now {n}\n");
        std::fs::write(events(&home).join(name(n)), text).unwrap();
    }
    let newest = (0..1_000).map(name).max().unwrap();
    let client = Client::new(&home).env("NO_COLOR", "1").env("COLUMNS", "120");
    client.starts("startup").silent();
    let first = client.status_line(Some(20_000));
    assert!(first.contains("goal: goal "), "{first}");
    std::fs::write(events(&home).join(&newest), "goal: changed in place\nnow: -\n").unwrap();
    assert_eq!(client.status_line(Some(20_000)), first);
    home.run("checkpoint --goal fresh --now one").ok();
    assert!(client.status_line(Some(20_000)).contains("goal: fresh"));
}

#[test]
fn secrets_and_control_characters_do_not_reach_the_line() {
    let home = Home::new(BATON);
    std::fs::create_dir_all(events(&home)).unwrap();
    let text = "goal: \"a\u{1b}]0;title\u{7}b\"\nnow: \"x\u{202e}y\"\n";
    std::fs::write(events(&home).join("2026-01-09T14-00-00.000Z_aaaaaaaa.md"), text).unwrap();
    let client = Client::new(&home).env("NO_COLOR", "1");
    client.starts("startup").silent();
    let line = client.status_line(Some(20_000));
    assert!(!line.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{line:?}");
}

/// An automatic seal publishes nothing to the other instances, so a person's checkpoint stays.
#[test]
fn an_automatic_seal_publishes_no_checkpoint_and_what_somebody_wrote_does() {
    let home = Home::new(BATON);
    home.run("checkpoint --goal \"Release-2.0\" --now notes").ok();
    let count = || std::fs::read_dir(events(&home)).unwrap().count();
    let client = Client::new(&home);
    client.starts("startup").silent();
    client.record(
        &serde_json::json!({ "type": "user", "message": { "role": "user", "content": "fix the lexer" } }),
    );
    client.answers(170_000);
    client.hook("PreCompact").silent();
    assert_eq!(home.run("handoffs --json").json()[0]["type"], "precompact");
    assert_eq!(count(), 1, "an automatic seal published");
    let words = home.write("handoff.md", "# Handoff\n\nGoal: the lexer.\n");
    client.hook("UserPromptSubmit").ok();
    let mut command = home.baton(["handoff", words.to_str().unwrap()]);
    client.dress(&mut command);
    baton_testkit::home::run(&mut command).ok();
    client.hook("Stop").ok();
    assert_eq!(count(), 2, "what the agent wrote is published");
    home.write(".config/baton/config.toml", "checkpoints = true\n");
    client.answers(171_000);
    client.hook("PreCompact").silent();
    assert_eq!(count(), 3, "unless it is asked for");
}

/// Regression: "Release 2.0" vanished when an agent handed over, and agents showed each other's task.
#[test]
fn no_agents_handoff_changes_what_a_person_or_another_agent_shows() {
    let home = Home::new(BATON);
    std::fs::create_dir_all(events(&home)).unwrap();
    let client = || Client::new(&home).env("NO_COLOR", "1").env("COLUMNS", "150");
    let hands_over = |client: &Client<'_>, task: &str| {
        client.hook("UserPromptSubmit").ok();
        client.record(&serde_json::json!({ "type": "user", "message": { "role": "user", "content": task } }));
        client.answers(50_000);
        let words = home.write("handoff.md", "# Handoff\n\nThe next step is known.\n");
        let mut command = home.baton(["handoff", words.to_str().unwrap()]);
        client.dress(&mut command);
        baton_testkit::home::run(&mut command).ok();
        client.hook("Stop").ok();
    };
    let (one, two) = (client(), client());
    one.starts("startup");
    two.starts("startup");
    hands_over(&one, "Port the parser to the new grammar");
    hands_over(&two, "Write the release notes of this month");
    let (first, second) = (one.status_line(Some(20_000)), two.status_line(Some(20_000)));
    assert!(first.contains("goal: Port the parser") && !first.contains("release notes"), "{first}");
    assert!(second.contains("goal: Write the release notes") && !second.contains("parser"), "{second}");
    // A person's checkpoint applies to everybody, and no handoff replaces it.
    home.run("checkpoint --goal Release-2.0 --now notes").ok();
    hands_over(&one, "Port the lexer to the new grammar");
    for client in [&one, &two] {
        let line = client.status_line(Some(20_000));
        assert!(line.contains("goal: Release-2.0"), "{line}");
    }
    // A checkpoint by that name replaces it for everybody; without the name, an agent's checkpoint shows only in its
    // own line.
    home.run("checkpoint --goal Release-2.1 --now tests --name release").ok();
    let mut command =
        home.baton(["checkpoint", "--goal", "Release-2.2", "--now", "tag", "--name", "release"]);
    one.dress(&mut command);
    baton_testkit::home::run(&mut command).ok();
    for client in [&one, &two] {
        let line = client.status_line(Some(20_000));
        assert!(line.contains("goal: Release-2.2"), "{line}");
    }
}
