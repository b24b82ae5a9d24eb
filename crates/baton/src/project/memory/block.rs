//! The block in CLAUDE.md that makes the client load a project's memory. Bytes in, bytes out.

const BEGIN: &str =
    "<!-- baton: memory of this project, written by `baton memory init`; removed by `--remove` -->";
const END: &str = "<!-- baton: end -->";

/// The file with our block at its end. `memory` is the memory's folder, as the file must name it.
pub(crate) fn add(bytes: &[u8], memory: &str) -> Vec<u8> {
    let mut out = remove(bytes);
    let end = if bytes.windows(2).any(|w| w == b"\r\n") { "\r\n" } else { "\n" };
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.extend_from_slice(end.as_bytes());
    }
    let mut lines = vec![BEGIN.to_owned()];
    let files = ["active-context.md", "project-memory.md"];
    lines.extend(files.iter().filter(|file| !imports(&out, file)).map(|file| format!("@{memory}/{file}")));
    if lines.len() > 1 {
        lines.push(String::new());
    }
    lines.extend([
        "What lasts (rules, decisions, gotchas) belongs in project-memory.md; where the work stands is written to".to_owned(),
        "active-context.md by `/document-and-save`. When SESSION_BACKUP_PENDING appears, tell the user that".to_owned(),
        "`/resume-latest` restores the earlier session and `/discard-backup` drops it.".to_owned(),
        END.to_owned(),
    ]);
    for line in lines {
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(end.as_bytes());
    }
    out
}

/// The file without our block. If the block's end was deleted by hand, only its first line is removed.
pub(crate) fn remove(bytes: &[u8]) -> Vec<u8> {
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

/// Whether the user's own text imports this file of the memory already.
fn imports(bytes: &[u8], file: &str) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.split_whitespace().any(|word| {
        let path = word.strip_prefix('@').and_then(|path| path.strip_suffix(file));
        path.is_some_and(|dir| dir.ends_with("memory/"))
    })
}

pub(crate) fn is_there(bytes: &[u8]) -> bool {
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
        // A file without a line end at its end gets one; the caller knows the hash of the original.
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
