//! The old ustar archive format: a header of 512 bytes and the padded content. Only what an export needs.

use std::io::{self, Read, Write};

const BLOCK: usize = 512;

/// Appends one file of exactly `len` bytes.
pub(super) fn append(out: &mut dyn Write, name: &str, len: u64, content: &mut dyn Read) -> io::Result<()> {
    if name.len() > 100 {
        return Err(io::Error::other(format!("{name} is too long a name for a tar archive")));
    }
    let mut head = [0; BLOCK];
    let mut put = |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000600\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{len:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = head.iter().map(|b| u32::from(*b)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.write_all(&head)?;
    let written = io::copy(&mut content.take(len), out)?;
    if written < len {
        return Err(io::Error::other(format!("{name} gave {written} of {len} bytes")));
    }
    let padding = usize::try_from(len % BLOCK as u64).unwrap_or(0);
    if padding > 0 {
        out.write_all(&[0; BLOCK][padding..])?;
    }
    Ok(())
}

/// The end of the archive.
pub(super) fn finish(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

/// One file of an archive; its content follows in the reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TarEntry {
    pub name: String,
    pub len: u64,
}

/// Whether these bytes begin an archive.
pub(super) fn is_header(bytes: &[u8]) -> bool {
    bytes.first_chunk::<BLOCK>().is_some_and(|head| read(head).is_ok())
}

/// The next file; `None` at the end. An archive without an end mark was cut off.
pub(super) fn next(reader: &mut dyn Read) -> io::Result<Option<TarEntry>> {
    let mut head = [0; BLOCK];
    reader.read_exact(&mut head).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("it is cut off"),
        _ => e,
    })?;
    if head.iter().all(|b| *b == 0) {
        return Ok(None);
    }
    read(&head).map(Some)
}

/// Skips the padding after a file of `len` bytes.
pub(super) fn pad(reader: &mut dyn Read, len: u64) -> io::Result<()> {
    let over = usize::try_from(len % BLOCK as u64).unwrap_or(0);
    if over > 0 {
        reader.read_exact(&mut [0; BLOCK][over..])?;
    }
    Ok(())
}

fn read(head: &[u8; BLOCK]) -> io::Result<TarEntry> {
    let wrong = |why: &str| io::Error::other(format!("not an archive made by `baton backup export`: {why}"));
    let text = |from: usize, len: usize| {
        let field = &head[from..from + len];
        let end = memchr::memchr(0, field).unwrap_or(len);
        std::str::from_utf8(&field[..end]).ok().map(|t| t.trim_matches(' '))
    };
    let octal = |from, len| text(from, len).and_then(|t| u64::from_str_radix(t, 8).ok());
    let sum: u64 = (0..BLOCK).map(|n| u64::from(if (148..156).contains(&n) { b' ' } else { head[n] })).sum();
    if &head[257..262] != b"ustar" || octal(148, 8) != Some(sum) {
        return Err(wrong("a header is damaged"));
    }
    // Refuse links, folders, devices, and names that continue in another field.
    if !matches!(head[156], b'0' | 0) || head[345] != 0 {
        return Err(wrong("something in it is not a plain file"));
    }
    let name = text(0, 100).ok_or_else(|| wrong("a name is not text"))?;
    let len = octal(124, 12).ok_or_else(|| wrong("a length is missing"))?;
    Ok(TarEntry { name: name.to_owned(), len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_what_was_changed_or_cut_is_refused() {
        let mut archive = Vec::new();
        for (name, text) in [("a.jsonl", "x".repeat(700)), ("b.jsonl", String::new()), ("c", "y".repeat(512))]
        {
            append(&mut archive, name, text.len() as u64, &mut text.as_bytes()).unwrap();
        }
        finish(&mut archive).unwrap();
        let names = |bytes: &[u8]| -> io::Result<Vec<(String, usize)>> {
            let (mut reader, mut found) = (bytes, Vec::new());
            while let Some(entry) = next(&mut reader)? {
                let mut content = Vec::new();
                (&mut reader).take(entry.len).read_to_end(&mut content)?;
                pad(&mut reader, entry.len)?;
                found.push((entry.name, content.len()));
            }
            Ok(found)
        };
        let all = [("a.jsonl", 700), ("b.jsonl", 0), ("c", 512)].map(|(n, len)| (n.to_owned(), len));
        assert_eq!(names(&archive).unwrap(), all);
        assert!(is_header(&archive) && !is_header(&archive[..511]) && !is_header(&[0; 512]));
        for cut in [100, 600, 1100, archive.len() - 1024] {
            assert!(names(&archive[..cut]).is_err(), "{cut}");
        }
        for at in [0, 124, 150, 156, 257, 345] {
            let mut changed = archive.clone();
            changed[at] ^= 1;
            assert!(names(&changed).is_err(), "{at}");
        }
    }
}
