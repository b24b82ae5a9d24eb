//! `baton install --provider codex`: hooks are merged and removed byte for byte; trust needs consent.

use std::os::unix::fs::PermissionsExt as _;

use baton_testkit::Home;
use baton_testkit::codex::CodexClient;
use serde_json::Value;

use crate::BATON;
use crate::hooks::{changes, tree};

const HOOKS: &str = r#"{
    // mine
    "hooks": {
        "Stop": [ { "hooks": [ { "type": "command", "command": "say done" } ] } ],
    }
}
"#;
const CONFIG: &str = "# mine\nmodel = 'm'   # the model\n\n[projects.\"/p\"]\ntrust_level = \"trusted\"\n";

fn installed(home: &Home, more: &str) -> String {
    home.run(&format!("install --provider codex --yes {more}")).ok()
}

fn of_codex(home: &Home) -> std::collections::BTreeMap<String, Vec<u8>> {
    tree(home).into_iter().filter(|(name, _)| name.starts_with(".codex")).collect()
}

#[test]
fn hooks_are_merged_and_an_uninstall_gives_back_every_byte() {
    for (hooks, config) in
        [(None, None), (Some(HOOKS), None), (Some(HOOKS), Some(CONFIG)), (None, Some(CONFIG))]
    {
        for trust in ["", "--trust"] {
            let home = Home::new(BATON);
            for (name, text) in [(".codex/hooks.json", hooks), (".codex/config.toml", config)] {
                if let Some(text) = text {
                    home.write(name, text);
                }
            }
            let before = of_codex(&home);
            installed(&home, trust);
            assert_ne!(of_codex(&home), before);
            let again = installed(&home, trust);
            assert!(again.contains("nothing was changed"), "{again}");
            let out = home.run("uninstall --provider codex --verify").ok();
            assert!(out.contains("Verified"), "{out}");
            assert_eq!(changes(&before, &of_codex(&home)), [""; 0], "{hooks:?} {config:?} {trust}");
            assert_eq!(home.path().join(".codex").exists(), !before.is_empty());
            assert!(home.run("uninstall --provider codex").code == Some(3));
        }
    }
}

#[test]
fn the_hooks_carry_long_texts_whole_and_others_keep_their_place() {
    let home = Home::new(BATON);
    home.write(".codex/hooks.json", HOOKS);
    installed(&home, "");
    let text = std::fs::read_to_string(home.path().join(".codex/hooks.json")).unwrap();
    assert!(text.contains("// mine") && text.contains("say done"), "{text}");
    let value = baton::testing::install::settings::value(text.as_bytes()).unwrap();
    let start = &value["hooks"]["SessionStart"][0]["hooks"][0];
    assert_eq!(start["additionalContextLimit"], 85_000, "{start}");
    assert!(start["command"].as_str().unwrap().ends_with("baton hook --provider codex SessionStart"));
    // Trust depends on the position in the list, so the first one stays first.
    assert_eq!(value["hooks"]["Stop"][0]["hooks"][0]["command"], "say done");
    assert!(value["hooks"]["Stop"][1]["hooks"][0]["command"].as_str().unwrap().contains("codex Stop"));
}

#[test]
fn trust_is_never_given_without_consent() {
    let home = Home::new(BATON);
    home.write(".codex/config.toml", CONFIG);
    let out = installed(&home, "");
    assert!(out.contains("before you have reviewed them"), "{out}");
    assert_eq!(std::fs::read_to_string(home.path().join(".codex/config.toml")).unwrap(), CONFIG);
    let doctor = home.run("doctor --json");
    let findings: Value = serde_json::from_str(&doctor.out).unwrap();
    let codex = findings.as_array().unwrap().iter().find(|f| f["check"] == "codex").unwrap();
    assert_eq!(codex["level"], "fail");
    assert!(codex["what"].as_str().unwrap().contains("does not run 12 of 12 hooks"), "{codex}");
    assert!(codex["do"].as_str().unwrap().contains("--trust"), "{codex}");
    // Nobody is there to consent.
    let refused = home.run("install --provider codex --trust").fails(1);
    assert!(refused.contains("add --yes"), "{refused}");
    assert_eq!(std::fs::read_to_string(home.path().join(".codex/config.toml")).unwrap(), CONFIG);
    let shown = home.run("install --provider codex --trust --dry-run").ok();
    assert!(shown.contains("+trusted_hash = \"sha256:"), "{shown}");
    installed(&home, "--trust");
    let config = std::fs::read_to_string(home.path().join(".codex/config.toml")).unwrap();
    assert!(config.starts_with(CONFIG), "{config}");
    assert_eq!(config.matches("trusted_hash").count(), 12);
    let doctor: Value = serde_json::from_str(&home.run("doctor --json").out).unwrap();
    let codex = doctor.as_array().unwrap().iter().find(|f| f["check"] == "codex").unwrap();
    assert_eq!(codex["level"], "ok", "{codex}");
}

#[test]
fn doctor_reports_when_the_agents_shell_does_not_find_baton() {
    let home = Home::new(BATON);
    installed(&home, "--trust");
    let shell = |home: &Home| -> Vec<String> {
        let mut command = home.baton(["doctor", "--json"]);
        let ran = baton_testkit::home::run(command.env("SHELL", "/bin/bash"));
        let findings: Value = serde_json::from_str(&ran.out).unwrap();
        let codex = findings.as_array().unwrap().iter().filter(|f| f["check"] == "codex");
        codex.map(|f| f["what"].as_str().unwrap().to_owned()).filter(|w| w.contains("login shell")).collect()
    };
    home.write(".bash_profile", "export PATH=/usr/bin:/bin\n");
    let found = shell(&home);
    assert!(
        found.len() == 1 && found[0].contains("/bin/bash") && found[0].contains("finds no `baton`"),
        "{found:?}"
    );
    let program = home.write("tools/baton", "#!/bin/sh\n");
    std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    home.write(".bash_profile", "echo hello\nexport PATH=\"$HOME/tools:$PATH\"\n");
    assert_eq!(shell(&home), [""; 0]);
}

#[test]
fn if_the_client_has_changed_the_file_since_only_our_entries_are_removed() {
    let home = Home::new(BATON);
    home.write(".codex/config.toml", CONFIG);
    home.write(".codex/hooks.json", HOOKS);
    installed(&home, "--trust");
    let config = home.path().join(".codex/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\n[tui]\ntheme = \"dark\"\n")).unwrap();
    let hooks = home.path().join(".codex/hooks.json");
    let text = std::fs::read_to_string(&hooks).unwrap();
    std::fs::write(&hooks, text.replace("say done", "say well done")).unwrap();
    let out = home.run("uninstall --provider codex --verify").ok();
    assert!(out.contains("exactly our entries"), "{out}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), format!("{CONFIG}\n[tui]\ntheme = \"dark\"\n"));
    let left = std::fs::read_to_string(&hooks).unwrap();
    assert!(left.contains("say well done") && left.contains("// mine") && !left.contains("baton"), "{left}");
}

#[test]
fn files_that_cannot_be_understood_are_left_alone() {
    for (name, text) in [(".codex/hooks.json", "{ nonsense"), (".codex/config.toml", "model = ")] {
        let home = Home::new(BATON);
        let path = home.write(name, text);
        let said = home.run("install --provider codex --trust --yes").fails(1);
        assert!(said.contains("was left alone"), "{said}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
    }
    let home = Home::new(BATON);
    assert!(home.run("install --provider quill").fails(1).contains("claude, codex"));
    assert!(home.run("install --trust --yes").fails(1).contains("needs no trust"));
}

#[test]
fn an_installed_hook_is_called_as_the_file_says_and_run_tells_when_it_is_not_trusted() {
    let home = Home::new(BATON);
    installed(&home, "");
    let text = std::fs::read_to_string(home.path().join(".codex/hooks.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let command = value["hooks"]["SessionStart"][0]["hooks"][0]["command"].as_str().unwrap().to_owned();
    let client = CodexClient::new(&home);
    let payload = client.payload("SessionStart", serde_json::json!({ "source": "startup" }));
    let mut shell = home.command("bash");
    // Keep the shell: the hook's parent counts as the client, and this test acts as the user below.
    shell.args(["-c", &format!("{command}; true")]);
    baton_testkit::hooks::send(shell, payload.to_string().as_bytes()).silent();
    assert_eq!(client.kept()["provider"], "codex");

    // A client that ends at once is enough to see what `run` says before it starts one.
    let bin = home.path().join("fake");
    let fake = home.write("fake/codex", "#!/bin/sh\necho \"$@\"\n");
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = |args: &[&str]| {
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        baton_testkit::home::run(home.baton(["run", "codex"]).args(args).env("PATH", path))
    };
    let ran = run(&["--model", "o3"]);
    assert!(ran.err.contains("does not run 12 of baton's 12 hooks"), "{ran:?}");
    assert_eq!(ran.out.trim(), "--no-daemon --model o3");
    installed(&home, "--trust");
    let ran = run(&["exec", "do it"]);
    assert!(!ran.err.contains("hooks"), "{ran:?}");
    assert_eq!(ran.out.trim(), "exec do it");
    home.run("uninstall --provider codex").ok();
    assert!(run(&[]).err.contains("neither watched nor rotated"));
}

#[test]
fn a_purge_leaves_no_hook_that_points_at_nothing() {
    let home = Home::new(BATON);
    installed(&home, "");
    home.run("install --yes").ok();
    let said = home.run("uninstall --purge --yes").fails(1);
    assert!(said.contains("baton uninstall --provider codex"), "{said}");
}

/// To the client a hook with another timeout is another hook, so it asks again.
#[test]
fn an_upgrade_from_a_shorter_timeout_is_asked_for_again() {
    let home = Home::new(BATON);
    installed(&home, "--trust");
    let path = home.path().join(".codex/hooks.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut hooks: Value = serde_json::from_str(&text).unwrap();
    hooks["hooks"]["PermissionRequest"][0]["hooks"][0]["timeout"] = 10.into();
    std::fs::write(&path, hooks.to_string()).unwrap();
    let of_codex = || -> Vec<String> {
        let findings: Value = serde_json::from_str(&home.run("doctor --json").out).unwrap();
        let codex = findings.as_array().unwrap().iter().filter(|f| f["check"] == "codex");
        codex.map(|f| f["what"].as_str().unwrap().to_owned()).collect()
    };
    let said = of_codex().join("\n");
    assert!(said.contains("changed since you reviewed them: PermissionRequest"), "{said}");
    assert!(said.contains("does not wait for an answer"), "{said}");
    installed(&home, "--trust");
    let said = of_codex().join("\n");
    assert!(said.contains("registered and trusted"), "{said}");
}

/// A Codex that answers `features list` like this.
fn client_says(home: &Home, features: &str) -> std::path::PathBuf {
    let program = home.write("programs/codex", format!("#!/bin/sh\nprintf '{features}'\n"));
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program.parent().unwrap().to_owned()
}

fn install_with(home: &Home, path: &std::path::Path, more: &[&str]) -> baton_testkit::CommandOutput {
    let args = [&["install", "--provider", "codex", "--yes"], more].concat();
    let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    baton_testkit::home::run(home.baton(args).env("PATH", path))
}

#[test]
fn the_fresh_window_is_offered_switched_on_by_consent_and_taken_back() {
    let home = Home::new(BATON);
    home.write(".codex/config.toml", CONFIG);
    let before = of_codex(&home);
    let off = client_says(&home, "hooks  stable  true\\ntoken_budget  under development  false\\n");
    let offered = install_with(&home, &off, &[]).ok();
    assert!(offered.contains("--fresh-window` switches it on"), "{offered}");
    let config = || std::fs::read_to_string(home.path().join(".codex/config.toml")).unwrap();
    assert_eq!(config(), CONFIG, "nothing without a word");
    install_with(&home, &off, &["--trust", "--fresh-window"]).ok();
    assert!(
        config().starts_with(CONFIG) && config().contains("[features]\ntoken_budget = true\n"),
        "{}",
        config()
    );
    let again = install_with(&home, &off, &["--trust", "--fresh-window"]).ok();
    assert!(again.contains("nothing was changed"), "{again}");
    // Others have written since: exactly ours goes.
    home.write(".codex/config.toml", config() + "\n[tui]\nx = 1\n");
    home.run("uninstall --provider codex").ok();
    assert_eq!(config(), format!("{CONFIG}\n[tui]\nx = 1\n"));
    home.write(".codex/config.toml", CONFIG);
    install_with(&home, &off, &["--fresh-window"]).ok();
    home.run("uninstall --provider codex --verify").ok();
    assert_eq!(changes(&before, &of_codex(&home)), [""; 0]);
}

#[test]
fn a_client_without_fresh_windows_is_neither_offered_nor_given_one() {
    let home = Home::new(BATON);
    home.write(".codex/config.toml", CONFIG);
    let old = client_says(&home, "hooks  stable  true\\n");
    let refused = install_with(&home, &old, &["--fresh-window"]).fails(1);
    assert!(refused.contains("has no fresh windows") && refused.contains("nothing was changed"), "{refused}");
    assert!(!home.path().join(".codex/hooks.json").exists());
    let said = install_with(&home, &old, &[]).ok();
    assert!(!said.contains("fresh-window"), "{said}");
    let refused = home.run("install --fresh-window --yes").fails(1);
    assert!(refused.contains("leave out --fresh-window"), "{refused}");
}
