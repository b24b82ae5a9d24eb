//! The block in CLAUDE.md that makes the client load a project's memory. Bytes in, bytes out.

const BEGIN: &str =
    "<!-- baton: memory of this project, written by `baton memory init`; removed by `--remove` -->";
const END: &str = "<!-- baton: end -->";

/// The file with our block at its end. `memory` is the memory's folder, as the file has to name it.
pub fn add(bytes: &[u8], memory: &str) -> Vec<u8> {
    let mut out = remove(bytes);
    let end = if bytes.windows(2).any(|w| w == b"\r\n") { "\r\n" } else { "\n" };
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.extend_from_slice(end.as_bytes());
    }
    let lines = [
        BEGIN.to_owned(),
        format!("@{memory}/active-context.md"),
        format!("@{memory}/project-memory.md"),
        String::new(),
        "What lasts (rules, decisions, gotchas) belongs in project-memory.md; where the work stands is written to".to_owned(),
        "active-context.md by `/document-and-save`. When SESSION_BACKUP_PENDING appears, tell the user that".to_owned(),
        "`/resume-latest` restores the earlier session and `/discard-backup` drops it.".to_owned(),
        END.to_owned(),
    ];
    for line in lines {
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(end.as_bytes());
    }
    out
}

/// The file without our block. One whose end was deleted by hand goes only as far as its first line.
pub fn remove(bytes: &[u8]) -> Vec<u8> {
    let is = |line: &[u8], text: &str| line.trim_ascii_end() == text.as_bytes();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < lines.len() {
        if is(lines[at], BEGIN) {
            let end = lines[at..].iter().position(|line| is(line, END));
            at += end.unwrap_or(0) + 1;
        } else {
            out.extend_from_slice(lines[at]);
            at += 1;
        }
    }
    out
}

pub fn is_there(bytes: &[u8]) -> bool {
    remove(bytes) != bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_comes_once_in_the_files_own_line_ends_and_goes_again() {
        for before in ["", "# Rules\n", "# Rules\r\n\r\n- none\r\n", "\u{fffd}\n\n"] {
            let after = add(before.as_bytes(), "memory");
            assert_eq!(add(&after, "memory"), after, "twice");
            assert_eq!(remove(&after), before.as_bytes());
            assert!(is_there(&after) && !is_there(before.as_bytes()));
            let text = String::from_utf8(after).unwrap();
            assert!(text.contains("@memory/active-context.md") && text.contains("@memory/project-memory.md"));
        }
        // Without a line end at its end the file gets one; the caller knows the hash of what was there.
        assert_eq!(remove(&add(b"# Rules", "memory")), b"# Rules\n");
    }

    #[test]
    fn what_the_user_wrote_around_the_block_stays() {
        let text = String::from_utf8(add(b"above\n", "memory")).unwrap() + "below\n";
        assert_eq!(remove(text.as_bytes()), b"above\nbelow\n");
        let cut = text.replace(&format!("{END}\n"), "");
        assert!(String::from_utf8(remove(cut.as_bytes())).unwrap().ends_with("below\n"));
    }
}
