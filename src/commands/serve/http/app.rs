//! State of all answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::{Semaphore, watch};

use crate::commands::serve::tracing::Shared;

/// Pages, or screens, that are kept up to date at once; metrics are served to others all the same.
const FOLLOWERS: usize = 100;

/// State of all answers.
pub struct App {
    /// The session's figures.
    pub shared: Arc<Shared>,
    /// Show tasks on the page.
    pub with_tasks: bool,
    /// Show paths of files, and permit downloads.
    pub with_paths: bool,
    /// Directory of the dumps.
    pub dump_dir: Option<PathBuf>,
    /// Open connections.
    pub open: Arc<AtomicU64>,
    /// Intervals for pages.
    pub pages: Feed,
    /// Intervals for screens of `raidtrace top --connect`.
    pub screens: Feed,
    /// Downloads that may run at once.
    pub downloads: Arc<Semaphore>,
}

/// The last interval as text. It is made once for all followers, and only if there are any.
pub struct Feed {
    /// Empty before the first.
    pub text: watch::Sender<Arc<str>>,
    /// Followers that may be added.
    pub room: Arc<Semaphore>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            text: watch::Sender::new(Arc::from("")),
            room: Arc::new(Semaphore::new(FOLLOWERS)),
        }
    }
}
