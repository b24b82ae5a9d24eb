//! The lines in a project's `.gitignore` that keep raw conversations out of its history. Bytes in, bytes out.

const MARK: &str = "# baton: raw conversations stay out of the repository";
const LINES: [&str; 3] = [".claude/memory/raw/", ".baton/", ".claude/memory/.*"];

/// The file with our lines at its end. Lines that are there already are not repeated.
pub(crate) fn add(bytes: &[u8]) -> Vec<u8> {
    let missing: Vec<&str> = LINES.into_iter().filter(|line| !lines(bytes).any(|l| is(l, line))).collect();
    if missing.is_empty() {
        return bytes.to_vec();
    }
    let end: &[u8] = if bytes.windows(2).any(|w| w == b"\r\n") { b"\r\n" } else { b"\n" };
    let mut out = bytes.to_vec();
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.extend_from_slice(end);
    }
    for line in [MARK].into_iter().chain(missing) {
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(end);
    }
    out
}

/// The file without the lines below our mark.
pub(crate) fn remove(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut below_mark = false;
    for line in lines(bytes) {
        below_mark = is(line, MARK) || (below_mark && LINES.iter().any(|ours| is(line, ours)));
        if !below_mark {
            out.extend_from_slice(line);
        }
    }
    out
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|b| *b == b'\n')
}

fn is(line: &[u8], text: &str) -> bool {
    line.trim_ascii_end() == text.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_once_in_the_files_own_line_ends_and_taken_out_again() {
        for before in ["", "target\n", "target\r\n*.log\r\n", "\u{fffd}caf\u{e9}\n\n# mine\n"] {
            let after = add(before.as_bytes());
            assert_eq!(add(&after), after, "twice");
            assert_eq!(remove(&after), before.as_bytes());
            let text = String::from_utf8(after).unwrap();
            assert!(text.contains(".claude/memory/raw/") && text.contains(".baton/"));
            assert_eq!(before.contains("\r\n"), text.contains("\r\n"));
        }
    }

    #[test]
    fn what_the_user_wrote_about_the_same_folder_stays() {
        let before = b".baton/\n".as_slice();
        let after = add(before);
        assert_eq!(lines(&after).count(), 4);
        assert_eq!(remove(&after), before);
        let both = b".baton/\n.claude/memory/.*\n.claude/memory/raw/\n";
        assert_eq!(add(both), both);
        assert_eq!(remove(both), both);
    }
}
