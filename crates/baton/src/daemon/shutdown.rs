//! The shutdown request, which every waiting task also waits for.

use tokio::sync::watch;

pub(crate) struct Shutdown(watch::Sender<bool>);

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Shutdown {
    pub(crate) fn request(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once shutdown is requested, at once if it already was.
    pub(crate) async fn requested(&self) {
        // The sender lives as long as we borrow it.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }
}
