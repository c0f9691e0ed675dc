//! Keys, decoded from the events of the terminal.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key that a screen can handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Arrow or k.
    Up,
    /// Arrow or j.
    Down,
    /// Arrow or h.
    Left,
    /// Arrow or l.
    Right,
    PageUp,
    PageDown,
    /// First row.
    Home,
    /// Last row.
    End,
    /// Next view.
    Tab,
    /// Previous view.
    BackTab,
    /// Chooses the selected item.
    Enter,
    /// Leaves a list or the program.
    Esc,
    /// Deletes the last character.
    Back,
    /// Ctrl-C.
    Interrupt,
    /// Any other character.
    Char(char),
}

/// Decodes the key of an event. Returns `None` for releases and for keys without a function.
pub fn decode(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    use KeyCode::*;
    Some(match event.code {
        Char('c' | 'C') if control => Key::Interrupt,
        Char('f') if control => Key::PageDown,
        Char('b') if control => Key::PageUp,
        Char(_) if control || event.modifiers.contains(KeyModifiers::ALT) => return None,
        Char('k') | Up => Key::Up,
        Char('j') | Down => Key::Down,
        Char('h') | Left => Key::Left,
        Char('l') | Right => Key::Right,
        PageUp => Key::PageUp,
        PageDown => Key::PageDown,
        Char('g') | Home => Key::Home,
        Char('G') | End => Key::End,
        BackTab => Key::BackTab,
        Tab if event.modifiers.contains(KeyModifiers::SHIFT) => Key::BackTab,
        Tab => Key::Tab,
        Enter => Key::Enter,
        Esc => Key::Esc,
        Backspace => Key::Back,
        Char(c) => Key::Char(c),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Key, decode};
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

    #[test]
    fn keys() {
        let none = KeyModifiers::NONE;
        for (code, modifiers, key) in [
            (KeyCode::Char('j'), none, Some(Key::Down)),
            (KeyCode::Down, none, Some(Key::Down)),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, Some(Key::Interrupt)),
            (KeyCode::Char('c'), none, Some(Key::Char('c'))),
            (KeyCode::Char('q'), KeyModifiers::CONTROL, None),
            (KeyCode::BackTab, KeyModifiers::SHIFT, Some(Key::BackTab)),
            (KeyCode::Char('S'), KeyModifiers::SHIFT, Some(Key::Char('S'))),
            (KeyCode::F(1), none, None),
        ] {
            assert_eq!(decode(KeyEvent::new(code, modifiers)), key, "{code:?}");
        }
        let released = KeyEvent::new_with_kind(KeyCode::Char('q'), none, KeyEventKind::Release);
        assert_eq!(decode(released), None);
    }
}
