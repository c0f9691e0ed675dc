//! The terminal's state: raw mode and the alternate screen, given back however the program ends.

use std::io::{self, BufWriter, Stdout, Write as _};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// Whether the terminal is ours. Global, because so is the terminal: a panic hook has no guard at hand.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A full-screen terminal on stdout.
pub type Screen = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// Holds the terminal; restores it when dropped.
#[derive(Debug)]
pub struct Guard(());

impl Guard {
    /// Takes the terminal and arranges for a panic, on whatever thread, to give it back before its message is printed.
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
        // From here on a failure drops the guard, which undoes what was done.
        let guard = Self(());
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(guard)
    }

    /// The terminal to draw on.
    pub fn screen(&self) -> io::Result<Screen> {
        Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(
            1 << 14,
            io::stdout(),
        )))
    }

    /// False once another thread's panic has taken the screen away.
    pub fn holds(&self) -> bool {
        TAKEN.load(Ordering::SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back; does nothing the second time.
pub fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // Nothing can be done about a terminal that is gone.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}
