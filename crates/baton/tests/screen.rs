//! Long output in a terminal, and shell completion.

use anyhow::Result;
use baton_testkit::Home;
use baton_testkit::hooks::Client;
use baton_testkit::pty::{Pty, code};

use crate::BATON;

/// How many lines of `line` the pager got, and what the screen shows.
fn paged(home: &Home, line: &str) -> Result<(usize, String)> {
    let out = home.path().join("paged");
    let _ = std::fs::remove_file(&out);
    let mut command = home.baton(line.split_whitespace());
    command.env("PAGER", format!("cat >'{}'", out.display()));
    let mut pty = Pty::start(&command)?;
    assert_eq!(code(pty.wait_for_end()?), 0, "{line}: {}", pty.screen());
    Ok((std::fs::read_to_string(out).map_or(0, |t| t.lines().count()), pty.screen()))
}

#[test]
fn handoffs_and_the_log_are_paged_where_a_person_looks_and_not_where_a_program_does() -> Result<()> {
    let home = Home::new(BATON);
    let client = Client::new(&home);
    client.starts("startup").silent();
    let long = (0..200).fold("# State\n".to_owned(), |text, n| text + &format!("Line {n}.\n"));
    let file = home.write("h.md", &long);
    let mut id = String::new();
    for _ in 0..30 {
        id = home.run(&format!("handoffs seal {} --session {}", file.display(), client.session)).ok();
        client.hook("UserPromptSubmit").ok();
    }
    let id = id.trim();
    assert_eq!(paged(&home, "handoffs list -n 100")?.0, 31);
    assert!(paged(&home, &format!("handoffs show {id}"))?.0 >= 200);
    assert!(paged(&home, "handoffs history")?.0 > 30);
    assert!(paged(&home, "log -n 40")?.0 > 25);
    for plain in [
        "handoffs list -n 3",
        "handoffs list -n 100 --no-pager",
        "handoffs list --json",
        "log -n 40 --json",
        "log -n 40 --no-pager",
    ] {
        let (to_pager, screen) = paged(&home, plain)?;
        assert!(to_pager == 0 && !screen.trim().is_empty(), "{plain}: {screen}");
    }
    assert_eq!(
        home.run(&format!("handoffs show {id}")).ok().matches("Line 199.").count(),
        1,
        "a pipe gets it as it is"
    );
    Ok(())
}

/// What bash would offer after `typed`.
fn completed(home: &Home, typed: &[&str]) -> Vec<String> {
    let script = "source <(\"$BATON\" completions bash); PATH=$(dirname \"$BATON\"):$PATH;\n\
                  COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1));\n\
                  function=$(complete -p baton | sed 's/.*-F \\([^ ]*\\).*/\\1/');\n\
                  $function baton \"${@: -1}\" \"${@: -2:1}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = home.command("bash");
    command.env("BATON", home.binary()).args(["--norc", "-c", script, "bash", "baton"]).args(typed);
    let ran = baton_testkit::home::run(&mut command);
    assert_eq!(ran.err, "", "{typed:?}");
    ran.ok().lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_what_there_is_now() {
    let home = Home::new(BATON);
    let client = baton_testkit::hooks::Client::new(&home);
    client.starts("startup").ok();
    client.answers(20_000);
    let agent = client.agent();
    let id = home.run_with_input("handoffs seal -", "# Go on\n").ok();
    let id = id.split_whitespace().find(|word| word.starts_with("HO-")).unwrap().to_owned();
    assert_eq!(completed(&home, &["send", &agent[..1]]), std::slice::from_ref(&agent));
    assert_eq!(completed(&home, &["log", "--agent", ""]), [agent]);
    assert_eq!(completed(&home, &["handoffs", "show", "HO-"]), [id]);
    assert_eq!(
        completed(&home, &["sessions", "show", &client.session[..4]]),
        std::slice::from_ref(&client.session)
    );
    assert_eq!(completed(&home, &["install", "--provider", "co"]), ["codex"]);
    assert_eq!(completed(&home, &["config", "set", "context.adv"]), ["context.advise"]);
    for (shell, word) in [("zsh", "compdef _baton_values baton"), ("fish", "(__baton_values)")] {
        assert!(home.run(&format!("completions {shell}")).ok().contains(word), "{shell}");
    }
}

#[test]
fn a_shell_completes_commands_their_verbs_and_options() {
    let home = Home::new(BATON);
    assert_eq!(completed(&home, &["sess"]), ["sessions"]);
    assert_eq!(completed(&home, &["backup", "res"]), ["restore"]);
    assert!(completed(&home, &["sessions", "search", "--"]).contains(&"--regex".to_owned()));
    assert_eq!(completed(&home, &["completions", "f"]), ["fish"]);
    for (shell, word) in [("zsh", "#compdef baton"), ("fish", "complete -c baton")] {
        let text = home.run(&format!("completions {shell}")).ok();
        assert!(text.contains(word) && text.contains("sessions"), "{shell}: {text}");
        // The shell itself checks its script, if it is installed.
        let file = home.write(&format!("completions.{shell}"), &text);
        if let Ok(checked) = home.command(shell).arg("-n").arg(&file).output() {
            assert!(checked.status.success(), "{shell}: {}", String::from_utf8_lossy(&checked.stderr));
        }
    }
    assert_eq!(home.run("completions tcsh").code, Some(2));
}
