//! Wakes who waits for the next interval when md has done something.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::sampler::Sampler;
use crate::machine::{Mdstat, Sys};

/// A thread that polls /proc/mdstat, where there is one, until the process ends.
pub struct Notice {
    event: Arc<Notify>,
}

impl Notice {
    /// Begins to watch.
    pub fn start(sys: &Sys) -> Self {
        let event = Arc::new(Notify::new());
        if let Some(mdstat) = Mdstat::open(sys) {
            let event = Arc::clone(&event);
            // Without it, changes are followed with the next interval.
            let _ = std::thread::Builder::new()
                .name("mdstat".to_owned())
                .spawn(move || {
                    while mdstat.wait(None) {
                        event.notify_one();
                    }
                });
        }
        Self { event }
    }

    /// Until there is something to follow.
    pub async fn wait(&self, sampler: &mut Sampler) {
        let wait = sampler.live().follow_in();
        tokio::select! {
            () = self.event.notified() => {
                sampler.live().notice();
                // One at a time may come too soon after another.
                let wait = sampler.live().follow_in().unwrap_or(Duration::ZERO);
                tokio::time::sleep(wait).await;
            }
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
}
