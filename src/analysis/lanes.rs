//! Places overlapping spans of time into lanes, so that the spans of one lane follow each other.

/// Lanes with the end of the last span in each.
#[derive(Clone, Debug)]
pub struct Lanes {
    ends: Vec<i64>,
    most: usize,
}

impl Lanes {
    /// No lanes yet, and at most `most`.
    pub fn new(most: usize) -> Self {
        Self { ends: Vec::new(), most }
    }

    /// Places a span, and returns its lane. A span begins at or after the end of every earlier span
    /// of its lane. Adds a lane if no other is free; `None` if all are in use. Chooses the lane
    /// that has been free for the shortest time, so that spans that arrive in order of their ends
    /// need few lanes.
    pub fn place(&mut self, start: i64, end: i64) -> Option<usize> {
        let end = end.max(start);
        let free = self.ends.iter().enumerate().filter(|(_, e)| **e <= start);
        // If several lanes were free for the same time, the first.
        match free.max_by_key(|(lane, e)| (**e, std::cmp::Reverse(*lane))) {
            Some((lane, _)) => {
                self.ends[lane] = end;
                Some(lane)
            }
            None if self.ends.len() < self.most => {
                self.ends.push(end);
                Some(self.ends.len() - 1)
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lanes;
    use proptest::prelude::*;

    #[test]
    fn spans_that_overlap_have_lanes_of_their_own() {
        let mut lanes = Lanes::new(2);
        assert_eq!(lanes.place(0, 10), Some(0));
        assert_eq!(lanes.place(5, 11), Some(1));
        assert_eq!(lanes.place(6, 12), None);
        assert_eq!(lanes.place(11, 13), Some(1));
        assert_eq!(lanes.place(11, 11), Some(0));
        // An end before its start is a span without length.
        assert_eq!(lanes.place(13, 0), Some(1));
        assert_eq!(lanes.place(13, 14), Some(1));
    }

    proptest! {
        #[test]
        fn spans_of_a_lane_follow_each_other(
            spans in prop::collection::vec((0i64..100, 0i64..20), 0..200),
            most in 1usize..8,
            in_order in any::<bool>(),
        ) {
            let mut spans: Vec<(i64, i64)> =
                spans.into_iter().map(|(start, length)| (start, start + length)).collect();
            if in_order {
                spans.sort_by_key(|(_, end)| *end);
            }
            let mut lanes = Lanes::new(most);
            let mut placed = vec![Vec::new(); most];
            for &(start, end) in &spans {
                match lanes.place(start, end) {
                    Some(lane) => placed[lane].push((start, end)),
                    None => prop_assert!(
                        placed.iter().all(|l| l.last().is_some_and(|(_, end)| *end > start))
                    ),
                }
            }
            for lane in &placed {
                prop_assert!(lane.is_sorted_by(|a, b| a.1 <= b.0));
            }
        }
    }
}
