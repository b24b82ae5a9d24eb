use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn full() -> Checkpoint {
    Checkpoint {
        event_type: "handoff".into(),
        timestamp: Some(at("2026-01-09T14:00:00Z")),
        session_id: "a1b2c3d4".into(),
        session_name: Some("open-source-release".into()),
        goal: "The parser accepts tabs".into(),
        now: "Run the tests: all of them".into(),
        done_this_session: vec!["lexer".into(), "say \"hi\" #1".into()],
        blockers: vec!["- none".into()],
        next: vec!["docs\nand changelog".into()],
    }
}

#[test]
fn the_file_is_frontmatter_then_goal_now_and_lists() {
    insta::assert_snapshot!(full().format(), @r#"
    ---
    event_type: handoff
    timestamp: 2026-01-09T14:00:00.000Z
    session_id: a1b2c3d4
    session_name: open-source-release
    ---

    goal: The parser accepts tabs
    now: "Run the tests: all of them"
    done_this_session:
      - lexer
      - "say \"hi\" #1"
    blockers:
      - "- none"
    next:
      - "docs\nand changelog"
    "#);
}

#[test]
fn what_we_write_we_read() {
    assert_eq!(Checkpoint::parse(&full().format()), Some(full()));
}

#[test]
fn whole_yaml_files_of_others_are_read() {
    let text = "\u{feff}# made by another tool\r\nsession_name: 'it''s ours'\r\ngoal: \"a \\\"b\\\"\"   # why\r\nnow: >\r\n  first\r\n  then\r\ndone_this_session:\r\n- task: one\r\n  files: [x.rs]\r\n- \"two\"\r\nblockers: []\r\nnext: [plain, \"a, b\", 'c]']\r\nworked: {deep: [1]}\r\n";
    let c = Checkpoint::parse(text).unwrap();
    assert_eq!(c.session_name.as_deref(), Some("it's ours"));
    assert_eq!((c.goal.as_str(), c.now.as_str()), ("a \"b\"", "first then"));
    assert_eq!(c.done_this_session, ["task: one", "two"]);
    assert_eq!((c.blockers.len(), c.next), (0, vec!["plain".into(), "a, b".into(), "c]".into()]));
}

#[test]
fn the_frontmatter_may_hold_goal_and_now_and_prose_around_them_is_skipped() {
    let text = "---\ngoal: ship it\nnow: tag it\n---\n\n# Notes\n\nSome prose: with colons.\ngoal: another\n```\nnow: code\n```\n";
    let c = Checkpoint::parse(text).unwrap();
    assert_eq!((c.goal.as_str(), c.now.as_str()), ("ship it", "tag it"));
}

#[test]
fn a_file_without_goal_and_now_is_not_a_checkpoint() {
    for text in ["", "---\n---\n", "hello: world", "goal:\nnow: null\n", "Goal: upper\n  goal: indented\n"] {
        assert_eq!(Checkpoint::parse(text), None, "{text:?}");
    }
}

#[test]
fn names_carry_time_and_session() {
    let name = file_name(at("2026-01-09T14:00:00.0426Z"), "a1b2c3d4");
    assert_eq!(name, "2026-01-09T14-00-00.042Z_a1b2c3d4.md");
    let parsed = FileName::parse(&name).unwrap();
    assert_eq!((parsed.timestamp(), parsed.session8()), (Some(at("2026-01-09T14:00:00.042Z")), "a1b2c3d4"));
    assert_eq!(FileName::parse("2026-99-09T14-00-00Z_x.md").unwrap().timestamp(), None);
}

#[test]
fn the_newest_is_decided_by_name_and_strangers_do_not_count() {
    let names = [
        "2026-01-09T16-00-00Z_c9d0e1f2.yaml",
        "2026-01-09T15-59-59.999Z_e5f6a7b8.md",
        "zzz.md",
        "2027-01-01T00-00-00.000Z.md",
        "2027-01-01T00-00-00.000Z_x.txt",
        "2027-01-01T00-00-0x.000Z_x.md",
        ".2027-01-01T00-00-00.000Z_x.md",
        "README.md",
    ];
    let newest = names.into_iter().filter_map(FileName::parse).max();
    assert_eq!(newest, FileName::parse("2026-01-09T16-00-00Z_c9d0e1f2.yaml"));
    assert_eq!(FileName::parse("notes.md"), None);
}

#[test]
fn a_persons_checkpoint_is_shown_until_they_or_that_workflow_replace_it() {
    let at = |second: i64, goal: &str, name: Option<&str>| {
        let c =
            Checkpoint { goal: goal.into(), session_name: name.map(str::to_owned), ..Checkpoint::default() };
        Some((Timestamp::from_second(second).unwrap(), c))
    };
    let goal = |person, own| shown(person, own).map(|c| c.goal);
    assert_eq!(goal(None, None), None);
    assert_eq!(goal(None, at(1, "lexer", Some("alpha"))).as_deref(), Some("lexer"));
    assert_eq!(goal(at(1, "Release", None), at(2, "lexer", Some("alpha"))).as_deref(), Some("Release"));
    assert_eq!(
        goal(at(1, "Release", None), at(2, "notes", None)).as_deref(),
        Some("notes"),
        "by its own word"
    );
    assert_eq!(goal(at(3, "Release", None), at(2, "notes", None)).as_deref(), Some("Release"));
}

#[test]
fn authors_are_known_by_their_sessions() {
    let of = |session8| CheckpointAuthor::of(session8, &["aaaaaaaa"], |id| id == "bbbbbbbb");
    assert_eq!(of("aaaaaaaa"), CheckpointAuthor::Own);
    assert_eq!(of("bbbbbbbb"), CheckpointAuthor::Agent);
    assert_eq!((of(MANUAL), of("cccccccc")), (CheckpointAuthor::Person, CheckpointAuthor::Person));
}

proptest! {
    #[test]
    fn any_text_goes_through_a_file_unchanged(
        goal in "\\PC{0,30}", now in ".{0,30}", done in proptest::collection::vec("(?s).{1,20}", 0..4),
    ) {
        let c = Checkpoint {
            event_type: "handoff".into(), session_id: "s".into(), goal: format!("g{goal}"), now,
            done_this_session: done, ..Checkpoint::default()
        };
        prop_assert_eq!(Checkpoint::parse(&c.format()), Some(c));
    }

    #[test]
    fn no_file_makes_the_reader_panic(text in "(?s)([a-z_]{1,9}:? ?|[-\\[\\]|>'\"#,:\\\\\\n ]|---\\n|  - |.){0,60}") {
        let _ = Checkpoint::parse(&text);
        let _ = FileName::parse(&text);
        for key in ["goal", "next"] {
            let _ = Checkpoint::parse(&format!("{key}: {text}"));
            let _ = Checkpoint::parse(&format!("{key}: [{text}"));
        }
    }

    #[test]
    fn names_order_as_their_times_do(a in 0i64..4_000_000_000_000, b in 0i64..4_000_000_000_000) {
        let (ta, tb) = (Timestamp::from_millisecond(a).unwrap(), Timestamp::from_millisecond(b).unwrap());
        let (na, nb) = (file_name(ta, "s"), file_name(tb, "s"));
        let (fa, fb) = (FileName::parse(&na).unwrap(), FileName::parse(&nb).unwrap());
        prop_assert_eq!(fa.cmp(&fb), ta.cmp(&tb));
        prop_assert_eq!(fa.timestamp(), Some(ta));
    }
}
