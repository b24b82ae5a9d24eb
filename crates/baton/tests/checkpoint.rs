//! Checkpoints: what all instances of a workflow see, whoever wrote them.

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

/// The proof that nothing is read: a file changed in place does not show until the folder itself changes.
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
