//! The time of day.

use jiff::Timestamp;

/// Now. The library's way goes through code that the kernel maps into each process, which must first be found there:
/// two page faults and three thousand instructions, against one system call. For hooks, which ask once.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a system call that no library makes without looking for a faster way first")]
pub fn now() -> Timestamp {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`, which is there.
    let done = unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_REALTIME, &raw mut time) };
    let told = i32::try_from(time.tv_nsec).ok().and_then(|nanos| Timestamp::new(time.tv_sec, nanos).ok());
    told.filter(|_| done == 0).unwrap_or_else(Timestamp::now)
}

#[cfg(not(target_os = "linux"))]
pub fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_time_that_the_library_tells() {
        let before = jiff::Timestamp::now();
        let now = super::now();
        assert!(before <= now && now <= jiff::Timestamp::now());
    }
}
