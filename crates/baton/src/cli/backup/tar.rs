//! The oldest archive format there is (ustar): a header of 512 bytes and the bytes, padded. Only what an export needs.

use std::io::{self, Read, Write};

const BLOCK: usize = 512;

/// Appends one file of exactly `len` bytes.
pub fn append(out: &mut dyn Write, name: &str, len: u64, content: &mut dyn Read) -> io::Result<()> {
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
pub fn finish(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}
