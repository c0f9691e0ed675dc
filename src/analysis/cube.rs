//! Sums by key: requests, bytes, times and histograms by member, origin, operation, task, file or
//! time. Counters of the programs, intervals, windows, totals and points of time are all sums of
//! this kind, so that each is added up, subtracted and grouped by the same code.

use std::collections::{BTreeMap, btree_map};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A count, a time, a histogram, or a structure of several of them.
pub trait Amount: Clone + Default + PartialEq {
    /// Adds `other`. Counts saturate: a recording can hold any number.
    fn add(&mut self, other: &Self);

    /// Increase since `was`; 0 for a count that went down.
    #[must_use]
    fn since(&self, was: &Self) -> Self;

    /// True if nothing was counted.
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

macro_rules! saturating_amounts {
    ($($name:ty),*) => {$(
        impl Amount for $name {
            #[inline]
            fn add(&mut self, other: &Self) {
                *self = self.saturating_add(*other);
            }

            fn since(&self, was: &Self) -> Self {
                self.saturating_sub(*was)
            }
        }
    )*};
}
saturating_amounts!(u32, u64, Duration);

impl Amount for f64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }

    fn since(&self, was: &Self) -> Self {
        (self - was).max(0.0)
    }
}

impl<A: Amount, B: Amount> Amount for (A, B) {
    fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
        self.1.add(&other.1);
    }

    fn since(&self, was: &Self) -> Self {
        (self.0.since(&was.0), self.1.since(&was.1))
    }
}

impl<A: Amount, const N: usize> Amount for [A; N]
where
    Self: Default,
{
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, more)| sum.add(more));
    }

    fn since(&self, was: &Self) -> Self {
        std::array::from_fn(|i| self[i].since(&was[i]))
    }
}

/// Implements [`Amount`] for a structure of amounts: `amount!(IoSum { requests, bytes })`.
macro_rules! amount {
    ($name:ident { $($field:tt),* }) => {
        impl $crate::analysis::cube::Amount for $name {
            #[inline]
            fn add(&mut self, other: &Self) {
                $($crate::analysis::cube::Amount::add(&mut self.$field, &other.$field);)*
            }

            fn since(&self, was: &Self) -> Self {
                Self {
                    $($field: $crate::analysis::cube::Amount::since(&self.$field, &was.$field)),*
                }
            }
        }
    };
}
pub(crate) use amount;

/// Sparse sums by key, in the order of the keys. The key is one dimension, or a tuple of several.
/// Nothing is added for an amount of zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent, bound(deserialize = "K: Ord + Deserialize<'de>, A: Deserialize<'de>"))]
pub struct Cube<K, A>(BTreeMap<K, A>);

impl<K: Ord, A: Amount> Cube<K, A> {
    /// Adds `amount` to the sum of `key`.
    pub fn add(&mut self, key: K, amount: &A) {
        if !amount.is_zero() {
            self.sum_mut(key).add(amount);
        }
    }

    /// The sum of `key`, to add to.
    pub fn sum_mut(&mut self, key: K) -> &mut A {
        self.0.entry(key).or_default()
    }

    /// The sum of `key`; zero if nothing was added.
    pub fn sum(&self, key: &K) -> A {
        self.0.get(key).cloned().unwrap_or_default()
    }

    /// Adds all sums of `other`.
    pub fn merge(&mut self, other: &Self)
    where
        K: Clone,
    {
        other.0.iter().for_each(|(key, amount)| self.add(key.clone(), amount));
    }

    /// Increases since `was`, without those that are zero.
    #[must_use]
    pub fn since(&self, was: &Self) -> Self
    where
        K: Clone,
    {
        let grown = |(key, now): (&K, &A)| {
            let new = was.get(key).map_or_else(|| now.clone(), |was| now.since(was));
            (!new.is_zero()).then(|| (key.clone(), new))
        };
        Self(self.0.iter().filter_map(grown).collect())
    }

    /// Sums by another key: fewer dimensions, or longer times (coarser ones). Leaves out those for
    /// which `key` is `None`.
    #[must_use]
    pub fn group_by<J: Ord>(&self, key: impl Fn(&K) -> Option<J>) -> Cube<J, A> {
        let mut groups = Cube::default();
        for (own, amount) in &self.0 {
            if let Some(group) = key(own) {
                groups.add(group, amount);
            }
        }
        groups
    }

    /// Sum of all.
    pub fn total(&self) -> A {
        self.0.values().fold(A::default(), |mut sum, amount| {
            sum.add(amount);
            sum
        })
    }
}

/// A cube can be an amount itself: the sums by a second key.
impl<K: Ord + Clone, A: Amount> Amount for Cube<K, A> {
    fn add(&mut self, other: &Self) {
        self.merge(other);
    }

    fn since(&self, was: &Self) -> Self {
        Self::since(self, was)
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K, A> Default for Cube<K, A> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// Sums are looked up, listed and removed as in a map.
impl<K, A> Deref for Cube<K, A> {
    type Target = BTreeMap<K, A>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<K, A> DerefMut for Cube<K, A> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Amounts of the same key add up.
impl<K: Ord, A: Amount> FromIterator<(K, A)> for Cube<K, A> {
    fn from_iter<I: IntoIterator<Item = (K, A)>>(amounts: I) -> Self {
        let mut sums = Self::default();
        amounts.into_iter().for_each(|(key, amount)| sums.add(key, &amount));
        sums
    }
}

#[cfg(test)]
impl<K: Ord, A: Amount, const N: usize> From<[(K, A); N]> for Cube<K, A> {
    fn from(amounts: [(K, A); N]) -> Self {
        amounts.into_iter().collect()
    }
}

impl<K, A> IntoIterator for Cube<K, A> {
    type Item = (K, A);
    type IntoIter = btree_map::IntoIter<K, A>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K, A> IntoIterator for &'a Cube<K, A> {
    type Item = (&'a K, &'a A);
    type IntoIter = btree_map::Iter<'a, K, A>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Amount as _, Cube};

    /// Amounts with any keys of two dimensions, some of them often.
    fn amounts() -> impl Strategy<Value = Vec<((u8, u8), u64)>> {
        prop::collection::vec(((0_u8..4, 0_u8..4), prop_oneof![0..1000_u64, any::<u64>()]), 0..40)
    }

    fn cube(amounts: &[((u8, u8), u64)]) -> Cube<(u8, u8), u64> {
        amounts.iter().copied().collect()
    }

    /// Sum of the amounts of which `keep` is true, as the plain loop has it.
    fn plain(amounts: &[((u8, u8), u64)], keep: impl Fn((u8, u8)) -> bool) -> u64 {
        let kept = amounts.iter().filter(|(key, _)| keep(*key));
        kept.fold(0, |sum, (_, amount)| sum.saturating_add(*amount))
    }

    proptest! {
        /// Every way to add up is that of a plain loop over all amounts.
        #[test]
        fn sums_are_those_of_a_loop(first in amounts(), second in amounts()) {
            let mut all = cube(&first);
            all.merge(&cube(&second));
            let both: Vec<_> = first.iter().chain(&second).copied().collect();
            prop_assert_eq!(&all, &cube(&both));
            prop_assert_eq!(all.total(), plain(&both, |_| true));
            for key in 0..4 {
                let row = all.group_by(|(row, _)| Some(*row)).sum(&key);
                prop_assert_eq!(row, plain(&both, |(row, _)| row == key));
                prop_assert_eq!(all.sum(&(key, 1)), plain(&both, |own| own == (key, 1)));
            }
            let odd = all.group_by(|(row, column)| (row % 2 == 1).then_some(*column));
            prop_assert_eq!(odd.total(), plain(&both, |(row, _)| row % 2 == 1));
        }

        /// The earlier sums plus the increases are the later sums.
        #[test]
        fn increases_add_up(first in amounts(), second in amounts()) {
            let small = |of: &[((u8, u8), u64)]| -> Vec<_> {
                of.iter().map(|(key, amount)| (*key, amount >> 8)).collect()
            };
            let (was, mut now) = (cube(&small(&first)), cube(&small(&first)));
            now.merge(&cube(&small(&second)));
            let new = now.since(&was);
            prop_assert!(new.values().all(|new| !new.is_zero()));
            let mut again = was.clone();
            again.merge(&new);
            // Keys whose sum is zero are in the one or the other.
            prop_assert!(now.keys().all(|key| now.sum(key) == again.sum(key)));
            prop_assert!(was.since(&now).is_empty());
        }
    }
}
