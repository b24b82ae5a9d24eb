use proptest::prelude::*;
use serde_json::json;

use super::rules::{Decision, Rule, RuleScope, Rules, ToolCall};
use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_794_790_000 + second).unwrap()
}

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

fn request(tool: &str, input: Value) -> Request {
    Request {
        at: at(0),
        agent: agent("worker"),
        session: SessionId::new("s1").unwrap(),
        provider: "claude".into(),
        cwd: "/p".into(),
        subagent: None,
        tool: tool.into(),
        input,
        suggestions: Vec::new(),
        hook: None,
        deadline: None,
    }
}

fn case(tool: &str, input: Value) -> Case {
    let id = RequestId::new("ab".repeat(32)).unwrap();
    Case { id, request: request(tool, input), answer: None, outcome: None }
}

fn allow() -> Verdict {
    Verdict::Allow { input: None, permissions: Vec::new() }
}

fn by_user(verdict: Verdict) -> CaseInput {
    CaseInput::Answer(Answer { at: at(1), author: AnswerAuthor::User, door: Door::Cli, verdict })
}

fn ran(command: &str) -> CaseInput {
    CaseInput::ToolRan { tool: "Bash".into(), input: json!({ "command": command }), at: at(2) }
}

fn ended(because: Closing) -> CaseInput {
    CaseInput::Ended { because, at: at(3) }
}

/// The first write stays, as with an atomic create.
fn take(case: &mut Case, input: &CaseInput) {
    let writes = case.step(input);
    case.answer = case.answer.take().or(writes.answer);
    case.outcome = case.outcome.take().or(writes.outcome);
}

fn after(inputs: &[CaseInput]) -> CaseState {
    let mut case = case("Bash", json!({ "command": "ls" }));
    for input in inputs {
        take(&mut case, input);
    }
    case.state()
}

#[test]
fn an_answer_is_offered_until_the_client_shows_what_it_did() {
    let deny = || by_user(Verdict::Deny { reason: "no".into() });
    assert_eq!(after(&[]), CaseState::Waiting);
    assert_eq!(after(&[by_user(allow())]), CaseState::Offered);
    assert_eq!(after(&[by_user(allow()), ran("ls")]), CaseState::Allowed);
    assert_eq!(after(&[by_user(allow()), ran("other")]), CaseState::Offered);
    assert_eq!(after(&[deny(), ended(Closing::TurnEnded)]), CaseState::Denied);
    assert_eq!(after(&[deny(), ran("ls")]), CaseState::TooLate, "somebody at the terminal had allowed it");
    assert_eq!(after(&[by_user(allow()), ended(Closing::TurnEnded)]), CaseState::TooLate);
    assert_eq!(after(&[by_user(allow()), ended(Closing::NewPrompt)]), CaseState::Offered, "it may still run");
    assert_eq!(after(&[ran("ls"), deny()]), CaseState::Closed, "the terminal was first");
    assert_eq!(after(&[ended(Closing::ClientGone), by_user(allow())]), CaseState::Closed);
}

#[test]
fn a_tool_that_ran_is_known_by_its_input_with_what_the_client_adds_to_it() {
    let mut asked = case("AskUserQuestion", json!({ "questions": [{ "question": "a?" }] }));
    assert!(
        asked.is_about("AskUserQuestion", &json!({ "questions": [{ "question": "a?" }], "answers": {} }))
    );
    assert!(!asked.is_about("AskUserQuestion", &json!({ "questions": [] })));
    asked = case("Bash", json!({ "command": "touch a" }));
    assert!(!asked.is_about("Bash", &json!({ "command": "touch b" })));
    let edited = Verdict::Allow { input: Some(json!({ "command": "touch b" })), permissions: Vec::new() };
    take(&mut asked, &by_user(edited));
    assert!(asked.is_about("Bash", &json!({ "command": "touch b" })), "we changed it");
    let plan = case(PLAN, json!({ "plan": "# P", "planFilePath": "/p.md" }));
    assert!(plan.is_about(PLAN, &json!({})), "2.1.325 leaves the plan out when it has been taken");
}

#[test]
fn of_two_equal_requests_the_answered_one_is_settled_first() {
    let mut first = case("Bash", json!({ "command": "ls" }));
    let mut second = first.clone();
    second.request.at = at(1);
    take(&mut second, &by_user(allow()));
    let both = [first.clone(), second.clone()];
    let settled = settled_by(&both, "Bash", &json!({ "command": "ls" })).unwrap();
    assert_eq!(settled.request.at, at(1));
    take(&mut second, &ran("ls"));
    let both = [first.clone(), second];
    assert_eq!(settled_by(&both, "Bash", &json!({ "command": "ls" })).unwrap().request.at, at(0));
    take(&mut first, &ran("ls"));
    assert_eq!(first.state(), CaseState::Closed);
}

fn any_input() -> impl Strategy<Value = CaseInput> {
    prop_oneof![
        Just(by_user(allow())),
        Just(by_user(Verdict::Deny { reason: "no".into() })),
        Just(ran("ls")),
        Just(ran("other")),
        Just(ended(Closing::TurnEnded)),
        Just(ended(Closing::NewPrompt)),
        Just(ended(Closing::ClientGone)),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_there_is_one_answer_one_outcome_and_the_state_only_moves_on(
        inputs in prop::collection::vec(any_input(), 0..12),
    ) {
        let mut case = case("Bash", json!({ "command": "ls" }));
        let place = |state: CaseState| match state {
            CaseState::Waiting => 0,
            CaseState::Offered => 1,
            _ => 2,
        };
        for input in &inputs {
            let (answer, outcome, state) = (case.answer.clone(), case.outcome.clone(), case.state());
            let writes = case.step(input);
            prop_assert!(answer.is_none() || writes.answer.is_none(), "a second answer");
            prop_assert!(outcome.is_none() || writes.outcome.is_none(), "a second outcome");
            take(&mut case, input);
            prop_assert!(place(case.state()) >= place(state));
            prop_assert!(case.outcome.is_none() || case.answer.is_some(), "an outcome without an answer");
        }
        // The record agrees with the client.
        let has_run = inputs.contains(&ran("ls"));
        if case.state() == CaseState::Allowed {
            prop_assert!(has_run);
        }
        if case.state() == CaseState::Denied {
            let first = |wanted: &CaseInput| inputs.iter().position(|i| i == wanted).unwrap_or(usize::MAX);
            prop_assert!(first(&ran("ls")) > first(&ended(Closing::TurnEnded)).min(first(&ended(Closing::ClientGone))));
        }
    }

    #[test]
    fn a_prefix_rule_never_lets_more_than_one_simple_command_through(
        tail in "[ -~\\n\\r\\x00]{0,30}",
        spot in prop::sample::select(vec![";", "&", "|", "$", "(", "<", ">", "`", "\n", "\r"]),
    ) {
        let rules = allowing(&["Bash(cargo test:*)", "Bash(git * main)"]);
        let command = format!("cargo test {tail}{spot}");
        prop_assert_eq!(decided(&rules, "Bash", &json!({ "command": command })), None);
        let command = format!("git {tail}{spot} main");
        prop_assert_eq!(decided(&rules, "Bash", &json!({ "command": command })), None);
    }

    #[test]
    fn a_shown_request_hides_and_cuts_nothing(text in any::<String>()) {
        let shown = visible(&text);
        prop_assert!(!shown.chars().any(crate::plain::is_unseen));
        prop_assert!(shown.chars().count() >= text.chars().count());
    }

    #[test]
    fn no_rule_text_panics_and_every_rule_says_itself(text in "[A-Za-z_*(): /~.-]{0,40}") {
        if let Ok(rule) = text.parse::<Rule>() {
            prop_assert_eq!(rule.to_string(), text);
        }
    }
}

fn allowing(rules: &[&str]) -> Rules {
    Rules(rules.iter().map(|r| (RuleScope::Everybody, Decision::Allow, r.parse().unwrap())).collect())
}

fn asked<'a>(
    tool: &'a str,
    input: &'a Value,
    files: &'a [(String, String)],
    who: &'a AgentId,
) -> ToolCall<'a> {
    ToolCall { tool, input, home: "/home/u", files, agent: who, ancestors: &[] }
}

fn decided(rules: &Rules, tool: &str, input: &Value) -> Option<Decision> {
    let who = agent("worker");
    let files: Vec<(String, String)> =
        rules::files_of(tool, input).into_iter().map(|f| (f.to_owned(), "/p".to_owned())).collect();
    rules.decide(&asked(tool, input, &files, &who)).map(|(decision, _)| decision)
}

#[test]
fn rules_match_as_the_client_writes_them() {
    let yes = Some(Decision::Allow);
    let bash = |rules: &Rules, command: &str| decided(rules, "Bash", &json!({ "command": command }));
    let rules = allowing(&["Bash(cargo test:*)", "Bash(ls -la)", "Bash(npm run * --dry)"]);
    assert_eq!(bash(&rules, "cargo test"), yes);
    assert_eq!(bash(&rules, "cargo test -p core"), yes);
    assert_eq!(bash(&rules, "cargo tests"), None, "a word ends where it ends");
    assert_eq!(bash(&rules, "cargo test && rm -rf /"), None);
    assert_eq!(bash(&rules, "cargo test $(rm x)"), None);
    assert_eq!(bash(&rules, "FOO=1 cargo test"), None);
    assert_eq!(bash(&rules, "ls -la"), yes);
    assert_eq!(bash(&rules, "ls -la /"), None);
    assert_eq!(bash(&rules, "npm run build --dry"), yes);
    assert_eq!(bash(&rules, "npm run build"), None);
    let file = |rules: &Rules, tool: &str, path: &str| decided(rules, tool, &json!({ "file_path": path }));
    let rules = allowing(&["Edit(src/**)", "Read(//etc/hosts)", "Read(~/notes/*.md)", "Edit(docs/*.md)"]);
    assert_eq!(file(&rules, "Edit", "/p/src/a/b.rs"), yes);
    assert_eq!(file(&rules, "Write", "/p/src/b.rs"), yes, "Edit speaks for every tool that writes");
    assert_eq!(file(&rules, "Edit", "/p/src/../secret"), None);
    assert_eq!(file(&rules, "Edit", "/p/src"), None);
    assert_eq!(file(&rules, "Edit", "/q/src/a"), None);
    assert_eq!(file(&rules, "Edit", "/p/docs/a.md"), yes);
    assert_eq!(file(&rules, "Edit", "/p/docs/deep/a.md"), None);
    assert_eq!(file(&rules, "Read", "/etc/hosts"), yes);
    assert_eq!(file(&rules, "Read", "/home/u/notes/a.md"), yes);
    assert_eq!(file(&rules, "Edit", "/etc/hosts"), None);
    let fetch = |rules: &Rules, url: &str| decided(rules, "WebFetch", &json!({ "url": url }));
    let rules = allowing(&["WebFetch(domain:docs.rs)", "mcp__jira"]);
    assert_eq!(fetch(&rules, "https://docs.rs/serde"), yes);
    assert_eq!(fetch(&rules, "https://docs.rs.evil.example/"), None);
    assert_eq!(fetch(&rules, "https://docs.rs@evil.example/"), None);
    assert_eq!(fetch(&rules, "https://docs.rs:80@evil.example/"), None);
    assert_eq!(decided(&rules, "mcp__jira__search", &json!({})), yes);
    assert_eq!(decided(&rules, "mcp__jirax__search", &json!({})), None);
}

#[test]
fn a_denial_wins_and_rules_of_one_agent_or_tree_are_for_them_alone() {
    let rule = |text: &str| text.parse::<Rule>().unwrap();
    let rules = Rules(vec![
        (RuleScope::Everybody, Decision::Allow, rule("Bash")),
        (RuleScope::Tree(agent("lead")), Decision::Deny, rule("Bash(git push:*)")),
        (RuleScope::Agent(agent("lead")), Decision::Deny, rule("WebSearch")),
    ]);
    let decide = |who: &str, ancestors: &[AgentId], tool: &str, input: Value| {
        let who = agent(who);
        rules.decide(&ToolCall { ancestors, ..asked(tool, &input, &[], &who) }).map(|(d, _)| d)
    };
    let push = json!({ "command": "git push origin" });
    let below = [agent("mid"), agent("lead")];
    assert_eq!(decide("other", &[], "Bash", push.clone()), Some(Decision::Allow));
    assert_eq!(decide("lead", &[], "Bash", push.clone()), Some(Decision::Deny));
    assert_eq!(decide("leaf", &below, "Bash", push), Some(Decision::Deny));
    assert_eq!(decide("lead", &[], "WebSearch", json!({})), Some(Decision::Deny));
    assert_eq!(decide("leaf", &below, "WebSearch", json!({})), None);
}

#[test]
fn an_allowance_must_hold_for_a_file_and_for_what_its_links_lead_to() {
    let rules = allowing(&["Edit(src/**)"]);
    let (who, input) = (agent("worker"), json!({ "file_path": "/p/src/link" }));
    let pair = |file: &str| (file.to_owned(), "/p".to_owned());
    let files = [pair("/p/src/link"), pair("/etc/passwd")];
    assert_eq!(rules.decide(&asked("Edit", &input, &files, &who)), None);
    let deny = Rules(vec![(RuleScope::Everybody, Decision::Deny, "Edit(//etc/**)".parse().unwrap())]);
    assert!(deny.decide(&asked("Edit", &input, &files, &who)).is_some());
}

/// With a tool allowed and one use of it denied, the user is asked about anything that may be that use in other words.
#[test]
fn a_wide_allowance_does_not_cover_what_a_denial_may_mean() {
    let rule = |text: &str| text.parse::<Rule>().unwrap();
    let with = |allowed: &[&str], denied: &[&str]| {
        let all = allowed.iter().map(|r| (RuleScope::Everybody, Decision::Allow, rule(r)));
        Rules(all.chain(denied.iter().map(|r| (RuleScope::Everybody, Decision::Deny, rule(r)))).collect())
    };
    let rules = with(&["Bash", "Bash(cd a && make)"], &["Bash(git push:*)", "Bash(shutdown)"]);
    let bash = |command: &str| decided(&rules, "Bash", &json!({ "command": command }));
    for asks in [
        "cd x && git push",
        " git push",
        "git  push",
        "git\tpush",
        "git -C x push",
        "/usr/bin/git push",
        "GIT_DIR=x git push",
        "g\\it push",
        "'git' \"push\"",
        "git pu\\\nsh",
        "GIT push",
        "env git push",
        "git pu{sh,}",
        "git {pus,x}h",
        "git pus? origin",
        "git p[u]sh",
        "{git,pu*}",
        "/usr/bin/gi? push",
        "$x",
        "cat <<E\ngit push\nE",
        "shutdown -h now",
    ] {
        assert_eq!(bash(asks), None, "{asks:?}");
    }
    assert_eq!(bash("git push"), Some(Decision::Deny));
    for allowed in [
        "git commit -m 'push it'",
        "cargo test",
        "ls *.rs",
        "git add *",
        "git add src/*.rs tests/{a,b}.rs",
        "rg digit pushed",
        "cd a && make",
    ] {
        let wanted = (allowed != "git commit -m 'push it'").then_some(Decision::Allow);
        assert_eq!(bash(allowed), wanted, "{allowed:?}");
    }
    let rules =
        with(&["Edit", "Read", "WebFetch"], &["Edit(db/**)", "Read(.env)", "WebFetch(domain:x.example)"]);
    let on = |tool: &str, input: Value| decided(&rules, tool, &input);
    assert_eq!(on("Edit", json!({ "file_path": "/p/db/a" })), Some(Decision::Deny));
    assert_eq!(on("Edit", json!({ "file_path": "/p/src/a" })), Some(Decision::Allow));
    assert_eq!(on("Edit", json!({ "file_path": "/p/none/../db/a" })), None);
    assert_eq!(on("Edit", json!({ "target": "/p/db/a" })), None, "which file it is about is unknown");
    assert_eq!(
        on("Grep", json!({ "path": "/p", "pattern": "KEY" })),
        None,
        "the folder holds what is denied"
    );
    assert_eq!(on("Grep", json!({ "pattern": "KEY" })), None);
    assert_eq!(on("Grep", json!({ "path": "/p/src", "pattern": "KEY" })), Some(Decision::Allow));
    let fetch = |url: &str| on("WebFetch", json!({ "url": url }));
    assert_eq!(fetch("https://x.example/"), Some(Decision::Deny));
    assert_eq!(fetch("https://docs.rs/"), Some(Decision::Allow));
    for url in ["https://x.example./", "https://a@x.example/", "HTTPS://x.example/", "https:/\\x.example/"] {
        assert_eq!(fetch(url), None, "{url}");
    }
}

#[test]
fn every_file_of_an_input_counts_and_a_name_that_a_client_reads_in_another_way_none() {
    let input = json!({ "file_path": "/p/src/a", "notebook_path": "/etc/b" });
    assert_eq!(rules::files_of("Edit", &input), ["/p/src/a", "/etc/b"]);
    assert_eq!(rules::files_of("Glob", &json!({ "path": "/p/src", "pattern": "*.rs" })), ["/p/src"]);
    for pattern in ["/etc/*", "../*", "~/.ssh/*", "{..,x}/*"] {
        assert_eq!(
            rules::files_of("Glob", &json!({ "path": "/p/src", "pattern": pattern })),
            ["/p/src", pattern]
        );
    }
    for name in ["~/.ssh/config", "~", " /etc/hosts", "/etc/hosts ", "a\n", "a\0b"] {
        assert!(!rules::is_clear(name), "{name:?}");
    }
    for name in ["/p/a b", "src/a.rs", "a~", "/home/u/~x"] {
        assert!(rules::is_clear(name), "{name:?}");
    }
}

#[test]
fn an_invalid_rule_is_refused_with_the_allowed_forms() {
    let error = |text: &str| text.parse::<Rule>().unwrap_err().to_string();
    for text in ["", "Bash(", "Bash()", "*", "rm -rf", "(x)"] {
        assert!(error(text).contains("is no rule"), "{text}");
    }
    assert!(error("Edit(/etc/hosts)").contains("//path"));
    assert!(error("Edit(src/../x)").contains("//path"));
    assert!(error("AskUserQuestion").contains("no rule answers"));
    assert!(error("WebFetch(docs.rs)").contains("domain:HOST"));
    assert!(error("WebSearch(x)").contains("takes no pattern"));
}

#[test]
fn a_rule_for_a_tool_answers_no_question() {
    let rules = allowing(&["Ask*", "Exit*"]);
    for tool in [QUESTION, PLAN] {
        assert_eq!(decided(&rules, tool, &json!({})), None);
    }
}

#[test]
fn a_question_is_answered_by_number_label_or_text() {
    let question = |text: &str, multiple: bool| {
        json!({ "question": text, "multiSelect": multiple,
            "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue" }] })
    };
    let asked =
        request(QUESTION, json!({ "questions": [question("Which?", false), question("All?", true)] }));
    let answer = |given: &[&str]| {
        let given: Vec<String> = given.iter().map(|g| (*g).to_owned()).collect();
        answers(&asked, &given).map(|input| input["answers"].clone())
    };
    assert_eq!(answer(&["2", "1, blue"]), Ok(json!({ "Which?": "Blue", "All?": "Red, Blue" })));
    assert_eq!(answer(&["a darker red", "red"]), Ok(json!({ "Which?": "a darker red", "All?": "Red" })));
    assert!(matches!(answer(&["3", "1"]), Err(BadAnswer::NoOption { .. })));
    assert!(matches!(answer(&["1"]), Err(BadAnswer::Count { asked: 2, given: 1 })));
    assert_eq!(answer(&["1", " "]), Err(BadAnswer::Empty));
    assert_eq!(answers(&request("Bash", json!({})), &[]), Err(BadAnswer::NoQuestion));
}

#[test]
fn what_is_remembered_is_what_the_dialog_offers_or_exactly_this_command() {
    let mut asked = request("Bash", json!({ "command": "ls" }));
    assert_eq!(granted(&asked, Grant::Once), Ok(Vec::new()));
    let own = granted(&asked, Grant::Session).unwrap();
    assert_eq!(own[0]["rules"], json!([{ "toolName": "Bash", "ruleContent": "ls" }]));
    assert_eq!(own[0]["destination"], "session");
    asked.suggestions = vec![json!({ "type": "setMode", "mode": "acceptEdits", "destination": "session" })];
    assert_eq!(granted(&asked, Grant::Always), Ok(asked.suggestions.clone()));
    let write = request("Write", json!({ "file_path": "/x" }));
    assert!(granted(&write, Grant::Always).is_err(), "a rule for all of Write would be more than was asked");
}

#[test]
fn a_field_that_a_view_would_not_show_makes_all_of_the_input_shown() {
    let plain = request("Bash", json!({ "command": "ls", "description": "List" }));
    assert!(matches!(plain.view(), View::Command { command: "ls", description: Some("List") }));
    let more = request("Bash", json!({ "command": "ls", "run_in_background": true }));
    assert!(matches!(more.view(), View::Other(_)));
    assert_eq!(visible("a\u{1b}[2K\r\u{202e}b\tc\nd"), "a\\u{1b}[2K\\r\\u{202e}b\tc\nd");
}

#[test]
fn a_patch_is_held_against_every_file_that_it_names() {
    let patch = |lines: &str| json!({ "command": format!("*** Begin Patch\n{lines}*** End Patch") });
    let files = |lines: &str| {
        let patch = patch(lines);
        rules::files_of(PATCH, &patch).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let moved = "*** Update File: src/a.rs\n*** Move to: src/b.rs\n-x\n+*** Add File: /etc/passwd\n";
    assert_eq!(files(moved), ["src/a.rs", "src/b.rs"], "what is added is no name");
    assert_eq!(files("*** Add File: a\n+x\n*** Delete File: b\n"), ["a", "b"]);
    let rules = allowing(&["Edit(//p/src/**)"]);
    let decided = |lines: &str| decided(&rules, PATCH, &patch(lines));
    assert_eq!(decided("*** Add File: /p/src/a.rs\n+x\n"), Some(Decision::Allow));
    assert_eq!(decided("*** Add File: /p/src/a.rs\n+x\n*** Delete File: /p/Cargo.toml\n"), None);
    assert_eq!(decided(""), None, "one that names nothing asks");
}

#[test]
fn an_agents_answer_names_the_agent() {
    let asked = request(
        QUESTION,
        json!({ "questions": [{ "question": "Which?", "options": [{ "label": "Red" }] }] }),
    );
    let input = attributed(answers(&asked, &["1".to_owned()]).unwrap(), &agent("lead"));
    assert_eq!(input["answers"], json!({ "Which?": "Red (answered by the agent lead)" }));
    assert_eq!(answered_by("Red (answered by the agent lead)"), Some("lead"));
    assert_eq!(answered_by("Red"), None);
    assert_eq!(answered_by("Red (answered by the agent )"), None);
}

#[test]
fn a_mode_in_which_less_is_asked_is_wider() {
    use rules::is_wider;
    assert!(
        is_wider(Some("acceptEdits"), Some("default")) && is_wider(Some("bypassPermissions"), Some("auto"))
    );
    assert!(!is_wider(Some("default"), None) && !is_wider(Some("plan"), Some("default")));
    assert!(is_wider(Some("a new one"), Some("auto")) && !is_wider(Some("auto"), Some("auto")));
}
