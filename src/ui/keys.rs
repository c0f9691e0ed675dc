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
    Some(match event.code {
        KeyCode::Char('c' | 'C') if control => Key::Interrupt,
        KeyCode::Char('f') if control => Key::PageDown,
        KeyCode::Char('b') if control => Key::PageUp,
        KeyCode::Char(_) if control || event.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char('k') | KeyCode::Up => Key::Up,
        KeyCode::Char('j') | KeyCode::Down => Key::Down,
        KeyCode::Char('h') | KeyCode::Left => Key::Left,
        KeyCode::Char('l') | KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Char('g') | KeyCode::Home => Key::Home,
        KeyCode::Char('G') | KeyCode::End => Key::End,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Tab if event.modifiers.contains(KeyModifiers::SHIFT) => Key::BackTab,
        KeyCode::Tab => Key::Tab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Back,
        KeyCode::Char(c) => Key::Char(c),
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
