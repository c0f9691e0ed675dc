//! The views of a screen: the one that is shown, and the selected row and sort column of each.
//! Pure: no terminal, no I/O.

use std::cell::Cell;

use super::keys::Key;

/// Number of rows that a page key moves by.
const PAGE: usize = 10;

/// Selection in one view, kept while another view is shown.
#[derive(Clone, Copy, Debug, Default)]
struct RowSelection {
    row: usize,
    /// `None`: the view's default.
    sort: Option<usize>,
    reversed: bool,
}

/// The views of a screen, by index.
#[derive(Clone, Debug)]
pub struct Tabs {
    shown: usize,
    selections: Vec<RowSelection>,
    /// Index of the last row in the last drawing of the view.
    last_row: Cell<usize>,
    /// Sort column and number of sortable columns in the last drawing of the view; `None` if it
    /// cannot be sorted.
    sorted: Cell<Option<(usize, usize)>>,
}

impl Tabs {
    /// Creates `views` views and shows the first one.
    pub fn new(views: usize) -> Self {
        Self {
            shown: 0,
            selections: vec![RowSelection::default(); views.max(1)],
            last_row: Cell::new(usize::MAX),
            sorted: Cell::new(None),
        }
    }

    /// Index of the view that is shown.
    pub fn shown(&self) -> usize {
        self.shown
    }

    /// Selected row, or first line, of the view that is shown.
    pub fn row(&self) -> usize {
        self.selections[self.shown].row
    }

    /// Sort column of a view, if one was chosen, and true if the order is reversed.
    pub fn sort(&self, view: usize) -> (Option<usize>, bool) {
        let selection = self.selections.get(view).copied().unwrap_or_default();
        (selection.sort, selection.reversed)
    }

    /// Stores the number of rows that was drawn, which keys depend on.
    pub fn set_rows(&self, rows: usize) {
        self.last_row.set(rows.saturating_sub(1));
    }

    /// Stores the sort column that was drawn and the number of sortable columns.
    pub fn set_drawn_sort(&self, sorted: Option<(usize, usize)>) {
        self.sorted.set(sorted);
    }

    /// Handles keys that move the selected row. Returns false for any other key.
    pub fn scroll(&mut self, key: Key) -> bool {
        let last = self.last_row.get();
        let row = self.row().min(last);
        let to = match key {
            Key::Up => row.saturating_sub(1),
            Key::Down => row.saturating_add(1),
            Key::PageUp => row.saturating_sub(PAGE),
            Key::PageDown => row.saturating_add(PAGE),
            Key::Home => 0,
            Key::End => last,
            _ => return false,
        };
        self.selections[self.shown].row = to.min(last);
        true
    }

    /// Handles a key. Returns false if the key has no function here.
    pub fn on_key(&mut self, key: Key) -> bool {
        if self.scroll(key) {
            return true;
        }
        let views = self.selections.len();
        let selection = &mut self.selections[self.shown];
        match (key, self.sorted.get()) {
            (Key::Left, Some((column, columns))) => {
                selection.sort = Some((column + columns - 1) % columns);
                selection.reversed = false;
            }
            (Key::Right | Key::Char('s'), Some((column, columns))) => {
                selection.sort = Some((column + 1) % columns);
                selection.reversed = false;
            }
            (Key::Char('S'), Some(_)) => selection.reversed = !selection.reversed,
            (Key::Tab, _) => self.show((self.shown + 1) % views),
            (Key::BackTab, _) => self.show((self.shown + views - 1) % views),
            (Key::Char(c @ '1'..='9'), _) if c as usize - ('1' as usize) < views => {
                self.show(c as usize - '1' as usize);
            }
            _ => return false,
        }
        true
    }

    fn show(&mut self, view: usize) {
        self.shown = view;
        // Unknown until the view is drawn.
        self.last_row.set(usize::MAX);
        self.sorted.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Tabs};

    #[test]
    fn each_view_keeps_its_row_within_bounds() {
        let mut tabs = Tabs::new(3);
        tabs.set_rows(12);
        for (key, row) in [
            (Key::Up, 0),
            (Key::Down, 1),
            (Key::PageDown, 11),
            (Key::Down, 11),
            (Key::Up, 10),
            (Key::PageUp, 0),
            (Key::End, 11),
        ] {
            assert!(tabs.on_key(key));
            assert_eq!(tabs.row(), row, "{key:?}");
        }
        tabs.on_key(Key::Char('2'));
        assert_eq!((tabs.shown(), tabs.row()), (1, 0));
        tabs.set_rows(0);
        tabs.on_key(Key::Down);
        assert_eq!(tabs.row(), 0);
        tabs.on_key(Key::Char('1'));
        tabs.set_rows(4);
        assert_eq!(tabs.row(), 11);
        tabs.on_key(Key::Up);
        assert_eq!(tabs.row(), 2);
    }

    #[test]
    fn tab_and_digits_change_the_view() {
        let mut tabs = Tabs::new(3);
        for (key, view) in
            [(Key::Tab, 1), (Key::Tab, 2), (Key::Tab, 0), (Key::BackTab, 2), (Key::Char('1'), 0)]
        {
            assert!(tabs.on_key(key));
            assert_eq!(tabs.shown(), view);
        }
        assert!(!tabs.on_key(Key::Char('4')));
    }

    #[test]
    fn keys_move_the_sort_column_that_was_drawn() {
        let mut tabs = Tabs::new(2);
        assert!(!tabs.on_key(Key::Char('s')), "not drawn yet");
        tabs.set_drawn_sort(Some((8, 10)));
        for (key, sort) in [
            (Key::Char('S'), (None, true)),
            (Key::Right, (Some(9), false)),
            (Key::Char('s'), (Some(9), false)),
            (Key::Left, (Some(7), false)),
        ] {
            tabs.on_key(key);
            assert_eq!(tabs.sort(0), sort, "{key:?}");
        }
        tabs.set_drawn_sort(Some((9, 10)));
        tabs.on_key(Key::Right);
        assert_eq!(tabs.sort(0), (Some(0), false));
    }
}
