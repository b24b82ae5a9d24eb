//! The word to stop: heard by everybody who waits for something else.

use tokio::sync::watch;

pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stop {
    pub fn say(&self) {
        self.0.send_replace(true);
    }

    pub fn said(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it has been said, at once if it was said before.
    pub async fn heard(&self) {
        // The sender lives as long as we borrow it.
        let _ = self.0.subscribe().wait_for(|said| *said).await;
    }
}
