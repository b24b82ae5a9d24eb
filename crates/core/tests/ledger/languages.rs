//! Languages, runners and systems other than those of the sessions at hand: what their commands and outputs prove.

use baton_core::handoff::pack::pack;
use baton_core::ledger::{CommandOutcome, Ledger};
use serde_json::json;

use crate::claude::Transcript;
use crate::codex::{call, line, message, output};

fn document(ledger: &Ledger) -> String {
    pack(ledger, None, 9_500, "/x.md").text
}

fn outcomes(ledger: &Ledger) -> Vec<(&str, CommandOutcome)> {
    ledger.commands.commands.iter().map(|c| (c.text.as_str(), c.outcome)).collect()
}

fn changed(ledger: &Ledger) -> Vec<&str> {
    let mut paths: Vec<&str> = ledger.files.changed().map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    paths
}

/// The lines of the document that name `path` in their first code span.
fn lines_of<'d>(document: &'d str, path: &str) -> Vec<&'d str> {
    document.lines().filter(|line| line.contains(&format!("`{path}` ·"))).collect()
}

#[test]
fn python_is_checked_by_many_runners_and_a_traceback_names_its_places() {
    let pytest = "Exit code 1\nFAILED tests/test_store.py::test_load - KeyError: 'user_id'\n=== 1 failed, 12 passed in 0.31s ===";
    let traceback = "Exit code 1\nTraceback (most recent call last):\n  File \"/home/dev/app/src/store/loader.py\", line 41, in load_all\n    \
        row = self._fetch_row(session_key)\nKeyError: 'user_id'";
    let ruff = "E501 Line too long\n  --> src/store/loader.py:88:101\n   |\n88 |     build_query_plan(connection_pool)\n   |\n\nFound 1 error.";
    let text = Transcript::default()
        .user("Port the store to async. Never touch the migrations.")
        .shell_fails("uv run --extra dev pytest tests/test_store.py -q", pytest)
        .shell_fails("PYTHONPATH=src .venv/bin/python -m app.cli load", traceback)
        .shell("uvx ruff check src | head -20", ruff)
        .shell("uv run mypy src && tox -e py312", "Success: no issues found in 14 source files\n  py312: OK")
        .shell("uv run --extra dev pytest tests/test_store.py -x", "13 passed in 0.30s");
    let ledger = text.ledger();
    assert_eq!(
        outcomes(&ledger),
        [
            ("uv run --extra dev pytest tests/test_store.py -q", CommandOutcome::Exit(1)),
            ("PYTHONPATH=src .venv/bin/python -m app.cli load", CommandOutcome::Exit(1)),
            ("uvx ruff check src | head -20", CommandOutcome::Exit(0)),
            ("uv run mypy src && tox -e py312", CommandOutcome::Exit(0)),
            ("uv run --extra dev pytest tests/test_store.py -x", CommandOutcome::Exit(0)),
        ]
    );
    let document = document(&ledger);
    assert!(
        document.contains("exit 0, but its output complains · `uvx ruff check src | head -20`"),
        "{document}"
    );
    let loader = lines_of(&document, "src/store/loader.py").join("\n");
    for name in ["_fetch_row", "session_key", "build_query_plan", "connection_pool"] {
        assert!(loader.contains(name), "{name} is not placed: {document}");
    }
}

#[test]
fn go_on_windows_is_below_its_folder_in_every_spelling() {
    let at_home = |mut text: Transcript| {
        for line in &mut text.lines {
            *line = line.replace("/home/dev/app", r"C:\\Users\\dev\\app");
        }
        text
    };
    let vet = "Exit code 1\n# example.com/app/internal/store\nvet.exe: internal\\store\\cache.go:31:9: undefined: evictOldest";
    let failed =
        "Exit code 1\n--- FAIL: TestEvict (0.00s)\n    cache_test.go:17: got 3 entriesLeft, want 2\nFAIL";
    let text = Transcript::default()
        .user("Bound the cache.")
        .tool("Read", &json!({"file_path": r"C:\Users\dev\app\internal\store\cache.go"}), "1\tpackage store\n2\tfunc newCache() {}")
        .edit(r"c:\Users\dev\app\internal\store\cache.go")
        .shell_fails("cd /c/Users/dev/app && go vet ./...", vet)
        .tool("PowerShell", &json!({"command": "Set-Location C:\\Users\\dev\\app; Get-Content internal\\store\\cache_test.go | Select-Object -Skip 9 -First 20"}), "func TestEvict(t *testing.T) {\n\tentriesLeft := fillCache(t)")
        .tool("PowerShell", &json!({"command": "$env:CGO_ENABLED = '0'; $out = go test .\\internal\\store\\... 2>&1"}), "ok")
        .tool("PowerShell", &json!({"command": "@'\npackage store\n// go build > none.txt\n'@ | Set-Content -Path internal\\store\\doc.go -Encoding utf8"}), "")
        .shell("rm -f /c/Users/dev/app/internal/store/old.go", "")
        .shell_fails("go test -run TestEvict ./internal/store/...", failed);
    let ledger = at_home(text).ledger();
    assert_eq!(
        outcomes(&ledger),
        [
            ("cd /c/Users/dev/app && go vet ./...", CommandOutcome::Exit(1)),
            (r"$env:CGO_ENABLED = '0'; $out = go test .\internal\store\... 2>&1", CommandOutcome::Exit(0)),
            ("go test -run TestEvict ./internal/store/...", CommandOutcome::Exit(1)),
        ]
    );
    assert_eq!(
        changed(&ledger),
        ["internal/store/cache.go", "internal/store/doc.go", "internal/store/old.go"]
    );
    let document = document(&ledger);
    assert!(document.contains("- folder: `C:/Users/dev/app`"), "{document}");
    let tests = lines_of(&document, "internal/store/cache_test.go").join("\n");
    assert!(tests.contains("lines 10-29") && tests.contains("entriesLeft"), "{document}");
}

#[test]
fn pester_says_in_its_output_what_its_status_hides() {
    let pester = "Starting discovery in 1 files.\n[-] Get-Report reads the cache 14ms (12ms|2ms)\nTests completed in 310ms\n\
        Tests Passed: 11, Failed: 1, Skipped: 0 NotRun: 0";
    let windows = |id, command: &str, exit: i32, shown: &str| {
        [
            call(id, "shell_command", &json!({"command": command, "workdir": r"D:\mod"})),
            output(id, &format!("Exit code: {exit}\nWall time: 1.2 seconds\nOutput:\n{shown}\n")),
        ]
        .concat()
    };
    let patch = "*** Begin Patch\n*** Update File: src\\Get-Report.ps1\n@@ function Get-Report {\n-old\n+$reportCache = Read-ReportCache\n*** End Patch";
    let text = [
        line("session_meta", &json!({"id": "t", "cwd": r"D:\mod"})),
        message("m", "user", "Make the report cached. Always keep Windows PowerShell 5.1 working."),
        windows("c1", "Get-Content -Path .\\src\\Get-Report.ps1 -TotalCount 80", 0, "function Get-Report {\n  $reportCache = $null"),
        windows("c2", &format!("apply_patch @'\n{patch}\n'@"), 0, "Success. Updated the following files:\nM src\\Get-Report.ps1"),
        windows("c3", "pwsh -NoProfile -Command \"Invoke-Pester -Path tests -Output Detailed\"", 0, pester),
        windows("c4", "Invoke-ScriptAnalyzer -Path src -Recurse", 1, "PSAvoidUsingWriteHost Warning"),
        windows("c5", "New-Item -ItemType File -Path tests\\Cache.Tests.ps1 -Force; Remove-Item old.ps1 -ErrorAction SilentlyContinue", 0, ""),
        windows("c6", "pwsh -NoProfile -ExecutionPolicy Bypass -File .\\build.ps1 -Task Test", 0, "Tests Passed: 12, Failed: 0, Skipped: 0"),
    ]
    .concat();
    let ledger = Ledger::of(text.as_bytes()).unwrap();
    assert_eq!(changed(&ledger), ["old.ps1", "src/Get-Report.ps1", "tests/Cache.Tests.ps1"]);
    let document = document(&ledger);
    let pester = "exit 0, but its output complains · `pwsh -NoProfile -Command \"Invoke-Pester -Path tests -Output Detailed\"`";
    assert!(document.contains(pester), "{document}");
    assert!(document.contains("failed (exit 1) · `Invoke-ScriptAnalyzer -Path src -Recurse`"), "{document}");
    assert!(
        document.contains(
            "ok (exit 0) · `pwsh -NoProfile -ExecutionPolicy Bypass -File .\\build.ps1 -Task Test`"
        ),
        "{document}"
    );
    let report = lines_of(&document, "src/Get-Report.ps1").join("\n");
    assert!(report.contains("edited") && report.contains("Get-Report"), "{document}");
    assert!(report.contains("reportCache"), "{document}");
}

#[test]
fn typescript_has_its_runners_and_its_frames() {
    let vitest = "Exit code 1\n FAIL  src/cart.test.ts > adds up\nAssertionError: expected 3\n \u{276f} src/cart.test.ts:14:22\n     13|\n     \
        14|   expect(sumOfItems(cartFixture)).toBe(4);\n Tests  1 failed | 8 passed (9)";
    let tsc = "Exit code 2\nsrc/cart.ts(27,11): error TS2345: Argument of type 'CartLine' is not assignable to 'PricedLine'.";
    let text = Transcript::default()
        .user("Fix the sum.")
        .shell_fails("pnpm vitest run src/cart.test.ts", vitest)
        .shell_fails("pnpm tsc --noEmit", tsc)
        .shell("yarn jest --ci && npx eslint src", "Tests: 9 passed, 9 total")
        .shell("(cd web && node --test)", "# fail 0")
        .edit("/home/dev/app/src/cart.ts");
    let ledger = text.ledger();
    assert_eq!(
        outcomes(&ledger),
        [
            ("pnpm vitest run src/cart.test.ts", CommandOutcome::Exit(1)),
            ("pnpm tsc --noEmit", CommandOutcome::Exit(2)),
            ("yarn jest --ci && npx eslint src", CommandOutcome::Exit(0)),
            ("(cd web && node --test)", CommandOutcome::Exit(0)),
        ]
    );
    let document = document(&ledger);
    let tests = lines_of(&document, "src/cart.test.ts").join("\n");
    assert!(tests.contains("sumOfItems") && tests.contains("cartFixture"), "{document}");
    let cart = lines_of(&document, "src/cart.ts").join("\n");
    assert!(cart.contains("CartLine") && cart.contains("PricedLine"), "{document}");
}

#[test]
fn a_clippy_span_puts_its_names_into_their_file() {
    let clippy = "error: this `if` can be collapsed\n   --> crates/core/src/merge.rs:212:9\n    |\n212 | /         if let Some(left_parent) = find_parent(tree) {\n    \
        | |_________^\n    = help: try `merge_bases_of`\n\nerror: could not compile `core` (lib) due to 1 previous error";
    let text = Transcript::default()
        .user("Clean it up.")
        .shell_fails("cargo clippy --all-targets -- -D warnings", &format!("Exit code 101\n{clippy}"))
        .shell("cargo +nightly miri test -p core", "test result: ok. 3 passed; 0 failed; 2 ignored");
    let ledger = text.ledger();
    let document = document(&ledger);
    let merge = lines_of(&document, "crates/core/src/merge.rs").join("\n");
    for name in ["left_parent", "find_parent", "merge_bases_of"] {
        assert!(merge.contains(name), "{name}: {document}");
    }
    assert!(document.contains("test · ok (exit 0) · `cargo +nightly miri test -p core`"), "{document}");
}
