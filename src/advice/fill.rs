//! Placeholders in texts of data files.

use std::fmt::{Display, Write};

/// The text with each `{name}` replaced by its value. Values are not searched: they may be names of
/// tasks and files. A name without a value stays.
pub fn fill<V: Display>(text: &str, values: &[(&str, V)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let found = after.split_once('}').and_then(|(name, after)| {
            let (_, value) = values.iter().find(|(of, _)| *of == name)?;
            Some((value, after))
        });
        match found {
            Some((value, after)) => {
                _ = write!(filled, "{value}"); // into a String: no error
                rest = after;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled + rest
}

/// The first placeholder that has no value.
pub fn unfilled<'a, V>(text: &'a str, values: &[(&str, V)]) -> Option<&'a str> {
    let parts = text.split('{').skip(1).filter_map(|part| part.split_once('}'));
    let mut names = parts.map(|(name, _)| name);
    names.find(|name| values.iter().all(|(of, _)| of != name))
}

#[cfg(test)]
mod tests {
    use super::{fill, unfilled};

    #[test]
    fn values_are_not_searched() {
        let values = [("who", "{what} {}"), ("what", "x")];
        assert_eq!(
            fill("{who} does {what}, {{what}} {} {other} {", &values),
            "{what} {} does x, {x} {} {other} {"
        );
        assert_eq!(fill("plain", &values), "plain");
        assert_eq!(unfilled("{who} and {what}", &values), None);
        assert_eq!(unfilled("{who} and {whom}", &values), Some("whom"));
    }
}
