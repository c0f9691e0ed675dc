//! The terminal: raw mode and the alternate screen, which are restored on every exit, and the
//! thread that reads keys.

use std::io::{self, BufWriter, Stdout, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::sync::mpsc;

use super::keys::{Key, decode};

/// True while the terminal is in raw mode. Global, because a panic hook has no access to the guard.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Interval at which the key reader checks whether it must stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A full-screen terminal on stdout.
pub type Screen = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// Holds the terminal; restores it when dropped.
#[derive(Debug)]
pub struct Guard(());

impl Guard {
    /// Takes the terminal. A panic on any thread restores it before the panic message is printed.
    ///
    /// # Errors
    /// There is no terminal (standard input or /dev/tty), or it cannot be switched to raw mode.
    pub fn take() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                restore();
                next(info);
            }));
        });
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        // From here on a failure drops the guard, which restores the terminal.
        let guard = Self(());
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(guard)
    }

    /// The terminal to draw on.
    ///
    /// # Errors
    /// The size of the terminal is not available.
    pub fn screen(&self) -> io::Result<Screen> {
        Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 14, io::stdout())))
    }

    /// False once a panic on another thread has restored the terminal.
    pub fn holds(&self) -> bool {
        TAKEN.load(Ordering::SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal; does nothing the second time.
pub fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // Ignore errors: the terminal may be gone.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}

pub(crate) enum Input {
    Key(Key),
    Resize,
    /// Reading failed: the terminal is gone.
    Failed(io::Error),
}

/// A thread that reads keys. crossterm's own stream would need a second event loop.
pub(crate) struct KeyReader {
    inputs: mpsc::Receiver<Input>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl KeyReader {
    /// Starts the thread.
    pub fn start() -> Result<Self> {
        let (sender, inputs) = mpsc::channel(64);
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || read(&sender, &flag))
            .context("cannot start the key reader")?;
        Ok(Self { inputs, stop, thread })
    }

    /// Waits for the next event; `None` if the thread has ended.
    pub async fn next(&mut self) -> Option<Input> {
        self.inputs.recv().await
    }

    /// Stops the thread and waits for it, but at most for 5 polls: crossterm never returns from a
    /// closed terminal.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.inputs);
        let start = Instant::now();
        while !self.thread.is_finished() && start.elapsed() < 5 * POLL_INTERVAL {
            std::thread::sleep(POLL_INTERVAL / 20);
        }
    }
}

fn read(sender: &mpsc::Sender<Input>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) && !sender.is_closed() {
        let event = match event::poll(POLL_INTERVAL) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        let input = match event {
            Ok(Event::Key(key)) => decode(key).map(Input::Key),
            Ok(Event::Resize(..)) => Some(Input::Resize),
            Ok(_) => None,
            Err(error) => {
                let _ = sender.blocking_send(Input::Failed(error));
                return;
            }
        };
        if let Some(input) = input
            && sender.blocking_send(input).is_err()
        {
            return;
        }
    }
}
