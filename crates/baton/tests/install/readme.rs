//! The transcript in the README.

use super::*;

const BEGIN: &str = "<!-- Written by a test (BATON_UPDATE=1 cargo test the_transcript); do not edit. -->\n";
const END: &str = "<!-- End of what the test writes. -->\n";

/// What a newcomer sees in a terminal of 80 by 24. The README shows it, so it must be true: `BATON_UPDATE=1` rewrites it.
#[test]
fn the_transcript_in_the_documentation_is_what_happens() {
    let home = Home::new(crate::BATON);
    for (name, says) in [("claude", "2.1.325 (Claude Code)"), ("tmux", "tmux 3.3a")] {
        let path = home.write(&format!("tools/{name}"), format!("#!/bin/sh\necho '{says}'\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!(
        "{}:{}:/usr/bin:/bin",
        home.path().join(".local/bin").display(),
        home.path().join("tools").display()
    );
    let mut text = "```console\n".to_owned();
    for line in ["./baton install --yes", "baton doctor", "baton uninstall --verify"] {
        let installed = program(&home);
        let program = if line.starts_with("./") { Path::new(crate::BATON) } else { &installed };
        let mut command = home.command(program);
        command.args(line.split(' ').skip(1)).env("PATH", &path).env("NO_COLOR", "1");
        let (out, code) = crate::docs::in_terminal(&command, |_| ());
        assert_eq!(code, 0, "{line}: {out}");
        text = text + "$ " + line + "\n" + &home.tidy(&out) + "\n";
    }
    text = text.trim_end().to_owned() + "\n```\n";
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let whole = std::fs::read_to_string(&readme).unwrap();
    let (before, rest) = whole.split_once(BEGIN).expect("the README marks where the transcript begins");
    let (shown, after) = rest.split_once(END).expect("the README marks where the transcript ends");
    if std::env::var_os("BATON_UPDATE").is_some() {
        std::fs::write(&readme, [before, BEGIN, &text, END, after].concat()).unwrap();
    } else {
        assert_eq!(shown, text, "run again with BATON_UPDATE=1 and look at the difference");
    }
    // Only the program is left.
    let left: Vec<_> =
        files(home.path()).into_iter().map(|(name, _)| name).filter(|n| !n.starts_with("tools/")).collect();
    assert_eq!(left, [".local/bin/baton"]);
}
