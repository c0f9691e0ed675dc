//! Wakes the interval loop when md reports an event.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::sampler::Sampler;
use crate::machine::{Mdstat, Sys};

/// Events of a thread that polls /proc/mdstat until the process ends.
pub struct MdEvents {
    event: Arc<Notify>,
}

impl MdEvents {
    /// Starts the thread. Without md there are no events.
    pub fn start(sys: &Sys) -> Self {
        let event = Arc::new(Notify::new());
        if let Some(mdstat) = Mdstat::open(sys) {
            let event = Arc::clone(&event);
            // If the thread cannot be started, changes are detected at the next interval.
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

    /// Waits until a check for changes is due.
    pub async fn wait(&self, sampler: &mut Sampler) {
        let wait = sampler.session().next_check();
        tokio::select! {
            () = self.event.notified() => {
                sampler.session().md_event();
                // The event may fall into the pause after the last update.
                let wait = sampler.session().next_check().unwrap_or(Duration::ZERO);
                tokio::time::sleep(wait).await;
            }
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
}
