//! `baton sessions tree`: how the work moved from one session to the next.

use baton_testkit::Home;
use baton_testkit::agent::Script;
use baton_testkit::hooks::register;

use super::made::Claude;
use crate::BATON;

#[test]
fn a_chain_shows_its_sessions_the_handoffs_between_them_and_fresh_starts() {
    let home = Home::new(BATON);
    home.write("work/app/.claude/keep", "");
    register(&home);
    let script = "context\nturn\n  tokens 20%\n  bash printf '# H\\n\\n## Next\\nRun it.\\n' | baton handoff -\n  say Handed over.\n\
                  context\nturn\n  tokens 10%\n  say Going on.\ncontext\nturn\n  tokens 10%\n  say Anew.\n";
    let played =
        Script::new(&home, script).play(&["Write the parser", "/clear", "go on", "/clear", "another thing"]);
    assert_eq!(played.ran.code, Some(0), "{}", played.ran.err);
    Claude::new(&home, 1, &home.project()).user("Alone").says("Yes.").write();
    let tree = home.run("sessions tree").ok();
    let at = |what: &str| tree.find(what).unwrap_or_else(|| panic!("{what} is missing in {tree}"));
    assert!(at("Write the parser") < at("└─ HO-") && at("└─ HO-") < at("go on"), "{tree}");
    assert!(at("go on") < at("└─ began again") && at("└─ began again") < at("another thing"), "{tree}");
    assert!(tree.contains("manual consumed") || tree.contains("auto consumed"), "{tree}");
    assert!(!tree.contains("Alone"), "a session that handed nothing over has no chain: {tree}");
    let json = home.run("sessions tree --json").json();
    assert_eq!(json.as_array().unwrap().len(), 1);
    let steps = json[0].as_array().unwrap();
    assert_eq!(steps.len(), 3, "{json:#}");
    assert_eq!(steps[1]["from"], steps[0]["session"]);
    assert_eq!(steps[1]["handoff"]["status"], "consumed");
    let last = steps[2]["session"].as_str().unwrap();
    let whole = home.run(&format!("sessions tree {last} --json")).json();
    assert_eq!(whole, json, "any session of it shows the whole chain");
    assert!(home.run("sessions tree 00000001").ok().contains("Alone"));
    assert_eq!(home.run("sessions tree ffffffff").code, Some(3));
}
