//! Reads of an open file at positions of our own.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;

/// A file of known length. Seeking in it makes no system call, which a hook would pay for at every tool call.
pub(crate) struct Positioned<'a> {
    file: &'a File,
    len: u64,
    at: u64,
}

impl<'a> Positioned<'a> {
    pub(crate) fn new(file: &'a File, len: u64) -> Self {
        Self { file, len, at: 0 }
    }
}

impl Read for Positioned<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Positioned<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_where_it_was_sent_and_no_further_than_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"0123456789").unwrap();
        let mut reader = Positioned::new(&file, 10);
        let mut two = [0; 2];
        assert_eq!(reader.seek(SeekFrom::End(-4)).unwrap(), 6);
        reader.read_exact(&mut two).unwrap();
        assert_eq!((&two, reader.stream_position().unwrap()), (b"67", 8));
        reader.seek(SeekFrom::Start(1)).unwrap();
        reader.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"12");
        assert!(reader.seek(SeekFrom::Current(-4)).is_err());
        reader.seek(SeekFrom::End(0)).unwrap();
        assert_eq!(reader.read(&mut two).unwrap(), 0);
    }
}
