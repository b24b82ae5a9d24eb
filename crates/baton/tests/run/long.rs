//! Many rotations in a row, and two runs at the same instant.

use super::*;

#[test]
fn after_ten_rotations_in_a_row_the_refusal_says_why() {
    let home = home(FOR_EVER);
    let mut run = start(&home, "a", ["Go."]);
    wait_for("the refusal", || log(&home, "rotation-refused").pop());
    assert_eq!(rotations(&home).len(), 10);
    run.said_times("Handed over.", 11);
    // A person is wanted, and told so at every face.
    let words = "stopped: 10 rotations in a row without a prompt by a person";
    wait_for("the listing", || home.run("agents").out.contains(words).then_some(()));
    let inbox = home.run("inbox").ok();
    assert!(inbox.contains("type something to continue"), "{inbox}");
    // A person's word restarts the count.
    run.type_line("Go on.");
    wait_for("its prompt", || run.of_kind("prompt").iter().any(|p| p["text"] == "Go on.").then_some(()));
    wait_for("the count", || (run.agent()["in_a_row"] == 0).then_some(()));
    assert!(!home.run("agents").out.contains(words));
    let left = run.exits();
    assert_eq!(left.code, 0);
    let why =
        "baton: no further rotation: 10 rotations in a row without a prompt by a person (run.max_restarts)";
    assert!(left.err.contains(why), "{}", left.err);
    assert_eq!(log(&home, "rotation-refused").len(), 1);
}

/// Promises 8 and 11.
#[test]
fn two_hundred_rotations_leave_no_orphan_no_zombie_no_descriptor_and_one_load_each() {
    const COUNT: usize = 200;
    let home = home(FOR_EVER);
    home.write("work/app/.baton.toml", format!("[run]\nmax_restarts = {COUNT}\n"));
    home.trust();
    let began = Instant::now();
    let run = start(&home, "a", ["Go."]);
    run.said_times("Handed over.", 2);
    let descriptors = |pid: i32| std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let before = descriptors(run.supervisor());
    wait_for_rotations(&home, COUNT);
    wait_for("the last one", || log(&home, "rotation-refused").pop());
    let took = began.elapsed();
    run.said_times("Handed over.", COUNT + 1);
    let client = run.client();
    wait_for("quiet", || (processes(&home).len() == 2).then_some(()));
    let mut left = processes(&home);
    left.sort_unstable();
    let mut expected = vec![run.supervisor(), client];
    expected.sort_unstable();
    assert_eq!(left, expected, "only the supervisor and one client run");
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.supervisor())).unwrap();
    assert_eq!(
        children.split_whitespace().collect::<Vec<_>>(),
        [client.to_string()],
        "zombies count as children"
    );
    assert_eq!(descriptors(run.supervisor()), before);
    let inherited = descriptors(client);
    assert!(inherited <= 12, "the client has {inherited} descriptors");

    let memory = memory_kib(run.supervisor());
    let done = rotations(&home);
    assert_eq!(done.iter().filter(|r| r["step"] == "done").count(), COUNT);
    let left = run.exits();
    let mut loaded = loads(&left.seen);
    assert_eq!(loaded.len(), COUNT);
    loaded.sort_unstable();
    loaded.dedup();
    assert_eq!(loaded.len(), COUNT, "a handoff was loaded twice");
    let mut handoffs: Vec<_> = done.iter().map(|r| r["handoff"].as_str().unwrap().to_owned()).collect();
    handoffs.sort_unstable();
    assert_eq!(handoffs, loaded);
    assert_eq!(processes(&home), Vec::<i32>::new());

    // The targets are 5 MiB and 50 ms. Assert ten times that, and print the measurements.
    let mut ours: Vec<f64> = log(&home, "rotated").iter().filter_map(|l| ours_ms(&l["detail"])).collect();
    ours.sort_by(f64::total_cmp);
    assert!(ours.len() > COUNT / 2);
    let median = ours[ours.len() / 2];
    println!(
        "{COUNT} rotations in {took:.1?}; supervisor {memory} KiB; from Stop to the new process, the agent's own \
         exit not counted: median {median:.1} ms, 90 % {:.1} ms",
        ours[ours.len() * 9 / 10]
    );
    assert!(median < 500.0, "{median} ms");
    assert!(memory < 50 << 10, "{memory} KiB");
}

/// How long a rotation took, without the time that the client needed to end.
fn ours_ms(detail: &Value) -> Option<f64> {
    Some(detail["ms_until_told"].as_f64()? + detail["ms_until_started"].as_f64()?)
}

/// Resident memory, in KiB.
fn memory_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Real `baton run` processes that hand over at the same instant again and again.
#[test]
fn two_that_rotate_at_the_same_instant_get_their_own_handoff_each_time() {
    let count = if baton_testkit::times(1) > 1 { 1000 } else { 20 };
    let gate = "d=$HOME/gate; me=$CLAUDE_SESSION_MANAGER_ID; k=$(ls $d | grep -c \"^$me\\.\"); touch $d/$me.$k; \
                for i in $(seq 1000); do [ $(ls $d | grep -c \"\\.$k\\$\") = 2 ] && break; sleep 0.01; done; \
                echo \"work of $me number $k\" | baton handoff -";
    let home = home(&format!("turn\n  tokens 20%\n  bash {gate}\n  say Handed over.\n"));
    std::fs::create_dir(home.path().join("gate")).unwrap();
    home.write("work/app/.baton.toml", format!("[run]\nmax_restarts = {count}\n"));
    home.trust();
    let runs = [start(&home, "left", ["Go."]), start(&home, "right", ["Go."])];
    wait_for_rotations(&home, 2 * count);
    for run in &runs {
        run.said_times("Handed over.", count);
    }
    wait_for("both refusals", || (log(&home, "rotation-refused").len() == 2).then_some(()));
    for run in &runs {
        let texts: Vec<String> = run
            .of_kind("context")
            .iter()
            .map(|e| e["text"].as_str().unwrap().to_owned())
            .filter(|t| t.contains("=== HANDOFF LOADED"))
            .collect();
        assert_eq!(texts.len(), count, "{}", run.name);
        for (n, text) in texts.iter().enumerate() {
            // A number that nothing proves is followed by a remark.
            let own = format!("work of {} number {n}", run.name);
            assert!(text.lines().any(|l| l.split(" [").next() == Some(&own)), "{own}: {text}");
        }
    }
    println!("{count} rotations of two at the same instant");
    let agents = home.run("agents --json").json();
    assert_eq!(agents.as_array().unwrap().len(), 2, "{agents}");
    let table = home.run("status").ok();
    assert!(table.contains("left ") && table.contains("right "), "{table}");
    let several = home.run("rotate").fails(3);
    assert!(several.contains("several agents run in this project; name one of left, right"), "{several}");
    for run in runs {
        assert_eq!(run.exits().code, 0);
    }
}
