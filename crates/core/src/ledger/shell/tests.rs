use super::*;

#[test]
fn another_pattern_is_another_try_at_the_same_search() {
    assert_eq!(topic("rg -n 'test:unit|cargo test' mise.toml"), topic("rg -n unit mise.toml tasks"));
    assert_ne!(topic("git push origin"), topic("git pull origin"));
}

#[test]
fn a_command_that_prints_several_files_says_how_much_of_each() {
    let part = |file: Option<&str>, from, lines| Stretch { file: file.map(str::to_owned), from, lines };
    assert_eq!(
        prints(
            "cd app && sed -n '11,20p' src/a.rs && echo -- && nl -ba src/b.rs | sed -n '1,5p'; git log -3"
        ),
        [part(Some("src/a.rs"), 11, Some(10)), part(None, 0, Some(1)), part(Some("src/b.rs"), 1, Some(5))]
    );
    assert_eq!(
        prints("head -30 a.go; cat b.go"),
        [part(Some("a.go"), 1, Some(30)), part(Some("b.go"), 1, None)]
    );
    assert_eq!(prints("cat a.go"), [], "one file is no list");
    assert_eq!(prints("make && cat a.go && cat b.go"), [], "nobody knows how much make prints");
}

#[test]
fn a_command_is_known_by_what_it_does() {
    let cases = [
        ("go test ./... 2>&1 | tail -20", Some(WorkKind::Test)),
        ("cd x && RUST_LOG=debug cargo test -p core", Some(WorkKind::Test)),
        ("mise run test:ci", Some(WorkKind::Test)),
        ("mise run fmt && mise run lint", Some(WorkKind::Lint)),
        ("cargo build --release", Some(WorkKind::Build)),
        ("timeout 60 npm run build", Some(WorkKind::Build)),
        ("npx eslint .", Some(WorkKind::Lint)),
        ("uv run pytest -q", Some(WorkKind::Test)),
        ("python3 -c 'print(1)'", None),
        ("go run ./cmd/x", Some(WorkKind::Run)),
        ("git commit -m 'make test pass'", None),
        ("grep -rn 'go test' .", None),
        ("./scripts/test", Some(WorkKind::Test)),
        ("make", Some(WorkKind::Build)),
    ];
    for (line, want) in cases {
        assert_eq!(kind(line), want, "{line}");
    }
}

#[test]
fn tests_of_any_runner_are_known() {
    let cases = [
        ("cat > a_test.go <<'EOF'\nfunc TestX() { go build }\nEOF\ngo test ./...", Some(WorkKind::Test)),
        ("pnpm --filter @acme/web exec vitest run src/a.test.ts", Some(WorkKind::Test)),
        ("corepack pnpm -C packages/api test", Some(WorkKind::Test)),
        ("Invoke-Pester -Path ./tests -Output Detailed", Some(WorkKind::Test)),
        ("pwsh -NoProfile -Command \"Invoke-Pester ./tests\"", Some(WorkKind::Test)),
        ("$env:CI='1'; dotnet test tests\\Unit.csproj --nologo", Some(WorkKind::Test)),
        ("bash -lc 'cd x && make test'", Some(WorkKind::Test)),
        ("bun test --filter trace", Some(WorkKind::Test)),
        ("php artisan test --parallel", Some(WorkKind::Run)),
        ("rails test test/models", Some(WorkKind::Test)),
        ("& 'C:\\Program Files\\dotnet\\dotnet.exe' build", Some(WorkKind::Build)),
        ("py -3 -m pytest", Some(WorkKind::Test)),
        ("python -m coverage run -m pytest", Some(WorkKind::Test)),
        ("uv run --extra dev --with tox pytest -q", Some(WorkKind::Test)),
        ("pdm run test:unit", Some(WorkKind::Test)),
        (r"C:\app\.venv\Scripts\python.exe -m pytest", Some(WorkKind::Test)),
        ("ty check src", Some(WorkKind::Lint)),
        ("cargo +nightly miri test", Some(WorkKind::Test)),
        ("cargo xtask lint", Some(WorkKind::Lint)),
        ("pnpm tsc --noEmit", Some(WorkKind::Build)),
        ("pnpm -w lint", Some(WorkKind::Lint)),
        ("yarn jest --ci", Some(WorkKind::Test)),
        ("npx -p typescript tsc -b", Some(WorkKind::Build)),
        ("node --test", Some(WorkKind::Test)),
        ("node node_modules/jest/bin/jest.js", Some(WorkKind::Test)),
        ("docker compose run --rm app pytest", Some(WorkKind::Test)),
        ("out=$(go test ./... 2>&1); echo \"$out\"", Some(WorkKind::Test)),
        ("(cd web && vitest)", Some(WorkKind::Test)),
        ("timeout -k 5 120 cargo test", Some(WorkKind::Test)),
        ("invoke-pester ./tests", Some(WorkKind::Test)),
        ("pwsh -NoProfile -ExecutionPolicy Bypass -File tests/run-tests.ps1", Some(WorkKind::Test)),
        ("cmd.exe /c npm run build", Some(WorkKind::Build)),
        ("Invoke-ScriptAnalyzer -Path .", Some(WorkKind::Lint)),
        ("go test `\n  -run TestX", Some(WorkKind::Test)),
        ("$text = @'\ngo test ./...\n'@; Write-Output $text", None),
        ("New-Item tests -ItemType Directory", None),
        ("Copy-Item build dist", None),
        ("docker compose up -d", None),
        ("git log --grep test", None),
        ("ls tests", None),
    ];
    for (line, want) in cases {
        assert_eq!(kind(line), want, "{line}");
    }
}

#[test]
fn files_changed_are_those_named_literally() {
    let paths = |line: &str| {
        changed(line).into_iter().map(|(touch, path)| format!("{touch:?} {path}")).collect::<Vec<_>>()
    };
    assert_eq!(
        paths("cd a && rm -f b.txt 'c d.txt' *.o $X 2>/dev/null"),
        ["Deleted b.txt", "Deleted c d.txt"]
    );
    assert_eq!(paths("git rm --cached old.rs"), ["Deleted old.rs"]);
    assert_eq!(
        paths("cat > notes.md <<'EOF'\n> not-this\nEOF\necho x > more.md"),
        ["Edited notes.md", "Edited more.md"]
    );
    assert_eq!(
        paths(
            r"Set-Content -Path src\a.ps1 -Value done.txt; Rename-Item src\b.ps1 c.ps1; New-Item -ItemType File d.ps1"
        ),
        [r"Edited src\a.ps1", r"Deleted src\b.ps1", r"Created src\c.ps1", "Created d.ps1"]
    );
    assert_eq!(
        paths(
            "Remove-Item -Path x.ps1 -Force -ErrorAction SilentlyContinue; New-Item out -ItemType Directory"
        ),
        ["Deleted x.ps1"]
    );
    assert_eq!(
        paths(
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.py\n+x = 1 > 0\n*** End Patch\nEOF\npytest"
        ),
        ["Created a.py"]
    );
    let message = "git commit -m \"$(cat <<'EOF'\nsay \"x > y\" twice\nEOF\n)\"";
    assert_eq!(paths(message), [""; 0]);
    assert_eq!(paths("make 2>&1 >/dev/null; echo 'a > b' >> log.txt"), ["Edited log.txt"]);
    assert_eq!(
        paths("sed -i 's/a/b/' src/x.rs && mv a.rs b.rs"),
        ["Edited src/x.rs", "Deleted a.rs", "Created b.rs"]
    );
}

#[test]
fn a_command_that_prints_one_file_is_a_read() {
    assert_eq!(reads("sed -n '1,120p' src/a.rs").as_deref(), Some("src/a.rs"));
    assert_eq!(range("sed -n '1,120p' src/a.rs"), Some((1, 120)));
    let windows = r"Get-Content C:\app\a.go | Select-Object -Skip 100 -First 40";
    assert_eq!(reads(windows).as_deref(), Some(r"C:\app\a.go"));
    assert_eq!(range(windows), Some((101, 140)));
    assert_eq!(reads("cd app && cat Makefile | head -5").as_deref(), Some("Makefile"));
    assert_eq!(reads("rg -n foo src/b.ts").as_deref(), Some("src/b.ts"));
    for no in ["cat a.rs b.rs", "rg -n foo src", "cat > x.rs", "cargo test", "sed -i s/a/b/ x.rs"] {
        assert_eq!(reads(no), None, "{no}");
    }
}

#[test]
fn two_tries_at_one_thing_share_a_topic() {
    assert_eq!(topic("go test ./a"), topic("cd b && go test -run X ./b 2>&1 | tail"));
    assert_ne!(topic("go test ./a"), topic("go build ./a"));
    assert_eq!(topic("git push origin x"), "git push");
}
