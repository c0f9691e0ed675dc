//! Options of mke2fs to compare on an array.

use crate::mke2fs::Options;

/// The largest prime up to `n`.
fn prime(mut n: u32) -> u32 {
    let is_prime = |n: u32| (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    while n > 3 && !is_prime(n) {
        n -= 1;
    }
    n
}

/// Options to compare. Each includes the options of `base`; the first is `base` itself. `block` and
/// `chunk` are in bytes. `clusters` is true with bigalloc.
///
/// * Groups of 8 times a prime (mke2fs requires a multiple of 8): the distance between flex groups
///   then has no small factor except powers of two, which the flex size adds or removes.
/// * Group sizes for which flex groups start on chunks and are an odd number of chunks apart.
/// * Flex groups of 2 to 64 groups.
/// * All metadata packed together.
pub fn candidates(base: &Options, block: u64, chunk: u64, clusters: bool) -> Vec<Options> {
    let most = (block * 8) as u32;
    let chunk_blocks = (chunk / block).max(1) as u32;
    let mut all = vec![base.clone()];
    let mut add = |options: &Options| {
        if !all.contains(options) {
            all.push(options.clone());
        }
    };
    let own_group = base.group.is_some();
    let own_flex = base.flex.is_some();
    let mut groups = vec![base.group];
    if !own_group && !clusters {
        let first = prime(most / 8 - 1);
        groups.extend([first, prime(first - 1)].map(|p| Some(8 * p)));
    }
    let flexes: Vec<Option<u32>> =
        if own_flex { vec![base.flex] } else { (1..=6).map(|log| Some(1 << log)).collect() };
    for &group in &groups {
        for &flex in &flexes {
            let mut options = base.clone();
            options.group = group;
            options.flex = flex.filter(|&f| own_flex || f != 16);
            add(&options);
            if flex == Some(16) || own_flex {
                options.extended.push("packed_meta_blocks=1".to_owned());
                add(&options);
            }
        }
    }
    if !own_group && !clusters {
        for flex in flexes.into_iter().flatten() {
            // Group sizes for which a flex group is an odd number of chunks.
            let unit = chunk_blocks / flex.min(chunk_blocks);
            if unit < 8 || unit > most / 4 {
                continue;
            }
            let odd = (most / unit - 1) | 1;
            for odd in [odd, odd.saturating_sub(2)] {
                let group = unit * odd;
                if (256..most).contains(&group) && group.is_multiple_of(8) {
                    let mut options = base.clone();
                    options.group = Some(group);
                    options.flex = Some(flex).filter(|&f| f != 16);
                    add(&options);
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{candidates, prime};
    use crate::mke2fs::Options;

    #[test]
    fn primes() {
        assert_eq!([prime(4095), prime(4092), prime(2)], [4093, 4091, 2]);
    }

    #[test]
    fn options_of_the_user_are_kept() {
        let base = Options { group: Some(32640), inode_ratio: Some(65536), ..Options::default() };
        let all = candidates(&base, 4096, 512 << 10, false);
        assert!(all.iter().all(|o| o.group == Some(32640) && o.inode_ratio == Some(65536)));
        assert_eq!(all[0], base);
        let free = candidates(&Options::default(), 4096, 512 << 10, false);
        assert!(free.iter().any(|o| o.group == Some(32744) && o.flex.is_none()));
        assert!(free.len() < 40, "{}", free.len());
        assert!(free.iter().all(|o| o.flex.is_none_or(|f| f <= 64)));
        for chunk in [0, 4096, 1 << 20, 1 << 40] {
            assert!(!candidates(&Options::default(), 65536, chunk, true).is_empty());
        }
    }
}
